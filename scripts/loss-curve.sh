#!/usr/bin/env bash
# Prints the losses of a metrics file as a line of bars and tells whether they fell.
#   scripts/loss-curve.sh METRICS.jsonl
# Exit status: 0 they fell, 1 they did not, or no step was recorded, 2 wrong usage.
set -euo pipefail
. "$(dirname "$0")/help.sh"
[ $# -eq 1 ] || { echo "usage: loss-curve.sh METRICS.jsonl" >&2; exit 2; }
[ -r "$1" ] || { echo "loss-curve.sh: cannot read '$1'" >&2; exit 2; }
awk '
  match($0, /"loss": [^,}]+/) { loss[++count] = substr($0, RSTART + 8, RLENGTH - 8) + 0 }
  END {
    if (!count) { print "no step was recorded" > "/dev/stderr"; exit 1 }
    split("▁ ▂ ▃ ▄ ▅ ▆ ▇ █", bar, " ")
    low = high = loss[1]
    for (i = 1; i <= count; i++) { if (loss[i] < low) low = loss[i]; if (loss[i] > high) high = loss[i] }
    stride = int((count + 71) / 72)
    for (i = 1; i <= count; i += stride)
      line = line bar[1 + (high > low ? int((loss[i] - low) / (high - low) * 7 + 0.5) : 0)]
    print line
    middle = int((count + 1) / 2)
    for (i = 1; i <= count; i++)
      if (i == 1 || i == middle || i == count) printf "step %4d  loss %.4f\n", i, loss[i]
    if (count > 1 && loss[count] >= loss[1]) { print "the loss did not fall" > "/dev/stderr"; exit 1 }
  }' "$1"
