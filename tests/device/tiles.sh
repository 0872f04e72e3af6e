#!/bin/bash
# Gradients of attention in tiles, as cuDNN makes them where those of a head's scores are too many: of one rank, and of ranks that
# have a part of the queries each, causal and with grouped heads, and with a window. The losses are those of the gradients made whole.
#   tiles.sh BRAID LOWER LIBRARIES MODEL [FOLDER]
# MODEL: a Llama of two key-value heads for four of queries.
set -euo pipefail
model=$(realpath "$4")
. "$(dirname "$0")/device.sh"
open_device "$1" "$2" "$3" "${5:-}"
data=text.txt batch=2 target=cuda precision=bf16 seed=0 steps=2
write_text text.txt
mkdir tokens windowed
sed 's/\("max_position_embeddings"\): .*/\1: 1024,/; s/\("hidden_size"\): .*/\1: 32,/; s/\("num_hidden_layers"\): .*/\1: 1,/' \
  "$model/config.json" >tokens/config.json
sed 's/"model_type": "llama"/"model_type": "mistral", "sliding_window": 300/; s/LlamaFor/MistralFor/' tokens/config.json >windowed/config.json

# NAME RANK: what cuDNN ran there.
by_cudnn() { sed 's/.*"dnn": \([0-9]*\).*/\1/' "$1/device.$2"; }

# NAME MODEL RANKS MESH CUT GROWS RUNS: with cuDNN asking for GROWS times the workspace none has room for a head of the last rank, but for tiles
# of 512 rows: so many of each of its two.
check_tiles() {
  plan_model "$1" "$2" "$3" 1 "$4" 1 1f1b - none "$5"
  build_fake "$1"
  train_fake "$1" "$3" $steps $((seed++))
  cp -r "$1" "$1-tiles"
  cp "$1.ranks" "$1-tiles.ranks"
  (export BD_FAKE_CUDNN_GROWS="$6"; train_fake "$1-tiles" "$3" $steps $((seed++)))
  local name
  for name in "$1" "$1-tiles"; do
    grep -q "attention by cuDNN 9.19.0$" "$name/log.0" || fail "$name does not use cuDNN"
    check_device "$name"
  done
  check_losses "$1" "$1-tiles" 1e-4
  local last=$(($3 - 1)) micro_batches=$((batch * steps))
  local more=$(($(by_cudnn "$1-tiles" $last) - $(by_cudnn "$1" $last)))
  # Among several ranks each plan has run once before: of tiles there are two.
  [ $more = $((micro_batches * (2 * $7 - 1) + ($3 > 1))) ] || fail "$1-tiles has $more runs more than $1"
}
check_tiles one tokens 1 1 - 40 3
check_tiles parts tokens 2 2 context 60 2
check_tiles window windowed 1 1 - 40 2
finish
