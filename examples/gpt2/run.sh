#!/bin/sh
# Makes a small random GPT-2 as a Hugging Face folder, compiles it for 4 ranks of this machine and trains it, in the
# folder that it is started in:
#   run.sh [STEPS]      $BRAID names the command where it is not on the PATH
set -eu
. "$(dirname "$0")/../../scripts/help.sh"
braid=${BRAID:-braid} steps=${1:-200}
here=$(cd "$(dirname "$0")" && pwd)

mkdir -p model
cat >model/config.json <<'END'
{
  "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
  "vocab_size": 256, "n_positions": 64, "n_embd": 64, "n_layer": 4, "n_head": 4,
  "activation_function": "gelu_new", "attn_pdrop": 0.1, "embd_pdrop": 0.1, "resid_pdrop": 0.1
}
END
rm -f model/model.safetensors
"$braid" init model --seed 1 -o model/model.safetensors
cat "$here"/../*/README.md >text.txt

"$braid" compile model --devices 4 --global-batch 8 -o out
"$braid" run out --init model --data text.txt --steps "$steps" --metrics metrics.jsonl --save trained/
