#!/bin/bash
# Attention cut within key-value heads: more ranks than there are of these, each with some of the query heads of one. The losses are
# those of one rank, with dropout, in f32 and bf16.
#   heads.sh BRAID [FOLDER]
# FOLDER, when given, keeps what was built.
set -euo pipefail
braid=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
. "$here/road.sh"
open_folder "${2:-}"
write_text text.txt
write_llama one 4 1 32 0.1
write_llama two 8 2 32 0.1

# NAME MODEL RANKS STAGES MESH MICRO-BATCH SCHEDULE ZERO RECOMPUTE CUT; see same_model.txt.
plans=$(read_plans <<'END'
  one-rank   one 1 1 1    8 1f1b  - none -
  one-group  one 4 1 4    8 1f1b  - none group
  one-twice  one 4 1 2x2  8 gpipe - full group,group
  one-batch  one 4 1 2x2  4 1f1b  0 full batch,group
  one-stages one 4 2 2    4 1f1b  - none group
  one-found  one 4 1 tp=4 8 -     - none -
  two-rank   two 1 1 1    8 1f1b  - none -
  two-group  two 4 1 2x2  4 1f1b  - none tensor,group
  two-stages two 8 2 2x2  4 1f1b  - full tensor,group
  two-found  two 4 1 tp=4 8 -     - none -
END
)
train_in_both 20 "$plans"
check_attention_split g one-group one-stages one-found
check_attention_split gg one-twice
check_attention_split bg one-batch
check_attention_split kg two-group two-stages
finish
