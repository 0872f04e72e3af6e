#!/bin/bash
# Runs that go on from a checkpoint: under the same plan the bits of a run that was not interrupted; written under one
# plan and read under another the same numbers, there and back.
#   checkpoint.sh BRAID [FOLDER]
set -euo pipefail
braid=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
. "$here/road.sh"
open_folder "${2:-}"
write_text text.txt

# NAME STEPS OPTION...: as `train` of road.sh, without a report.
go() {
  mpirun --allow-run-as-root --oversubscribe -n "$(ranks_of "$1")" "$1/train" --steps "$2" --data text.txt --seed 1 \
    --metrics "$1/metrics.jsonl" "${@:3}" 2>"$1/log" </dev/null || { echo "FAIL: $1 does not train:"; tail -5 "$1/log"; exit 1; }
}

# NAME: three steps and three more are six.
check_resumed() {
  go "$1" 6 --save "$1/whole.safetensors"
  cut -d, -f1-3 "$1/metrics.jsonl" >"$1/whole.jsonl"
  go "$1" 6 --checkpoint "$1/kept" --checkpoint-every 3 --checkpoint-keep 3
  cut -d, -f1-3 "$1/metrics.jsonl" | cmp -s - "$1/whole.jsonl" || fail "$1: checkpoints change the run"
  rm -r "$1/kept/step-00000006"
  go "$1" 6 --resume "$1/kept" --save "$1/resumed.safetensors"
  cut -d, -f1-3 "$1/metrics.jsonl" | cmp -s - "$1/whole.jsonl" || fail "$1 goes on with other losses"
  cmp -s "$1/whole.safetensors" "$1/resumed.safetensors" || fail "$1 ends with other weights"
}

# WRITER READER: the reader has the writer's weights, and what the reader writes again is all that the writer goes on from.
check_moved() {
  local end
  go "$1" 3 --checkpoint "$1/third" --save "$1/third.safetensors"
  go "$2" 3 --resume "$1/third" --checkpoint "$2/from-$1" --save "$2/third.safetensors"
  cmp -s "$1/third.safetensors" "$2/third.safetensors" || fail "$2 reads other weights than $1 wrote"
  go "$1" 6 --resume "$2/from-$1" --save "$1/back.safetensors"
  cmp -s "$1/whole.safetensors" "$1/back.safetensors" || fail "what $1 wrote changes on the way through $2"
  rm -r "$1/third" "$2/from-$1"
}

# The plans of one optimizer and precision, after which each hands over to the next, and the last to the first.
#   NAME MODEL RANKS STAGES MESH MICRO-BATCH SCHEDULE ZERO RECOMPUTE CUT; see same_model.txt.
check_plans() {
  local name model ranks stages mesh micro schedule zero recompute cut first= last=
  while read -r name model ranks stages mesh micro schedule zero recompute cut; do
    plan_model "$name" "$model" "$ranks" "$stages" "$mesh" "$micro" "$schedule" "$zero" "$recompute" "$cut"
    build "$name"
    check_resumed "$name"
    [ -z "$last" ] || check_moved "$last" "$name"
    last=$name
    first=${first:-$name}
  done
  [ "$first" = "$last" ] || check_moved "$last" "$first"
}

check_plans <<'END'
one         gpt2-tiny 1 1 1   8 1f1b -   none -
all         gpt2-tiny 8 2 2x2 4 1f1b 0   full batch,tensor
zero-2      gpt2-tiny 4 1 2x2 2 1f1b 2:0 none batch,tensor
zero-3      gpt2-tiny 4 2 2   4 1f1b 3:0 none batch
END
# Extents that no number of ranks divides.
check_plans <<'END'
odd-tensor  gpt2-tiny-25h 3 1 3   4 1f1b -   none tensor
odd-zero-3  gpt2-tiny-25h 6 2 3   4 1f1b 3:0 none sequence
END
precision=bf16 check_plans <<'END'
bf16-zero-1 gpt2-tiny 4 1 2x2 4 1f1b 0   none batch,tensor
bf16-zero-3 gpt2-tiny 4 2 2   4 1f1b 3:0 none batch
END
precision=bf16 masters=none check_plans <<'END'
rounded-zero-2 gpt2-tiny 4 1 2x2 4 1f1b 2:0 none batch,tensor
rounded-stages gpt2-tiny 2 2 1   4 1f1b -   none -
END
precision=fp16 optimizer=momentum check_plans <<'END'
fp16-momentum gpt2-tiny 2 1 2 4 1f1b 0 none batch
END
optimizer=adafactor check_plans <<'END'
adafactor      gpt2-tiny 4 1 2x2 4 1f1b 0 none batch,tensor
adafactor-zero gpt2-tiny 4 2 2   4 1f1b 3:0 none batch
END
optimizer=sgd check_plans <<'END'
sgd gpt2-tiny 2 1 2 4 1f1b - none batch
END
finish
