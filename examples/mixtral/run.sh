#!/bin/sh
# Makes a small random Mixtral as a Hugging Face folder, compiles it for 4 ranks of this machine and trains it, in the
# folder that it is started in:
#   run.sh [STEPS]      $BRAID names the command where it is not on the PATH
set -eu
. "$(dirname "$0")/../../scripts/help.sh"
braid=${BRAID:-braid} steps=${1:-200}
here=$(cd "$(dirname "$0")" && pwd)

mkdir -p model
cat >model/config.json <<'END'
{
  "model_type": "mixtral", "architectures": ["MixtralForCausalLM"],
  "vocab_size": 256, "max_position_embeddings": 32, "hidden_size": 64, "intermediate_size": 96,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "sliding_window": null,
  "num_local_experts": 4, "num_experts_per_tok": 2, "expert_capacity": 32, "output_router_logits": true, "router_aux_loss_coef": 0.02
}
END
rm -f model/model.safetensors
"$braid" init model --seed 1 -o model/model.safetensors
cat "$here"/../*/README.md >text.txt

"$braid" compile model --devices 4 --global-batch 8 --partial "$here/experts.json" -o out
"$braid" run out --init model --data text.txt --steps "$steps" --metrics metrics.jsonl --save trained/
