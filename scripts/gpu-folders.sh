#!/usr/bin/env bash
# Makes the folders that scripts/gpu-check.sh takes to a machine with a GPU: tiny models under several plans, each as
# sources for CUDA, with data, options and the losses that CPU ranks compute with the same plan's twin.
#   scripts/gpu-folders.sh OUT        STEPS=10 and BRAID=build/braid are the defaults
# OUT must not exist. Needs a built braid, no GPU and no CUDA toolkit.
set -euo pipefail
. "$(dirname "$0")/help.sh"
root=$(cd "$(dirname "$0")/.." && pwd)
braid=${BRAID:-$root/build/braid}
steps=${STEPS:-10}
[ $# -eq 1 ] && [ "${1#-}" = "$1" ] || { echo "usage: gpu-folders.sh OUT" >&2; exit 2; }
[ -x "$braid" ] || { echo "gpu-folders.sh: there is no '$braid'; scripts/build.sh builds it, BRAID names another" >&2; exit 2; }
mkdir "$1"
out=$(cd "$1" && pwd)
cpu=$(mktemp -d)
trap 'rm -rf "$cpu"' EXIT

awk -f "$root/tests/support/words.awk" >"$cpu/data.txt"

# Images of 1 x 28 x 28 and rows of 64 with a class of 10 each, for models without tokens.
cc -std=c11 -O1 -o "$cpu/samples" "$root/tests/support/samples.c" -lm
"$cpu/samples" "$cpu/mlp.safetensors" 64
"$cpu/samples" "$cpu/cnn.safetensors" 1,28,28

# The words that a program of MODEL is run with, one a line; data lies beside them.
options_of() {
  case $1 in
    # Steeper, a few samples' losses jump, and roundings of bf16 grow with them.
    *.json) printf '%s\n' --data data.safetensors --lr 1e-4 ;;
    *) printf '%s\n' --data data.txt --tokenizer bytes --lr 1e-3 ;;
  esac
  printf '%s\n' --steps "$steps" --seed 5 --warmup 2
}

# Copies what MODEL trains on to a folder.
copy_data() {
  case $1 in
    *.json) cp "$cpu/$(basename "$1" .json).safetensors" "$2/data.safetensors" ;;
    *) cp "$cpu/data.txt" "$2/data.txt" ;;
  esac
}

# What is trained beside the model and the precision: optimizer, masters, gradients.
training=()

# One CPU rank says what every plan of a model must compute: MODEL PRECISION -> a folder with expected.jsonl.
expect() {
  local one words
  one=$cpu/$(basename "$1" .json)-$2$(printf '%s' "${training[@]}")
  if [ ! -e "$one" ]; then
    "$braid" compile "$1" --cluster cpu:1x1 --global-batch 8 --precision "$2" "${training[@]}" -o "$one" >/dev/null
    copy_data "$1" "$one"
    mapfile -t words < <(options_of "$1")
    (cd "$one" && "$braid" run . "${words[@]}" --metrics expected.jsonl 2>/dev/null)
  fi
  echo "$one"
}

# NAME MODEL RANKS CUT PRECISION PINS...: one folder. CUT is a way of tests/road/cut.awk to split every layer, or - to leave
# that to the planner.
folder() {
  local name=$1 model=$2 ranks=$3 cut=$4 precision=$5 plan=$cpu/$1.plan.json
  shift 5
  local common=("$model" --cluster "h100:1x$ranks" --target cuda)
  "$braid" compile "${common[@]}" --precision "$precision" --global-batch 8 "${training[@]}" "$@" --emit plan -o "$plan"
  if [ "$cut" != - ]; then
    awk -v cut="$cut" -f "$root/tests/road/cut.awk" "$plan" >"$plan.cut"
    mv "$plan.cut" "$plan"
  fi
  "$braid" compile "${common[@]}" --precision "$precision" "${training[@]}" --plan "$plan" --emit c -o "$out/$name"
  mkdir "$out/$name/check"
  cp "$(expect "$model" "$precision")/expected.jsonl" "$out/$name/check/"
  copy_data "$model" "$out/$name/check"
  options_of "$model" >"$out/$name/check/options"
  echo "$out/$name"
}

for model in gpt2-tiny llama-tiny; do
  folder $model-1 $model 1 - fp32
  folder $model-recompute $model 1 - fp32 --recompute full --micro-batch 2
  folder $model-batch4 $model 4 batch fp32 --stages 1 --mesh 4 --micro-batch 4
  folder $model-batch2-zero $model 2 batch fp32 --stages 1 --mesh 2 --zero 1
  folder $model-tensor2 $model 2 tensor fp32 --stages 1 --mesh 2
  folder $model-sequence2 $model 2 sequence fp32 --stages 1 --mesh 2
  folder $model-mixed2 $model 2 mixed fp32 --stages 1 --mesh 2
  folder $model-both4 $model 4 batch,tensor fp32 --stages 1 --mesh 2x2
  folder $model-pipe2 $model 2 - fp32 --stages 2 --micro-batch 2 --schedule 1f1b
  folder $model-gpipe2 $model 2 - fp32 --stages 2 --micro-batch 2 --schedule gpipe
  folder $model-all4 $model 4 batch fp32 --stages 2 --mesh 2 --micro-batch 2 --zero 1
  folder $model-bf16 $model 1 - bf16
  folder $model-bf16-both4 $model 4 batch,tensor bf16 --stages 1 --mesh 2x2
  folder $model-bf16-pipe4 $model 4 batch bf16 --stages 2 --mesh 2 --micro-batch 2 --zero 1
  for gradients in f32 bf16; do
    training=(--masters none --gradients $gradients --optimizer adafactor)
    folder $model-rounded-$gradients $model 1 - bf16
    folder $model-rounded-$gradients-batch2 $model 2 batch bf16 --stages 1 --mesh 2 --micro-batch 4
  done
  training=()
  folder $model-fp16 $model 1 - fp16
  folder $model-fp16-pipe4 $model 4 batch fp16 --stages 2 --mesh 2 --micro-batch 2 --zero 1
done
# Without dropout, so that attention is cuDNN's where a GPU has it.
model=$root/tests/oracle/mixtral
folder mixtral-bf16 "$model" 1 - bf16
folder mixtral-bf16-batch2 "$model" 2 - bf16 --stages 1 --mesh 2
folder mixtral-fp16 "$model" 1 - fp16
folder mixtral-any-order "$model" 1 - bf16
echo --any-order >>"$out/mixtral-any-order/check/options"
for model in mlp cnn; do
  folder $model-1 "$root/examples/$model.json" 1 - fp32
  folder $model-bf16 "$root/examples/$model.json" 1 - bf16
  folder $model-2 "$root/examples/$model.json" 2 - fp32 --stages 1 --mesh 2
done
