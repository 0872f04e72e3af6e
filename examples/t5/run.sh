#!/bin/sh
# Makes a small random T5 as a Hugging Face folder, compiles it for 4 ranks of this machine and trains it, in the
# folder that it is started in:
#   run.sh [STEPS]      $BRAID names the command where it is not on the PATH
set -eu
. "$(dirname "$0")/../../scripts/help.sh"
braid=${BRAID:-braid} steps=${1:-200}
here=$(cd "$(dirname "$0")" && pwd)

mkdir -p model
cat >model/config.json <<'END'
{
  "model_type": "t5", "architectures": ["T5ForConditionalGeneration"],
  "vocab_size": 256, "n_positions": 24, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_heads": 4,
  "num_layers": 2, "num_decoder_layers": 2, "feed_forward_proj": "gated-gelu", "dropout_rate": 0.1
}
END
rm -f model/model.safetensors
"$braid" init model --seed 1 -o model/model.safetensors
cat "$here"/../*/README.md >text.txt
cc -O1 -o samples "$here/../samples.c" -lm
./samples copied samples.safetensors text.txt 24

"$braid" compile model --devices 4 --global-batch 8 -o out
"$braid" run out --init model --data samples.safetensors --steps "$steps" --metrics metrics.jsonl --save trained/
