#!/usr/bin/env bash
# From nothing to a trained model: installs, builds, compiles GPT-2 124M for 4 CPU ranks under a memory cap
# that no single rank could meet, prints the plan, and trains on English text.
#   scripts/demo.sh [TEXT]     STEPS=40 CAP=600MiB OUT=out are the defaults
set -euo pipefail
. "$(dirname "$0")/help.sh"
root=$(cd "$(dirname "$0")/.." && pwd)
steps=${STEPS:-40}
cap=${CAP:-600MiB}
out=${OUT:-out}
braid=$root/build/braid

say() { printf '\n== %s\n' "$*" >&2; }

say "packages and build"
if [ $# -gt 0 ]; then
  [ -r "$1" ] || { echo "demo.sh: cannot read '$1'" >&2; exit 1; }
  "$root/scripts/install.sh"
  text=$1
else
  "$root/scripts/install.sh" bible-kjv
  text=$root/build/bible.txt
fi
TARGET=braid "$root/scripts/build.sh" "$root/build"
[ $# -gt 0 ] || bible -l78 gen1:1-rev22:21 >"$text"

say "compile: GPT-2 124M, 4 ranks, at most $cap each (one rank alone would need 2 GB for its states)"
"$braid" compile gpt2-124m --devices 4 --seq 64 --global-batch 8 --memory-cap "$cap" --time-limit 30 -o "$out"

say "the plan"
"$braid" explain "$out"

say "train $steps steps on $(basename "$text") ($(wc -c <"$text") bytes, a token each)"
metrics=$root/build/demo-metrics.jsonl
rm -f "$metrics"
"$braid" run "$out" --data "$text" --tokenizer bytes --steps "$steps" --lr 6e-4 --warmup 5 --metrics "$metrics"

say "the loss"
"$root/scripts/loss-curve.sh" "$metrics"

cat <<END

$out/plan.json and stage*.c, main.c   what was chosen, and the program as C to read
$out/kernels.ll, kernels.s, runtime/  generated kernels and the runtime's sources; 'make -C $out' rebuilds it without braid
$out/train                            the program; 'braid run $out --help' lists its options
END
