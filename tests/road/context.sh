#!/bin/bash
# Attention cut along its queries: a rank has some of them and all keys and values, also where heads are cut as well. The losses are
# those of one rank, with dropout, under a causal mask, in f32 and bf16.
#   context.sh BRAID [FOLDER]
# FOLDER, when given, keeps what was built.
set -euo pipefail
braid=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
. "$here/road.sh"
open_folder "${2:-}"
write_text text.txt
write_llama many 4 2 192 0.1 # parts of 48 and 96 tokens, where tiles have 64
write_llama few 2 1 40 0.0   # of 10 and 20

# NAME MODEL RANKS STAGES MESH MICRO-BATCH SCHEDULE ZERO RECOMPUTE CUT; see same_model.txt.
plans=$(read_plans <<'END'
  many-rank   many 1 1 1           8 1f1b  - none -
  many-two    many 2 1 2           8 1f1b  - none context
  many-four   many 4 1 4           4 1f1b  - full context
  many-heads  many 4 1 2x2         4 gpipe - none context,tensor
  many-batch  many 4 1 2x2         4 1f1b  0 full batch,context
  many-stages many 4 2 2           4 1f1b  - none context
  many-found  many 4 1 sp=4        8 -     - -    -
  many-both   many 4 1 sp=2,tp=2   8 -     - -    -
  few-rank    few  1 1 1           8 1f1b  - none -
  few-four    few  4 1 4           4 1f1b  - none context
  few-group   few  4 1 2x2         4 1f1b  - full context,group
  few-found   few  4 1 sp=4        8 -     3 full -
END
)
train_in_both 10 "$plans"
check_attention_split t many-two many-four many-stages many-found few-four few-found
check_attention_split tk many-heads many-both
check_attention_split tg few-group
check_attention_split bt many-batch
finish
