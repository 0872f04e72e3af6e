#!/usr/bin/env bash
# Trains GPT-2 124M (fp32, one rank, all cores) for a few steps at 4 x 64 and 1 x 1024 and prints tokens/s, the
# share of the ceiling and peak memory. The ceiling is 6 N flops per token over the best sgemm rate on the model's
# own shapes, measured before and after training. Usage: scripts/bench-cpu.sh [STEPS]. BRAID names a built braid.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
steps=${1:-8}
threads=$(nproc)
if [ -z "${BRAID:-}" ]; then
  "$root/scripts/install.sh"
  "$root/scripts/build.sh" "$root/build"
  BRAID=$root/build/braid
fi
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

bench() {
  local batch=$1 sequence=$2 out=$work/$1x$2
  "$BRAID" compile gpt2-124m --devices 1 --global-batch "$batch" --seq "$sequence" --stages 1 \
    --micro-batch "$batch" --recompute none -o "$out" >/dev/null
  ceiling $((batch * sequence)) >"$out/rates"
  python3 - "$out" "$work/text.txt" "$steps" "$out/metrics.jsonl" >"$out/peak" <<'PYTHON'
import resource, subprocess, sys
out, text, steps, metrics = sys.argv[1:]
with open(out + "/log", "w") as log:
    subprocess.run([out + "/train", "--data", text, "--tokenizer", "bytes", "--steps", steps,
                    "--metrics", metrics], stdout=log, stderr=log, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
PYTHON
  ceiling $((batch * sequence)) >>"$out/rates"
  python3 - "$out" "$batch" "$sequence" <<'PYTHON'
import json, statistics, sys
out, batch, sequence = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
PARAMETERS = 124439808
steps = [json.loads(line)["step_seconds"] for line in open(out + "/metrics.jsonl")][1:]
ceiling = max(float(line) for line in open(out + "/rates"))
peak = int(open(out + "/peak").read()) / 1e6 * 1.024
def show(name, seconds):
    rate = batch * sequence / seconds
    print(f"  {name:6} {seconds:7.3f} s a step, {rate:7.1f} tokens/s, {6e-9 * PARAMETERS * rate / ceiling:6.1%} of the ceiling")
print(f"{batch} x {sequence}: best sgemm {ceiling:.1f} GFLOP/s, peak memory {peak:.2f} GB")
show("median", statistics.median(steps))
show("best", min(steps))
PYTHON
}

echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $threads cores, load $(cut -d' ' -f1 /proc/loadavg)"
bench 4 64
bench 1 1024
