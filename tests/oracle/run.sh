#!/usr/bin/env bash
# Trains as PyTorch did and compares losses and final weights:
#   run.sh BRAID COMPARE_WEIGHTS FAMILY WORK [option of braid compile ...]
# What is trained starts from the family's folder and is saved as a folder with the same files.
# expected.txt and expected.safetensors come from scripts/expected-losses.py, whose constants stand here too.
set -euo pipefail
braid=$1 compare=$2 work=$4
here=$(cd "$(dirname "$0")" && pwd)
model=$here/$3
shift 4
steps=10 rate=1e-3 key_bias=0.01

rm -rf "$work"
mkdir -p "$work"
"$braid" compile "$model" --global-batch 8 "$@" -o "$work/out"
data=$model/samples.safetensors
[ -e "$data" ] || data=$here/text.txt
"$braid" run "$work/out" --init "$model" --data "$data" --seed 1 \
  --steps $steps --lr $rate --beta1 0.9 --beta2 0.95 --eps 1e-8 --weight-decay 0.1 --clip 1 \
  --metrics "$work/metrics.jsonl" --save "$work/final/"

awk -f "$here/losses.awk" "$model/expected.txt" "$work/metrics.jsonl"
"$compare" "$model/expected.safetensors" "$work/final" 1e-4 $key_bias
cd "$model"
diff <(ls config.json model*) <(ls "$work/final")
if [ -e model.safetensors.index.json ]; then
  diff <(grep model- model.safetensors.index.json) <(grep model- "$work/final/model.safetensors.index.json")
fi
