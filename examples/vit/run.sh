#!/bin/sh
# Makes a small random ViT as a Hugging Face folder, compiles it for 4 ranks of this machine and trains it, in the
# folder that it is started in:
#   run.sh [STEPS]      $BRAID names the command where it is not on the PATH
set -eu
. "$(dirname "$0")/../../scripts/help.sh"
braid=${BRAID:-braid} steps=${1:-200}
here=$(cd "$(dirname "$0")" && pwd)

mkdir -p model
cat >model/config.json <<'END'
{
  "model_type": "vit", "architectures": ["ViTForImageClassification"],
  "image_size": 16, "patch_size": 4, "num_channels": 1, "hidden_size": 64, "intermediate_size": 128,
  "num_hidden_layers": 4, "num_attention_heads": 4, "num_labels": 10
}
END
rm -f model/model.safetensors
"$braid" init model --seed 1 -o model/model.safetensors
cc -O1 -o samples "$here/../samples.c" -lm
./samples images samples.safetensors 16

"$braid" compile model --devices 4 --global-batch 8 -o out
"$braid" run out --init model --data samples.safetensors --steps "$steps" --metrics metrics.jsonl --save trained/
