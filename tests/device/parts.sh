#!/bin/bash
# Products in parts, each of which is summed over ranks beside the next: on the fake device their losses, gradients and
# weights are the CPU's, their memory is what the plan says, and it is the same whether or not anything runs beside.
#   parts.sh BRAID LOWER COMPARE_WEIGHTS LIBRARIES [FOLDER]
# LIBRARIES: see open_device. FOLDER, when given, keeps what was built.
set -euo pipefail
. "$(dirname "$0")/device.sh"
compare=$(realpath "$3")
open_device "$1" "$2" "$4" "${5:-}"
data=text.txt
steps=4
seed=0
write_text text.txt

# NAME MODEL: one CPU rank.
train_cpu() {
  target=cpu
  plan_model "$1" "$2" 1 1 1 8 1f1b - none -
  build "$1"
  train "$1" 1 $steps
  target=cuda
}

# NAME LIKE PARTS AXIS SCATTER: the plan of LIKE with the products in parts whose results are summed along the axis.
in_parts() {
  awk -v parts="$3" -v axis="$4" -v scatter="$5" -f "$here/parts.awk" "$2.json" >"$1.json"
  cp "$2.model" "$1.model"
  cp "$2.ranks" "$1.ranks"
  build_fake "$1"
  grep -q "part < $3" "$1/stage0.c" || fail "$1 has no product in $3 parts"
  [ "$5" = 0 ] || grep -A12 "part < $3" "$1/stage0.c" | grep -q reduce_scatter || fail "$1 scatters no part"
  train_fake "$1" "$(ranks_of "$1")" $steps $((seed++))
  check_device "$1"
}

train_cpu cpu gpt2-tiny
plan_model tensor gpt2-tiny 2 1 2 4 1f1b - none tensor
build_fake tensor
train_fake tensor 2 $steps $((seed++))
check_device tensor
check_losses cpu tensor
for parts in 2:0 4:0 8:0 2:1 4:1; do
  name=parts-${parts/:/-}
  in_parts "$name" tensor "${parts%:*}" 0 "${parts#*:}"
  check_losses cpu "$name"
  check_update cpu "$name"
done
[ "$(count parts-4-0 stream_changes)" -gt "$(count tensor stream_changes)" ] || fail "no part is summed beside another"

# In the one stream: the same bits.
for name in parts-4-0 parts-4-1; do
  cp -r "$name" "$name-alone"
  cp "$name.ranks" "$name-alone.ranks"
  (export BRAID_BESIDE=0; train_fake "$name-alone" 2 $steps $((seed++)))
  check_bits "$name" "$name-alone"
  [ "$(count "$name-alone" stream_changes)" = 0 ] || fail "$name-alone changes streams"
done

# In halves, with replicas and computing forward again.
for precision in bf16 fp16; do
  train_cpu "cpu-$precision" llama-tiny
  plan_model "all-$precision" llama-tiny 4 1 2x2 4 1f1b 0 full batch,tensor
  for parts in 4:0 2:1; do
    name=$precision-${parts/:/-}
    in_parts "$name" "all-$precision" "${parts%:*}" 1 "${parts#*:}"
    check_losses "cpu-$precision" "$name" 5e-3
  done
done
[ -z "$(ls shared)" ] || fail "communicators were left behind: $(ls shared)"
finish
