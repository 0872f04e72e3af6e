#!/bin/bash
# Programs on the fake device whose ranks swap halves of attention's queries: on two and three ranks, and with heads cut as well, by generated kernels
# in f32 and bf16, with dropout, and by cuDNN. The losses are those of one rank, and memory is what the plan says.
#   balanced.sh BRAID LOWER LIBRARIES MODEL [FOLDER]
# MODEL: a Llama of two key-value heads for four of queries.
set -euo pipefail
model=$(realpath "$4")
. "$(dirname "$0")/device.sh"
open_device "$1" "$2" "$3" "${5:-}"
data=text.txt batch=2 target=cuda seed=0 steps=2
write_text text.txt

# NAME DROPOUT TOKENS WIDTH: of 192 tokens two ranks have chunks of 48 and three of 32.
write_model() {
  mkdir "$1"
  sed "s/\(\"max_position_embeddings\"\): .*/\1: $3,/; s/\(\"hidden_size\"\): .*/\1: $4,/; s/\(\"num_hidden_layers\"\): .*/\1: 1,/
    s/\(\"attention_dropout\"\): .*/\1: $2,/" "$model/config.json" >"$1/config.json"
  grep -q "\"attention_dropout\": $2,\$" "$1/config.json"
}
write_model whole 0.0 192 64
write_model drops 0.1 192 64
write_model long  0.0 2048 32

# NAME MODEL PRECISION RANKS MESH RECOMPUTE CUT BOUND: trained; its losses are those of NAME's first part, up to its -, on one rank.
try_plan() {
  precision=$3
  plan_model "$1" "$2" "$4" 1 "$5" 2 1f1b - "$6" "$7"
  build_fake "$1"
  train_fake "$1" "$4" $steps $((seed++))
  check_device "$1"
  [ "$4" = 1 ] && return
  grep -q '"op": "attention".*"balanced": true' "$1/plan.json" || fail "ranks of $1 swap nothing"
  check_losses "${1%-*}-one" "$1" "$8"
}
try_plan f32-one    drops fp32 1 1   none -               -
try_plan f32-two    drops fp32 2 2   none balanced        2e-5
try_plan f32-three  drops fp32 3 3   full balanced        2e-5
try_plan f32-heads  drops fp32 4 2x2 none balanced,tensor 2e-5
try_plan bf16-one   drops bf16 1 1   none -               -
try_plan bf16-two   drops bf16 2 2   full balanced        1e-3
try_plan dnn-one    whole bf16 1 1   none -               -
try_plan dnn-two    whole bf16 2 2   none balanced        1e-3
try_plan dnn-three  whole bf16 3 3   full balanced        1e-3
grep -q "attention by cuDNN 9.19.0$" dnn-two/log.0 || fail "dnn-two does not use cuDNN"
cp -r dnn-two dnn-kernels
cp dnn-two.ranks dnn-kernels.ranks
(export BRAID_CUDNN=0; train_fake dnn-kernels 2 $steps $((seed++)))
check_losses dnn-one dnn-kernels 1e-3

# Gradients in tiles of 512 queries by 512 keys, of which a chunk has one row: what cuDNN asks for has no room for more.
by_cudnn() { sed 's/.*"dnn": \([0-9]*\).*/\1/' "$1/device.$2"; }
precision=bf16 batch=1
plan_model tiles-one long 2 1 2 1 1f1b - none balanced
build_fake tiles-one
train_fake tiles-one 2 $steps $((seed++))
cp -r tiles-one tiles-two
cp tiles-one.ranks tiles-two.ranks
(export BD_FAKE_CUDNN_GROWS=200; train_fake tiles-two 2 $steps $((seed++)))
check_device tiles-two
check_losses tiles-one tiles-two 1e-4
# A step has 2 runs forward; backward 2 or, of two heads, those of 5 tiles. Before the first one each plan runs once: tiles have two,
# but one is the whole of rank 0's first chunk.
for rank in 0 1; do
  [ "$(by_cudnn tiles-one $rank)" = $((4 + steps * 4)) ] || fail "rank $rank of tiles-one has other runs"
  [ "$(by_cudnn tiles-two $rank)" = $((2 + 3 + rank + steps * (2 + 2 * 5))) ] || fail "rank $rank of tiles-two has other runs"
done
finish
