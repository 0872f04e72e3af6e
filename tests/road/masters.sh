#!/bin/bash
# Training in bf16 without masters: close to f32, alike under every plan, the same bits where depth, recompute and
# who updates what are all that differs, memory as planned, and weights that come back
# from a file as they went.
#   masters.sh BRAID [FOLDER]
set -euo pipefail
braid=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
. "$here/road.sh"
open_folder "${2:-}"
write_text text.txt
steps=100

precision=fp32 plan_model f32 gpt2-tiny 1 1 1 8 1f1b - none -
build f32
train f32 1 $steps
precision=bf16 masters=none train_without_masters f32 2e-3

# What a file has is what the program has: f32 that are numbers of bf16, and come back as they went.
again() {
  mpirun --allow-run-as-root --oversubscribe -n "$2" "$1/train" --steps 0 --seed 2 --init "$3" --save "$4" \
    2>log </dev/null || fail "$1 does not load $3"
}
for name in one zero-2 zero-3 mixed; do
  again $name "$(ranks_of $name)" one/weights.safetensors back.safetensors
  cmp -s one/weights.safetensors back.safetensors || fail "weights change on the way through $name"
done
finish
