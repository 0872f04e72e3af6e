#!/bin/bash
# The loss scale of fp16 on GPUs: an overflow skips one step on all ranks alike, of two stages and of replicas that
# share the optimizer's states, and leaves no other trace: the weights are those of a run without it, bit for bit,
# and the CPU's, which skips the same steps.
#   fp16.sh BRAID LOWER COMPARE_WEIGHTS LIBRARIES [FOLDER]
set -euo pipefail
. "$(dirname "$0")/device.sh"
compare=$(realpath "$3")
open_device "$1" "$2" "$4" "${5:-}"
# Every sample is the same and the model draws no numbers: without its update, a step is the one before.
head -c 4096 /dev/zero | tr '\0' a >same.txt
data=same.txt precision=fp16
mkdir model
cat >model/config.json <<'END'
{"model_type": "llama", "vocab_size": 257, "max_position_embeddings": 32, "hidden_size": 64, "intermediate_size": 176,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "attention_dropout": 0.0}
END

member() { sed -n "s/.*\"$1\": \([^,}]*\).*/\1/p" "$2/metrics.jsonl"; }

# NAME SCALE...: the scale of every step; those with a minus were skipped.
check_scales() {
  local name=$1 scales
  scales=$(paste -d' ' <(member skipped "$name") <(member loss_scale "$name") | sed 's/^true /-/; s/^false //' | xargs)
  [ "$scales" = "${*:2}" ] || fail "$name has the scales $scales, not ${*:2}"
}

target=cpu
plan_model cpu model 1 1 1 8 1f1b - none -
build cpu

target=cuda
plan_model one model 1 1 1 8 1f1b - none -
plan_model stages model 4 2 2 2 1f1b 0 none batch
plan_model tensor model 4 1 2x2 4 1f1b 0 none batch,tensor

# From far above, the scale comes down to the largest power of two that the first step takes.
build_fake one
train_fake one 1 30 0 --loss-scale 1099511627776
fits=$(paste -d' ' <(member loss_scale one) <(member skipped one) | awk '$2 == "false" { print $1; exit }')
over=$((2 * fits))
mpirun --allow-run-as-root -n 1 cpu/train --data "$data" --seed 1 --steps 4 --loss-scale $over --metrics cpu/metrics.jsonl \
  --save cpu/weights.safetensors 2>cpu/log </dev/null
check_scales cpu -$over $fits $fits $fits

for name in stages tensor; do
  build_fake $name
  cp -r $name $name-plain
  train_fake $name 4 4 1 --loss-scale $over
  train_fake $name-plain 4 3 2 --loss-scale $fits
  check_scales $name -$over $fits $fits $fits
  check_scales $name-plain $fits $fits $fits
  cmp -s $name/weights.safetensors $name-plain/weights.safetensors ||
    fail "$name: the skipped step has changed the state"
  cmp -s <(member loss $name | tail -n +2) <(member loss $name-plain) ||
    fail "$name: the skipped step has changed the losses"
  check_losses cpu $name 2e-4
  "$compare" cpu/weights.safetensors $name/weights.safetensors 1e-3 0.005 >$name/weights.log ||
    { tail -3 $name/weights.log; fail "$name departs from the CPU in its weights"; }
done
finish
