#!/bin/bash
# An example as its README tells it, in 5 steps; its losses are those of one rank, and of 3 plans more.
#   agree.sh BRAID EXAMPLE [FOLDER]
set -euo pipefail
braid=$(realpath "$1")
example=$2
tests=$(dirname "$(dirname "$(realpath "$0")")")
here=$tests/road
. "$here/road.sh"
open_folder "${3:-}"
BRAID=$braid sh "$tests/../examples/$example/run.sh" 5
[ -e trained/model.safetensors ] && [ -e trained/config.json ] || fail 'nothing was saved'
mkdir example
mv metrics.jsonl example
[ -e samples.safetensors ] && data=samples.safetensors

# The weights that the example starts from are those that every program makes of the same seed. The balance of
# experts is that of a micro-batch.
small=4 smaller=2
[ "$example" = mixtral ] && small=8 smaller=8

# NAME RANKS STAGES MESH MICRO-BATCH RECOMPUTE
train_plans model 5 <<END
  one       1 1 1   8        none
  wide      4 1 4   8        none
  crossed   4 1 2x2 $small   full
  pipeline  4 2 2   $smaller -
END
check_losses one example
# What the encoder gives passes over stages, and its gradients go back, with more on their way than a stage keeps
# of its neighbour.
[ "$example" != t5 ] || train_plans model 5 <<END
  deep      8 8 1   1        none
END
if [ "$example" = mixtral ]; then
  "$braid" compile model --devices 4 --plan out/plan.json --emit spmd -o spmd
  [ "$(grep -c 'all_to_all(%\(placed\|down\))' spmd)" -ge 2 ] || fail 'no tokens go to experts on other ranks'
fi
finish
