#!/bin/bash
# Trains with every other optimizer as PyTorch did, whole and in parts of every kind, and compares losses:
#   optimizers.sh BRAID [FOLDER]
# The expected numbers come from scripts/expected-losses.py, whose constants stand here too.
set -euo pipefail
braid=$(realpath "$1")
oracle=$(dirname "$(realpath "$0")")
here=$oracle/../road
. "$here/road.sh"
open_folder "${2:-}"
model=$oracle/llama

while read -r optimizer rate; do
  # NAME RANKS STAGES MESH MICRO-BATCH SCHEDULE ZERO RECOMPUTE CUT, as in same_model.txt.
  while read -r name ranks stages mesh micro schedule zero recompute cut; do
    name=$optimizer-$name
    plan_model "$name" "$model" "$ranks" "$stages" "$mesh" "$micro" "$schedule" "$zero" "$recompute" "$cut"
    build "$name"
    mpirun --allow-run-as-root --oversubscribe -n "$ranks" "$name/train" --init "$model" --data "$oracle/text.txt" \
      --seed 1 --steps 10 --lr "$rate" --weight-decay 0.1 --clip 1 --metrics "$name/metrics.jsonl" \
      --report "$name/report.json" 2>"$name/log" </dev/null || { tail -5 "$name/log"; exit 1; }
    check_memory "$name"
    awk -f "$oracle/losses.awk" "$model/expected-$optimizer.txt" "$name/metrics.jsonl" >"$name/losses" ||
      { cat "$name/losses"; fail "$name departs from PyTorch"; }
  done <<'END'
    one    1 1 1   8 1f1b  -   none -
    zero   4 1 2x2 4 1f1b  0   none batch,tensor
    zero-3 4 2 2   4 1f1b  3:0 none batch
END
done <<'END'
  adam      1e-3
  momentum  3e-2
  adafactor 1e-2
END
finish
