#!/usr/bin/env bash
# Trains GPT-2 124M (fp32, one rank, all cores) for a few steps at 4 x 64 and 1 x 1024 and prints tokens/s, the
# share of the ceiling and peak memory. The ceiling is 6 N flops per token over the best sgemm rate on the model's
# own shapes, measured before and after training. Usage: scripts/bench-cpu.sh [STEPS]. BRAID names a built braid.
set -euo pipefail
. "$(dirname "$0")/help.sh"
root=$(cd "$(dirname "$0")/.." && pwd)
steps=${1:-8}
threads=$(nproc)
. "$root/scripts/built.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat "$root"/docs/*.md "$root/README.md" >"$work/text.txt"
cc -std=c11 -D_GNU_SOURCE -O2 "$root/tests/bench/sgemm.c" -o "$work/sgemm" -lopenblas
# OpenBLAS chooses its kernels by the processor, for the programs and for the ceiling, whatever the caller's
# environment asks for; the ceiling also tries the AVX-512 kernels by name and takes the better rate.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE OPENBLAS_NUM_THREADS
ceiling() {
  "$work/sgemm" "$1" "$threads" 2>/dev/null
  if grep -qw avx512vl /proc/cpuinfo; then
    OPENBLAS_CORETYPE=SkylakeX "$work/sgemm" "$1" "$threads" 2>/dev/null
  fi
}

# NAME SECONDS TOKENS CEILING: 6 N flops a token, N = 124439808.
show() {
  awk -v name="$1" -v seconds="$2" -v tokens="$3" -v ceiling="$4" 'BEGIN {
    rate = tokens / seconds
    printf "  %-6s %7.3f s a step, %7.1f tokens/s, %5.1f%% of the ceiling\n", name, seconds, rate,
      6e-7 * 124439808 * rate / ceiling
  }'
}

bench() {
  local batch=$1 sequence=$2 out=$work/$1x$2 best peak
  local -a seconds
  "$BRAID" compile gpt2-124m --devices 1 --global-batch "$batch" --seq "$sequence" --stages 1 \
    --micro-batch "$batch" --recompute none -o "$out" >/dev/null
  ceiling $((batch * sequence)) >"$out/rates"
  "$out/train" --data "$work/text.txt" --tokenizer bytes --steps "$steps" --metrics "$out/metrics.jsonl" \
    --report "$out/report.json" >"$out/log" 2>&1 || { cat "$out/log" >&2; exit 1; }
  ceiling $((batch * sequence)) >>"$out/rates"
  best=$(sort -g "$out/rates" | tail -n 1)
  peak=$(grep -o '"peak_rss_bytes": [0-9]*' "$out/report.json" | awk '{ printf "%.2f", $2 / 1e9 }')
  echo "$batch x $sequence: best sgemm $(printf %.1f "$best") GFLOP/s, peak memory $peak GB"
  # The first step warms up.
  mapfile -t seconds < <(sed -n '2,$s/.*"step_seconds": \([^,}]*\).*/\1/p' "$out/metrics.jsonl" | sort -g)
  show median "$(awk -v a="${seconds[(${#seconds[@]} - 1) / 2]}" -v b="${seconds[${#seconds[@]} / 2]}" \
    'BEGIN { print (a + b) / 2 }')" $((batch * sequence)) "$best"
  show best "${seconds[0]}" $((batch * sequence)) "$best"
}

echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $threads cores, load $(cut -d' ' -f1 /proc/loadavg)"
bench 4 64
bench 1 1024
