#!/bin/sh
# Makes a small random ResNet-50 as an ONNX file and images, compiles it for 4 ranks of this machine and trains it, in
# the folder that it is started in:
#   run.sh [STEPS]      $BRAID names the command where it is not on the PATH
set -eu
. "$(dirname "$0")/../../scripts/help.sh"
braid=${BRAID:-braid} steps=${1:-100}
here=$(cd "$(dirname "$0")" && pwd)

cc -O1 -o make_model "$here/model.c" "$here/../onnx_writer.c" -lm
cc -O1 -o make_arrays "$here/../arrays.c"
./make_model model.onnx 8 32 10 3 4 6 3
mkdir -p data
./make_arrays images data 32

"$braid" import model.onnx --loss cross-entropy -o model.braid --weights model.safetensors
"$braid" compile model.braid --devices 4 --global-batch 16 --micro-batch 16 --optimizer momentum -o out
"$braid" run out --init model.safetensors --data data --steps "$steps" --lr 0.05 --weight-decay 1e-4 --clip 0 \
  --metrics metrics.jsonl --save trained.safetensors
