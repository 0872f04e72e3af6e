#!/bin/bash
# An example of images as its README tells it, in 5 steps; its losses are PyTorch's where those are known. Those of
# one rank are those of 3 plans more at the same micro-batch, and of the example's plan.
# Running averages, too, are those of one rank.
#   networks.sh BRAID COMPARE_WEIGHTS EXAMPLE [FOLDER]
set -euo pipefail
braid=$(realpath "$1")
compare=$(realpath "$2")
example=$3
tests=$(dirname "$(dirname "$(realpath "$0")")")
here=$tests/road
. "$here/road.sh"
open_folder "${4:-}"
BRAID=$braid sh "$tests/../examples/$example/run.sh" 5
[ -e trained.safetensors ] || fail 'nothing was saved'
expected=$tests/oracle/$example/expected.txt
[ ! -e "$expected" ] || awk -f "$tests/oracle/losses.awk" "$expected" metrics.jsonl || fail 'it departs from PyTorch'

# What the example was compiled for.
batch=$(awk '/"global_batch"/ { print $2 + 0; exit }' out/plan.json)
micro=$(awk '/"micro_batch"/ { print $2 + 0; exit }' out/plan.json)
optimizer=$(awk -F '"' '/"optimizer"/ { print $4; exit }' out/plan.json)
cp out/plan.json example.json
echo model.braid >example.model
echo 4 >example.ranks
build example
data=data
train example 4 5

# NAME RANKS STAGES MESH MICRO-BATCH RECOMPUTE
train_plans model.braid 5 <<END
  one       1 1 1   $micro none
  wide      4 1 4   $micro none
  crossed   4 1 2x2 $micro full
  pipeline  4 2 2   $micro none
END
check_losses one example
if grep -q ' average ' model.braid; then
  for name in wide pipeline example; do
    "$compare" one/weights.safetensors $name/weights.safetensors 1e-4 0 >$name/weights.log ||
      { grep FAR $name/weights.log; fail "$name departs from one in its weights"; }
  done
fi
finish
