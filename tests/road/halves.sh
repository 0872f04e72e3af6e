#!/bin/bash
# Training in bf16: close to f32, alike under every plan, the same bits where depth and recompute are all that
# differs, memory as planned, and weights that come back from a file as they went.
#   halves.sh BRAID [FOLDER]
set -euo pipefail
braid=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
. "$here/road.sh"
open_folder "${2:-}"
write_text text.txt

# NAME MODEL RANKS STAGES MESH MICRO-BATCH SCHEDULE ZERO RECOMPUTE CUT; see same_model.txt.
plans=$(grep -vE '^ *(#|$)' <<'END'
  gpt2           gpt2-tiny     1 1 1   8 1f1b  - none -
  gpt2-batch     gpt2-tiny     2 1 2   8 1f1b  - full batch
  gpt2-tensor    gpt2-tiny     2 1 2   8 1f1b  - none tensor
  gpt2-sequence  gpt2-tiny     2 1 2   8 1f1b  - none sequence
  gpt2-all       gpt2-tiny     8 2 2x2 2 1f1b  0 full batch,mixed
  gpt2-free      gpt2-tiny     4 2 2   4 1f1b  1 full -
  depth-1        gpt2-tiny     2 1 2   2 1f1b  0 none batch
  depth-2        gpt2-tiny     4 2 2   2 gpipe 0 full batch
  depth-4        gpt2-tiny     8 4 2   2 1f1b  0 full batch
  llama          llama-tiny    1 1 1   8 1f1b  - none -
  llama-both     llama-tiny    8 2 2x2 4 gpipe 0 full batch,tensor
  odd            gpt2-tiny-25h 1 1 1   8 1f1b  - none -
  odd-tensor-3   gpt2-tiny-25h 3 1 3   4 1f1b  - none tensor
END
)

for model in gpt2 llama odd; do
  precision=fp32 plan_model "$model-f32" "$(awk -v name=$model '$1 == name { print $2 }' <<<"$plans")" \
    1 1 1 8 1f1b - none -
  build "$model-f32"
  train "$model-f32" 1 20
done
while read -r name model ranks stages mesh micro schedule zero recompute cut; do
  precision=bf16 plan_model "$name" "$model" "$ranks" "$stages" "$mesh" "$micro" "$schedule" "$zero" \
    "$recompute" "$cut"
  build "$name"
  train "$name" "$ranks" 20
  check_memory "$name"
  case $model in gpt2-tiny) like=gpt2 ;; llama-tiny) like=llama ;; *) like=odd ;; esac
  if [ "$name" = "$like" ]; then
    check_losses "$like-f32" "$name" 2e-3
  else
    check_losses "$like" "$name" 1e-3
  fi
done <<<"$plans"

check_bits depth-1 depth-2 depth-4
cp -r gpt2-all gpt2-all-again
train gpt2-all-again 8 20
check_bits gpt2-all gpt2-all-again

# Masters go to a file in full and come back under another plan.
start() {
  mpirun --allow-run-as-root --oversubscribe -n "$2" "$1/train" --steps 0 --seed 1 --init "$3" --save "$4" \
    2>log </dev/null || fail "$1 does not load $3"
}
start gpt2-all 8 gpt2/weights.safetensors back.safetensors
cmp -s gpt2/weights.safetensors back.safetensors || fail "weights change on the way through a file"
start gpt2-f32 1 gpt2/weights.safetensors back.safetensors
cmp -s gpt2/weights.safetensors back.safetensors || fail "masters are not stored in f32"

finish
