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
# NAME RANKS STAGES MESH MICRO-BATCH SCHEDULE ZERO RECOMPUTE CUT; see same_model.sh.
while read -r name ranks stages mesh micro schedule zero recompute cut; do
  precision=bf16 masters=none plan_model "$name" gpt2-tiny "$ranks" "$stages" "$mesh" "$micro" "$schedule" "$zero" \
    "$recompute" "$cut"
  build "$name"
  case $name in one) count=$steps like=f32 bound=2e-3 ;; *) count=20 like=one bound=2e-4 ;; esac
  train "$name" "$ranks" $count
  check_memory "$name"
  head -$count "$like/metrics.jsonl" >"$name.like"
  mkdir -p "$name.expected"
  mv "$name.like" "$name.expected/metrics.jsonl"
  check_losses "$name.expected" "$name" $bound
done <<'END'
  one     1 1 1   8 1f1b  -   none -
  depth-1 2 1 2   2 1f1b  -   none batch
  zero-1  2 1 2   2 1f1b  0   full batch
  depth-2 4 2 2   2 gpipe 0   full batch
  tensor  2 1 2   8 1f1b  -   none tensor
  zero-2  4 1 2x2 4 1f1b  2:0 none batch,tensor
  zero-3  4 2 2   4 1f1b  3:0 full batch
  mixed   8 2 2x2 4 gpipe 0   full batch,mixed
END
check_bits depth-1 zero-1 depth-2

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
