#!/bin/bash
# A model of primitive ops, values of many types among them, and of weights on several stages that have gradients on one of them and
# on none, under several plans: the losses agree with one rank's, and memory is what the plan says.
#   primitives.sh BRAID [FOLDER]
set -euo pipefail
braid=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
. "$here/road.sh"
open_folder "${2:-}"
cc -std=c11 -O1 -Wall -Wextra -Werror -o samples_tool "$here/../support/samples.c" -lm
./samples_tool samples 8,6 8
cp "$here/primitives.json" model.json

# NAME RANKS STAGES MESH MICRO-BATCH RECOMPUTE
plans=$(grep -vE '^ *(#|$)' <<'END'
  one       1 1 1   8 none
  free      4 - -   - -
  wide      4 1 4   8 none
  crossed   4 1 2x2 4 full
  pipeline  4 2 2   2 full
  deep      3 3 1   1 none
END
)

data=samples
train_plans model.json 10 <<<"$plans"
finish
