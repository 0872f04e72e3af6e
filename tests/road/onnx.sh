#!/bin/bash
# A GPT as PyTorch exports it to ONNX, from the file to training: under several plans the losses agree with one
# rank's, from the exported weights too, and memory is what the plan says. Written out in primitives it trains the same,
# and the built-in GPT-2 of the same weights does, in the same memory.
#   onnx.sh BRAID MAKE_GPT_ONNX [FOLDER]
set -euo pipefail
braid=$(realpath "$1")
make_gpt_onnx=$(realpath "$2")
here=$(dirname "$(realpath "$0")")
. "$here/road.sh"
open_folder "${3:-}"
write_text text.txt
"$make_gpt_onnx" 4 32 2 256 16 logits model.onnx model.bin
"$braid" import model.onnx --seq 16 --loss cross-entropy -o model.braid --weights model.safetensors >summary
[ "$(grep -c 'call @model.1(' model.braid)" = 4 ] || fail 'the layers are no calls of one function'

# The arena of the first rank.
arena_of() { grep -o '"arena_bytes": [0-9]*' "$1/report.json" | head -1 | cut -d' ' -f2; }

# NAME RANKS STAGES MESH MICRO-BATCH RECOMPUTE
plans=$(grep -vE '^ *(#|$)' <<'END'
  one       1 1 1   8 none
  free      4 - -   - -
  wide      4 1 4   8 none
  crossed   4 1 2x2 4 full
  pipeline  4 2 2   2 full
END
)
train_plans model.braid 5 <<<"$plans"

# The same file with its primitives, and its weights as a Hugging Face folder, which the built-in model reads.
"$braid" import model.onnx --seq 16 --loss cross-entropy -o written.braid --no-recover >/dev/null
mkdir folder
cp model.safetensors folder/
cat >folder/config.json <<'END'
{"model_type": "gpt2", "n_layer": 4, "n_embd": 32, "n_head": 2, "vocab_size": 256, "n_positions": 16, "tie_word_embeddings": false,
 "attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0}
END
plan_model built folder 1 1 1 8 - - none -
plan_model written written.braid 1 1 1 8 - - none -
build built
build written

# The weights of the file, which the first loss shows: scores near zero make the logarithm of 256.
for name in one pipeline written built; do
  mpirun --allow-run-as-root --oversubscribe -n "$(ranks_of $name)" $name/train --steps 3 --data text.txt --seed 2 \
    --init model.safetensors --metrics $name/metrics.jsonl --report $name/report.json 2>$name/log </dev/null
done
for name in pipeline written built; do check_losses one $name; done
[ "$(arena_of one)" = "$(arena_of built)" ] || fail 'what is recovered takes more memory than the built-in model'
finish
