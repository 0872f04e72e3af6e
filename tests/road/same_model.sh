#!/bin/bash
# One model, many plans: the losses agree with one rank's, the bits agree where they must, and memory
# is what the plan says.
#   same_model.sh BRAID [FOLDER]
# FOLDER, when given, keeps what was built.
set -euo pipefail
braid=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
. "$here/road.sh"
open_folder "${2:-}"
write_text text.txt

# NAME MODEL RANKS STAGES MESH MICRO-BATCH SCHEDULE ZERO RECOMPUTE CUT; '-' leaves the choice to the planner.
read_plans() { grep -vE '^ *(#|$)'; }
plans=$(read_plans <<'END'
  gpt2            gpt2-tiny     1 1 1   8 1f1b  -  none -
  gpt2-batch      gpt2-tiny     2 1 2   8 1f1b  -  none batch
  gpt2-tensor     gpt2-tiny     2 1 2   4 1f1b  -  none tensor
  gpt2-sequence   gpt2-tiny     2 1 2   8 1f1b  -  none sequence
  gpt2-mixed      gpt2-tiny     2 1 2   4 1f1b  -  full mixed
  gpt2-zero       gpt2-tiny     4 1 4   4 1f1b  0  full batch
  gpt2-sequence-3 gpt2-tiny     6 2 3   4 gpipe -  full sequence
  gpt2-both       gpt2-tiny     4 1 2x2 4 1f1b  0  none batch,tensor
  gpt2-all        gpt2-tiny     8 2 2x2 2 1f1b  0  full batch,mixed
  gpt2-corner     gpt2-tiny     8 2 2x2 4 gpipe -  none sequence,tensor
  gpt2-free       gpt2-tiny     4 2 2   4 1f1b  1  full -
  # Blocks that change their form, within a stage and between stages.
  gpt2-change     gpt2-tiny     4 1 4   4 1f1b  -  none batch/sequence
  gpt2-change-2   gpt2-tiny     8 2 2x2 4 1f1b  0  full batch,sequence/sequence,batch
  # Gradients (2) and weights (3) in parts over an axis that has replicas of them.
  gpt2-zero-2     gpt2-tiny     4 1 2x2 2 1f1b  2:0 none batch,tensor
  gpt2-zero-3     gpt2-tiny     4 1 2x2 2 1f1b  3:0 full batch,tensor
  gpt2-zero-3-4   gpt2-tiny     8 2 4   4 gpipe 3:0 none batch
  gpt2-pinned-2   gpt2-tiny     4 2 2   4 1f1b  2   -    -
  # The same bits: equal cut and micro-batch; only depth, schedule and recompute differ.
  depth-1         gpt2-tiny     2 1 2   2 1f1b  -  none batch
  depth-1-full    gpt2-tiny     2 1 2   2 1f1b  -  full batch
  depth-2         gpt2-tiny     4 2 2   2 1f1b  -  none batch
  depth-2-gpipe   gpt2-tiny     4 2 2   2 gpipe -  full batch
  depth-4         gpt2-tiny     8 4 2   2 1f1b  -  full batch
  wide-1          gpt2-tiny     2 1 2   4 1f1b  -  full tensor
  wide-2          gpt2-tiny     4 2 2   4 gpipe -  none tensor
  llama           llama-tiny    1 1 1   8 1f1b  -  none -
  llama-batch     llama-tiny    2 1 2   4 1f1b  0  full batch
  llama-tensor    llama-tiny    2 1 2   8 1f1b  -  none tensor
  llama-sequence  llama-tiny    4 2 2   4 1f1b  -  none sequence
  llama-both      llama-tiny    8 2 2x2 4 gpipe 0  full batch,tensor
  llama-change    llama-tiny    4 2 2   4 gpipe -  none sequence/batch
  llama-found     llama-tiny    8 1 2x4 4   -    -  full -
  llama-axes      llama-tiny    8 1 2x2x2 - -  -  -    -
  llama-free      llama-tiny    4 1 4   -  -    -  -    -
  llama-zero-2    llama-tiny    4 2 2   4 1f1b  2:0 none sequence
  llama-zero-3    llama-tiny    4 1 2x2 8 1f1b  3:1 full tensor,batch
  llama-pinned-3  llama-tiny    4 1 4   4 -     3   -    -
  odd             gpt2-tiny-25h 1 1 1   8 1f1b  -  none -
  odd-tensor      gpt2-tiny-25h 2 1 2   8 1f1b  -  none tensor
  odd-tensor-3    gpt2-tiny-25h 3 1 3   4 1f1b  -  none tensor
  odd-mixed       gpt2-tiny-25h 8 2 4   4 1f1b  -  full mixed
  odd-pipeline    gpt2-tiny-25h 3 3 1   2 1f1b  -  none -
  odd-zero-3      gpt2-tiny-25h 6 2 3   4 1f1b  3:0 none sequence
END
)

while read -r name model ranks stages mesh micro schedule zero recompute cut; do
  plan_model "$name" "$model" "$ranks" "$stages" "$mesh" "$micro" "$schedule" "$zero" "$recompute" "$cut"
  build "$name"
  train "$name" "$ranks" 20
  check_memory "$name"
  case $model in gpt2-tiny) like=gpt2 ;; llama-tiny) like=llama ;; *) like=odd ;; esac
  [ "$name" = "$like" ] || check_losses "$like" "$name"
done <<<"$plans"

# What the set covers is read from the plans that were built.
check_covered 'a plan cuts samples'          '"op": "attention".*"split": "b"'
check_covered 'a plan cuts heads'            '"op": "attention".*"split": "k"'
check_covered 'a plan cuts the vocabulary'   '"op": "xent".*"split": "v"'
check_covered 'a plan cuts tokens'           '"op": "layernorm".*"split": "B"'
check_covered 'a plan cuts samples and heads' '"op": "attention".*"split": "bk"'
check_covered 'a plan saves'                 '"value": "activated".*"saved": true'
check_covered 'dropout is on'                '"op": "dropout"'
check_covered 'a plan splits optimizer states' '"zero_axes": \[0\]'
check_covered 'a plan splits gradients'      '"dims": \[null, 0\], "gradient": \[1, 0\]'
check_covered 'a plan splits weights'        '"value": "wpe", "dims": \[0\]'
check_covered 'a plan runs GPipe'            '"schedule": "gpipe"'
check_covered 'a plan has four stages'       '"stages": 4'
check_covered 'a plan changes forms'         '"strategy": "block.1"'
check_change llama-found block.0 out head.0 x

check_bits depth-1 depth-1-full depth-2 depth-2-gpipe depth-4
check_bits gpt2-tensor wide-1 wide-2
for name in gpt2-all llama-sequence; do
  cp -r "$name" "$name-again"
  train "$name-again" "$(ranks_of "$name")" 20
  check_bits "$name" "$name-again"
done

finish
