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

plans=$(read_plans "$here/same_model.txt")

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
