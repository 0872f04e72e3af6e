#!/bin/bash
# Programs with 8192 tokens on the fake device: their arena has room for what cuDNN wants for a head's gradients.
# No step is done: what attention runs by is settled before the first.
#   long.sh BRAID LOWER LIBRARIES MODEL [FOLDER]
# MODEL: a Llama of two key-value heads for four of queries.
set -euo pipefail
model=$(realpath "$4")
. "$(dirname "$0")/device.sh"
open_device "$1" "$2" "$3" "${5:-}"
data=text.txt batch=2 target=cuda seed=0
write_text text.txt
mkdir long
sed 's/\("max_position_embeddings"\): .*/\1: 8192,/; s/\("hidden_size"\): .*/\1: 64,/; s/\("num_hidden_layers"\): .*/\1: 1,/' \
  "$model/config.json" >long/config.json

# NAME PRECISION MIB: plans a program whose library segment is so large, and builds it.
prepare() {
  precision=$2
  plan_model "$1" long 1 1 1 2 1f1b - none -
  build_fake "$1"
  grep -q "\.library_bytes = $(($3 << 20))," "$1/main.c" || fail "$1 has no library segment of $3 MiB"
}

# NAME LINE [VARIABLE=VALUE]: starts it, and looks for what it says of attention and for the arena that was planned.
settle() {
  (
    export "${3:-BD_FAKE_CUDNN_GROWS=1}"
    train_fake "$1" 1 0 $((seed++))
  )
  grep -q "$2" "$1/log.0" || fail "$1 does not say: $2"
  local planned taken
  planned=$(sed -n 's/.*"arena_bytes": \([0-9]*\),.*/\1/p' "$1/plan.json")
  taken=$(sed 's/.*"device_peak_bytes": \([0-9]*\),.*/\1/' "$1/device.0")
  [ "$planned" = "$taken" ] || fail "$1 takes $taken bytes of the $planned that are planned"
}

# Two heads' scores have 256 MiB, their sums 1 MiB.
prepare bf16 bf16 258
settle bf16 "attention by cuDNN 9.19.0$"
settle bf16 "attention by cuDNN 9.19.0$" BD_FAKE_CUDNN_GROWS=2 # in tiles
settle bf16 "for 1 of 2 shapes, .*: it needs .* bytes of workspace, of .*$" BD_FAKE_CUDNN_GROWS=1000
prepare fp16 fp16 258
settle fp16 "attention by cuDNN 9.19.0$"
prepare fp32 fp32 32
finish
