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
# NAME RANKS STAGES MESH MICRO-BATCH SCHEDULE ZERO RECOMPUTE CUT; see same_model.sh.
while read -r name ranks stages mesh micro schedule zero recompute cut; do
  gradients=bf16 plan_model "$name" gpt2-tiny "$ranks" "$stages" "$mesh" "$micro" "$schedule" "$zero" "$recompute" \
    "$cut"
  build "$name"
  case $name in one) count=$steps like=wide bound=1e-3 ;; *) count=20 like=one bound=2e-4 ;; esac
  train "$name" "$ranks" $count
  check_memory "$name"
  mkdir -p "$name.expected"
  head -$count "$like/metrics.jsonl" >"$name.expected/metrics.jsonl"
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

gradient_bytes() {
  sed -n 's/.*"segments": \[\([^]]*\)\].*/\1/p' "$1/report.json" | cut -d, -f3
}
wide=$(gradient_bytes wide) narrow=$(gradient_bytes one)
[ -n "$wide" ] && [ $((2 * narrow)) -lt $((wide + wide / 50)) ] || fail "gradients have $narrow bytes, in f32 $wide"
finish
