#!/bin/bash
# Attention cut along its queries, of which ranks swap halves, so that each has as much to do under a causal mask: on two, three and
# four ranks, with heads, samples and stages cut as well. The losses are those of one rank, with dropout, in f32 and bf16.
#   balanced.sh BRAID [FOLDER]
# FOLDER, when given, keeps what was built.
set -euo pipefail
braid=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
. "$here/road.sh"
open_folder "${2:-}"
write_text text.txt
write_llama many 4 2 192 0.1 # chunks of 48 and 32 tokens, where tiles have 64
write_llama few 2 1 40 0.0   # of 10 and 5

# NAME MODEL RANKS STAGES MESH MICRO-BATCH SCHEDULE ZERO RECOMPUTE CUT; see same_model.txt.
plans=$(read_plans <<'END'
  many-rank   many 1 1 1           8 1f1b  - none -
  many-two    many 2 1 2           8 1f1b  - none balanced
  many-three  many 3 1 3           8 1f1b  - full balanced
  many-heads  many 4 1 2x2         4 gpipe - none balanced,tensor
  many-batch  many 4 1 2x2         4 1f1b  0 full batch,balanced
  many-stages many 4 2 2           4 1f1b  - none balanced
  few-rank    few  1 1 1           8 1f1b  - none -
  few-four    few  4 1 4           4 1f1b  - none balanced
  few-twice   few  4 1 2x2         8 1f1b  - full balanced,balanced
  few-group   few  4 1 2x2         4 1f1b  - none balanced,group
END
)
train_in_both 10 "$plans"
check_attention_split t many-two many-three many-stages few-four
check_attention_split tk many-heads
check_attention_split tg few-group
check_attention_split tt few-twice
check_attention_split bt many-batch
for name in two three heads batch stages; do
  grep -q '"op": "attention".*"balanced": true' "many-$name-bf16/plan.json" || fail "ranks of many-$name swap nothing"
done
finish
