#!/bin/bash
# Evaluations of programs on the fake device: they change no bit of training and take no memory, their losses are the
# CPU's, with messages over stages, weights in parts, updated ones that are gathered while an evaluation reads them, graphs of
# passes and samples that are read ahead.
#   evaluation.sh BRAID LOWER LIBRARIES [FOLDER]
set -euo pipefail
. "$(dirname "$0")/device.sh"
open_device "$1" "$2" "$3" "${4:-}"
write_text text.txt
tail -c 3000 text.txt >held-out.txt
seed=0

evaluations() { sed -n 's/{"step": \(.*\), "eval_loss": \(.*\), "eval_seconds": .*/\1 \2/p' "$1/metrics.jsonl"; }

# NAME MODEL HELD-OUT BOUND RANKS STAGES MESH MICRO-BATCH SCHEDULE ZERO RECOMPUTE CUT; the evaluations of the CPU lie in `expected`.
try_plan() {
  local name=$1 options=(--eval "$3" --eval-every 2 --eval-steps 3)
  target=cuda plan_model "$name" "$2" "${@:5}"
  build_fake "$name"
  train_fake "$name" "$5" 5 $((seed++))
  grep '"loss"' "$name/metrics.jsonl" | cut -d, -f1-3 >"$name/plain"
  mv "$name/weights.safetensors" "$name/plain.safetensors"
  train_fake "$name" "$5" 5 $((seed++)) "${options[@]}"
  check_device "$name"
  grep '"loss"' "$name/metrics.jsonl" | cut -d, -f1-3 | cmp -s - "$name/plain" || fail "$name: evaluations change the losses of steps"
  cmp -s "$name/weights.safetensors" "$name/plain.safetensors" || fail "$name: evaluations change the weights"
  evaluations "$name" >"$name/evaluations"
  paste -d' ' "$name/evaluations" expected | awk -v bound="$4" -v name="$name" '
    { gap = $2 / $4 - 1; if (gap < 0) gap = -gap; if (!(gap <= worst)) worst = gap; if ($1 != $3) other = 1 }
    END { printf "%-16s evaluations differ by %.2g\n", name, worst; exit !(NR == 4 && !other && worst <= bound) }' ||
    fail "the evaluations of $name are not those of the CPU"
}

# MODEL HELD-OUT: those of the CPU on one rank, in `expected`.
expect() {
  target=cpu plan_model host "$1" 1 1 1 8 1f1b - none -
  build host
  mpirun --allow-run-as-root -n 1 host/train --seed 1 --data "$data" --steps 5 --eval "$2" --eval-every 2 --eval-steps 3 \
    --metrics host/metrics.jsonl 2>log </dev/null
  evaluations host >expected
  rm -r host
}

data=text.txt
expect gpt2-tiny held-out.txt
try_plan one    gpt2-tiny held-out.txt 2e-5 1 1 1   8 1f1b -   none -
[ "$(count one graphs)" -gt 0 ] || fail 'no graph of an evaluation or a step'
try_plan deep   gpt2-tiny held-out.txt 2e-5 4 4 1   1 1f1b -   full -
try_plan zero-3 gpt2-tiny held-out.txt 2e-5 4 2 2   2 gpipe 3:0 full batch
try_plan zero   gpt2-tiny held-out.txt 2e-5 4 1 2x2 4 1f1b 0   none batch,tensor
precision=bf16 try_plan halves gpt2-tiny held-out.txt 1e-3 4 2 2   4 1f1b 0   none batch

# Of a run that goes on the reader begins with an evaluation in its middle; without steps it has nothing else.
train_fake zero 4 4 $((seed++)) --checkpoint zero/kept
train_fake zero 4 5 $((seed++)) --resume zero/kept --eval held-out.txt --eval-steps 3
evaluations zero | cmp -s - <(tail -2 zero/evaluations) || fail 'a run that goes on has other evaluations'
train_fake zero 4 0 $((seed++)) --init zero/plain.safetensors --eval held-out.txt --eval-steps 3
[ "$(evaluations zero | cut -d' ' -f2)" = "$(tail -1 zero/evaluations | cut -d' ' -f2)" ] || fail 'without steps the evaluation is another'

# Messages that go over stages.
data=samples
write_samples samples 1,4,4,4 4,4,4
expect unet3d-tiny samples
echo '{"braid_plan": 1, "stages": 4, "layers": [{"first": 4, "stage": 2}]}' >skips.partial
partial=skips.partial try_plan skips unet3d-tiny samples 2e-5 8 4 dp=2 2 1f1b - none -
finish
