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

# Expected lines are `step loss norm`; a line of metrics has them as members.
awk '
  function member(name) {
    if (!match($0, "\"" name "\": [^,}]+")) return "absent"
    return substr($0, RSTART + length(name) + 4, RLENGTH - length(name) - 4)
  }
  function distance(a, b) { return a > b ? (a - b) / b : (b - a) / b }
  NR == FNR { loss[$1] = $2; norm[$1] = $3; expected++; next }
  {
    step = member("step"); got = member("loss"); got_norm = member("grad_norm"); seen++
    if (!(step in loss) || got !~ /^[0-9]/ || got_norm !~ /^[0-9]/) { print "step " step ": unexpected: " $0; bad = 1; next }
    off = distance(got + 0, loss[step]); norm_off = distance(got_norm + 0, norm[step])
    far = off > 1e-4 || norm_off > 1e-3
    printf "step %d: loss %.9f, expected %.9f, off by %.1e; gradient norm off by %.1e%s\n",
           step, got, loss[step], off, norm_off, far ? "  TOO FAR" : ""
    if (far) bad = 1
  }
  END { if (seen != expected || seen == 0) { print seen + 0 " steps of " expected; bad = 1 } exit bad }
' "$model/expected.txt" "$work/metrics.jsonl"
"$compare" "$model/expected.safetensors" "$work/final" 1e-4 $key_bias
cd "$model"
diff <(ls config.json model*) <(ls "$work/final")
if [ -e model.safetensors.index.json ]; then
  diff <(grep model- model.safetensors.index.json) <(grep model- "$work/final/model.safetensors.index.json")
fi
