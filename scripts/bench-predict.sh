#!/usr/bin/env bash
# Measures this machine, plans twelve programs of one or two ranks with one thread each for what was measured, trains
# them, and prints predicted and measured seconds of a step, their differences, and the rank correlation (Spearman).
# Best on a quiet machine. Usage: scripts/bench-predict.sh [STEPS]. BRAID names a built braid.
set -euo pipefail
. "$(dirname "$0")/help.sh"
root=$(cd "$(dirname "$0")/.." && pwd)
steps=${1:-12}
. "$root/scripts/built.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat "$root"/docs/*.md "$root/README.md" >"$work/text.txt"
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE OPENBLAS_NUM_THREADS
"$BRAID" probe --devices 1 --threads 1 -o "$work/1.json"
"$BRAID" probe --devices 2 --threads 1 -o "$work/2.json"

# RANKS MODEL OPTIONS: one plan, its program, and a line "predicted measured what".
one() {
  local ranks=$1 out=$work/out
  shift
  "$BRAID" compile "$@" --cluster "$work/$ranks.json" -o "$out" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
  "$BRAID" run "$out" --data "$work/text.txt" --tokenizer bytes --steps "$steps" --metrics "$work/metrics" \
    >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
  # The first step warms up.
  sed -n '2,$s/.*"step_seconds": \([^,}]*\).*/\1/p' "$work/metrics" | sort -g | awk -v what="$ranks: $*" \
    -v predicted="$(sed -n 's/.*"step_seconds": \([^,}]*\).*/\1/p' "$out/plan.json" | head -n 1)" \
    '{ s[NR] = $1 } END { print predicted, (s[int((NR + 1) / 2)] + s[int(NR / 2) + 1]) / 2, what }' >>"$work/table"
}

one 1 gpt2-mini --seq 64 --global-batch 4 --recompute none
one 1 gpt2-mini --seq 128 --global-batch 8 --micro-batch 4 --recompute none
one 1 gpt2-mini --seq 128 --global-batch 8 --recompute full
one 1 llama-mini --seq 64 --global-batch 8 --recompute none
one 1 llama-mini --seq 256 --global-batch 2 --recompute none
one 2 gpt2-mini --seq 64 --global-batch 8 --pin tp=2
one 2 gpt2-mini --seq 128 --global-batch 8 --pin dp=2
one 2 gpt2-mini --seq 64 --global-batch 8 --stages 2 --micro-batch 2
one 2 gpt2-mini --seq 128 --global-batch 16 --stages 2 --micro-batch 4 --recompute full
one 2 llama-mini --seq 64 --global-batch 4 --pin tp=2
one 2 llama-mini --seq 128 --global-batch 16 --pin dp=2
one 2 llama-mini --seq 128 --global-batch 8 --stages 2 --micro-batch 4

echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), load $(cut -d' ' -f1 /proc/loadavg)"
awk '
  { p[NR] = $1; m[NR] = $2; e = p[NR] / m[NR] - 1; what = $0; sub(/^[^ ]* [^ ]* /, "", what)
    printf "  predicted %8.4f s  measured %8.4f s  %+6.1f %%  %s\n", p[NR], m[NR], 100 * e, what
    a = e < 0 ? -e : e; sum += a; if (a > worst) worst = a }
  END {
    for (i = 1; i <= NR; i++) { rp = rm = 1; for (k = 1; k <= NR; k++) { rp += p[k] < p[i]; rm += m[k] < m[i] } d += (rp - rm) ^ 2 }
    printf "mean difference %.1f %%, worst %.1f %%, rank correlation %.3f\n", 100 * sum / NR, 100 * worst, 1 - 6 * d / (NR * (NR * NR - 1))
  }' "$work/table"
