#!/bin/bash
# Training in bf16 with gradients in bf16: close to f32, alike under every plan, the same bits where depth, recompute and
# who updates what are all that differs, and memory as planned, of which gradients have half of what they have in f32.
#   gradients.sh BRAID [FOLDER]
set -euo pipefail
braid=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
. "$here/road.sh"
open_folder "${2:-}"
write_text text.txt
steps=100
precision=bf16 masters=none

plan_model wide gpt2-tiny 1 1 1 8 1f1b - none -
build wide
train wide 1 $steps
gradients=bf16 train_without_masters wide 1e-3

gradient_bytes() {
  sed -n 's/.*"segments": \[\([^]]*\)\].*/\1/p' "$1/report.json" | cut -d, -f3
}
wide=$(gradient_bytes wide) narrow=$(gradient_bytes one)
[ -n "$wide" ] && [ $((2 * narrow)) -lt $((wide + wide / 50)) ] || fail "gradients have $narrow bytes, in f32 $wide"
finish
