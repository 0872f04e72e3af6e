#!/bin/bash
# Checkpoints of programs on the fake device: runs that go on from them end in the bits of a run that was not
# interrupted, with updates that are gathered while the next step goes on; and programs for CPUs write what those for
# GPUs read, and back.
#   checkpoint.sh BRAID LOWER LIBRARIES [FOLDER]
set -euo pipefail
. "$(dirname "$0")/device.sh"
open_device "$1" "$2" "$3" "${4:-}"
data=text.txt target=cuda seed=0
write_text text.txt

# NAME RANKS MESH ZERO CUT
try_plan() {
  local options=(--checkpoint "$1/kept" --checkpoint-every 1 --checkpoint-keep 9)
  plan_model "$1" gpt2-tiny "$2" 1 "$3" 4 1f1b "$4" none "$5"
  build_fake "$1"
  train_fake "$1" "$2" 4 $((seed++))
  cp "$1/weights.safetensors" "$1/whole.safetensors"
  cut -d, -f1-3 "$1/metrics.jsonl" >"$1/whole.jsonl"
  train_fake "$1" "$2" 4 $((seed++)) "${options[@]}"
  check_device "$1"
  check_end "$1" 'with checkpoints'
  rm -r "$1/kept/step-00000004" "$1/kept/step-00000003"
  train_fake "$1" "$2" 4 $((seed++)) --resume "$1/kept"
  check_end "$1" resumed
}
check_end() {
  cut -d, -f1-3 "$1/metrics.jsonl" | cmp -s - "$1/whole.jsonl" || fail "$1 has other losses $2"
  cmp -s "$1/weights.safetensors" "$1/whole.safetensors" || fail "$1 ends with other weights $2"
}
precision=bf16
try_plan zero   2 2 0   batch
try_plan zero-2 2 2 2:0 batch
masters=none try_plan rounded 2 2 2:0 batch
optimizer=adafactor try_plan adafactor 2 2 - tensor

# The CPU's plan is one rank's.
target=cpu plan_model host gpt2-tiny 1 1 1 8 1f1b - none -
build host
mpirun --allow-run-as-root -n 1 host/train --data text.txt --steps 2 --resume zero/kept --checkpoint back --save host.safetensors 2>log </dev/null
train_fake zero 2 2 $((seed++))
cmp -s host.safetensors zero/weights.safetensors || fail 'the CPU reads other weights than the GPU wrote'
train_fake zero 2 4 $((seed++)) --resume back
check_end zero 'on the way through the CPU'
finish
