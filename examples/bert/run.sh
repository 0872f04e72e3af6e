#!/bin/sh
# Makes a small random BERT as a Hugging Face folder, compiles it for 4 ranks of this machine and trains it, in the
# folder that it is started in:
#   run.sh [STEPS]      $BRAID names the command where it is not on the PATH
set -eu
. "$(dirname "$0")/../../scripts/help.sh"
braid=${BRAID:-braid} steps=${1:-200}
here=$(cd "$(dirname "$0")" && pwd)

mkdir -p model
cat >model/config.json <<'END'
{
  "model_type": "bert", "architectures": ["BertForMaskedLM"],
  "vocab_size": 256, "max_position_embeddings": 32, "type_vocab_size": 2, "hidden_size": 64, "intermediate_size": 128,
  "num_hidden_layers": 4, "num_attention_heads": 4, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1
}
END
rm -f model/model.safetensors
"$braid" init model --seed 1 -o model/model.safetensors
cat "$here"/../*/README.md >text.txt
cc -O1 -o samples "$here/../samples.c" -lm
./samples masked samples.safetensors text.txt 32

"$braid" compile model --devices 4 --global-batch 8 -o out
"$braid" run out --init model --data samples.safetensors --steps "$steps" --metrics metrics.jsonl --save trained/
