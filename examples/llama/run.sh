#!/bin/sh
# Makes a small random Llama as a Hugging Face folder, compiles it for 4 ranks of this machine and trains it, in the
# folder that it is started in:
#   run.sh [STEPS]      $BRAID names the command where it is not on the PATH
set -eu
. "$(dirname "$0")/../../scripts/help.sh"
braid=${BRAID:-braid} steps=${1:-200}
here=$(cd "$(dirname "$0")" && pwd)

mkdir -p model
cat >model/config.json <<'END'
{
  "model_type": "llama", "architectures": ["LlamaForCausalLM"],
  "vocab_size": 256, "max_position_embeddings": 64, "hidden_size": 64, "intermediate_size": 160,
  "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4, "rope_theta": 10000.0
}
END
rm -f model/model.safetensors
"$braid" init model --seed 1 -o model/model.safetensors
cat "$here"/../*/README.md >text.txt

"$braid" compile model --devices 4 --global-batch 8 -o out
"$braid" run out --init model --data text.txt --steps "$steps" --metrics metrics.jsonl --save trained/
