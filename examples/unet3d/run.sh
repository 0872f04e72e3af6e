#!/bin/sh
# Makes a small random 3-D U-Net as an ONNX file and volumes, compiles it for 4 ranks of this machine and trains it, in
# the folder that it is started in:
#   run.sh [STEPS]      $BRAID names the command where it is not on the PATH
set -eu
. "$(dirname "$0")/../../scripts/help.sh"
braid=${BRAID:-braid} steps=${1:-100}
here=$(cd "$(dirname "$0")" && pwd)

cc -O1 -o make_model "$here/model.c" "$here/../onnx_writer.c" -lm
cc -O1 -o make_arrays "$here/../arrays.c"
./make_model model.onnx 4 16 3 3
mkdir -p data
./make_arrays volumes data 16

"$braid" import model.onnx --loss dice -o model.braid --weights model.safetensors
"$braid" compile model.braid --devices 4 --global-batch 8 --micro-batch 4 --optimizer momentum -o out
"$braid" run out --init model.safetensors --data data --steps "$steps" --lr 0.03 --weight-decay 3e-5 \
  --metrics metrics.jsonl --save trained.safetensors
