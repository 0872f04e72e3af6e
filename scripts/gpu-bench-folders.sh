#!/usr/bin/env bash
# Makes the folders that scripts/gpu-bench.sh takes to a machine with a GPU: works in bf16 at several micro-batches, and one
# that measures generated kernels; each as sources for CUDA, with data and what it must reach.
#   scripts/gpu-bench-folders.sh OUT [WORK]...      CLUSTER=h200:1x1 and BRAID=build/braid are the defaults
# WORK: gpt2-124m gpt2-1558m llama-3-8b resnet-50 kernels; all without one. OUT must not exist. Needs a built braid, no GPU and
# no CUDA toolkit.
set -euo pipefail
. "$(dirname "$0")/help.sh"
root=$(cd "$(dirname "$0")/.." && pwd)
braid=${BRAID:-$root/build/braid} cluster=${CLUSTER:-h200:1x1}
case ${1:--} in -*) echo "usage: gpu-bench-folders.sh OUT [WORK]..." >&2; exit 2 ;; esac
all=(gpt2-124m gpt2-1558m llama-3-8b resnet-50 kernels)
for work in "${@:2}"; do
  printf '%s\n' "${all[@]}" | grep -qxFe "$work" || { echo "gpu-bench-folders.sh: there is no work '$work'" >&2; exit 2; }
done
[ -x "$braid" ] || { echo "gpu-bench-folders.sh: there is no '$braid'; scripts/build.sh builds it, BRAID names another" >&2; exit 2; }
mkdir "$1"
out=$(cd "$1" && pwd)
shift
LEAN_PERCENT=90 # of the fastest plan's memory, for a plan that computes some values again
works=("$@")
[ $# -gt 0 ] || works=("${all[@]}")
# What the vendor states for dense products of bf16.
case $cluster in
  a100*) peak='peak_flops 312e12' ;;
  h100* | h200*) peak='peak_flops 989e12' ;;
  b200*) peak='peak_flops 2250e12' ;;
  *) peak='' ;;
esac
[ -z "$peak" ] || peak=$peak$'\n'
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT
awk -f "$root/tests/support/words.awk" >"$data/words.txt"

# NAME MODEL MICRO-BATCH GLOBAL-BATCH OPTIMIZER PINS...: a folder NAME-MICRO-BATCH, and $kind behind that; lines of check/work
# come from standard input. A micro-batch that does not fit has none.
kind=''
folder() {
  local name=$1 model=$2 micro=$3 batch=$4 optimizer=$5 to=$out/$1-$3$kind status=0
  shift 5
  "$braid" compile "$model" --cluster "$cluster" --target cuda --precision bf16 --optimizer "$optimizer" --global-batch "$batch" \
    --micro-batch "$micro" "$@" --emit c -o "$to" 2>"$data/said" || status=$?
  if [ $status -eq 3 ]; then # no plan fits
    echo "$name at a micro-batch of $micro: $(tail -n 1 "$data/said")"
    cat >/dev/null
    return
  fi
  [ $status -eq 0 ] || { cat "$data/said" >&2; exit 1; }
  mkdir "$to/check"
  { printf 'name %s\nmicro_batch %s\n%s' "$name" "$micro" "$peak"; cat; } >"$to/check/work"
  case $name in
    resnet-50) printf '%s\n' --data data.safetensors --seed 5 --lr 1e-3 >"$to/check/options" ;;
    # The baseline's attention adds up in any order.
    *) printf '%s\n' --data data.txt --tokenizer bytes --seed 5 --lr 1e-4 --any-order >"$to/check/options" ;;
  esac
  if [ "$name" = resnet-50 ]; then
    # 37 MB, which are one file of several names where that can be.
    images=$(find "$out" -path "$out/resnet-50-*/check/data.safetensors" | head -n 1)
    if [ -z "$images" ]; then
      cc -std=c11 -O1 -o "$data/samples" "$root/tests/support/samples.c" -lm
      "$data/samples" "$to/check/data.safetensors" 3,224,224
    else
      ln "$images" "$to/check/data.safetensors" 2>/dev/null || cp "$images" "$to/check/data.safetensors"
    fi
  else
    cp "$data/words.txt" "$to/check/data.txt"
  fi
  echo "$to"
}

# NAME MODEL MICRO-BATCH...: the same in less memory than the folder that is there.
leaner() {
  local arena
  [ -e "$out/$1-$3/plan.json" ] || { cat >/dev/null; return; }
  arena=$(sed -n 's/.*"arena_bytes": \([0-9]*\).*/\1/p' "$out/$1-$3/plan.json" | head -1)
  kind=-lean
  folder "$@" --memory-cap $((arena / 100 * LEAN_PERCENT))
  kind=''
}

# Kernels that are bound by memory, each on tensors of 512 MiB: what an instruction reads and writes is known.
write_kernels_model() {
  cat >"$data/kernels.json" <<'END'
{
  "braid_model": 1,
  "name": "kernels",
  "inputs": [
    {"name": "tokens", "kind": "tokens", "dims": ["B", 2048]},
    {"name": "targets", "kind": "targets", "dims": ["B", 2048]}
  ],
  "weights": [
    {"name": "table", "dims": [256, 4096]},
    {"name": "gain", "dims": [4096], "init": "ones"}, {"name": "bias", "dims": [4096], "init": "zeros"},
    {"name": "scale", "dims": [4096], "init": "ones"},
    {"name": "head", "dims": [256, 4096]}
  ],
  "functions": [
    {
      "name": "kernels",
      "params": [
        {"name": "t", "dtype": "i32", "dims": ["B", 2048]}, {"name": "y", "dtype": "i32", "dims": ["B", 2048]},
        {"name": "table", "dims": [256, 4096]}, {"name": "gain", "dims": [4096]}, {"name": "bias", "dims": [4096]},
        {"name": "scale", "dims": [4096]}, {"name": "head", "dims": [256, 4096]}
      ],
      "ops": [
        {"op": "embed", "in": ["table", "t"], "out": "x"},
        {"op": "layernorm", "in": ["x", "gain", "bias"], "out": ["n", "mean", "r"], "attrs": {"eps": 1e-5}},
        {"op": "gelu", "in": ["n"], "out": "g"},
        {"op": "rmsnorm", "in": ["g", "scale"], "out": ["m", "q"], "attrs": {"eps": 1e-5}},
        {"op": "silu", "in": ["m"], "out": "h"},
        {"op": "contract", "in": ["h", "head"], "out": "logits", "attrs": {"rule": "btc,vc->btv"}},
        {"op": "lse", "in": ["logits"], "out": "lse"},
        {"op": "xent", "in": ["logits", "y", "lse"], "out": "sum"}
      ],
      "results": ["sum"]
    }
  ],
  "main": [{"call": "kernels", "in": ["tokens", "targets", "table", "gain", "bias", "scale", "head"], "out": "loss"}],
  "loss": "loss"
}
END
}

for work in "${works[@]}"; do
  case $work in
    gpt2-124m) # 6 N + 12 L C T a token
      for micro in 4 8 16 32 64; do
        printf '%s\n' 'reach 1.10' 'most_bytes 0.9' 'flops_per_token 859.9e6' | folder $work $work $micro 64 adamw --seq 1024
        printf '%s\n' 'reach 1.10' 'most_bytes 0.9' 'flops_per_token 859.9e6' | leaner $work $work $micro 64 adamw --seq 1024
      done
      kind=-curve
      printf '%s\n' 'curve 200' 'batch 16' | folder $work $work 16 16 adamw --seq 1024
      kind='' ;;
    gpt2-1558m)
      for micro in 2 4 8 16; do
        printf '%s\n' 'reach 1.10' 'reach_mfu 0.50' 'flops_per_token 10.289e9' | folder $work $work $micro 16 adamw --seq 1024
      done ;;
    llama-3-8b) # Parameters and gradients in bf16; of the optimizer the averages of rows and columns: as the baseline
      for micro in 1 2; do
        printf '%s\n' 'reach 1.10' 'reach_mfu 0.45' 'flops_per_token 61.067e9' | folder $work $work $micro 2 adafactor --masters none --gradients bf16 --seq 8192
      done ;;
    resnet-50)
      for micro in 64 128 256; do
        printf '%s\n' 'reach 1.00' | folder $work $work $micro 256 momentum
      done ;;
    kernels) # 32 x 2048 x 4096 numbers of 2 bytes
      write_kernels_model
      tensor=$((32 * 2048 * 4096 * 2))
      printf '%s\n' 'reach_copy 0.85' "bytes layernorm $((2 * tensor))" "bytes gelu, rmsnorm $((3 * tensor))" "bytes silu $((2 * tensor))" \
        "bytes silu_grad $((3 * tensor))" "bytes rmsnorm_dx, gelu_grad $((4 * tensor))" "bytes layernorm_dx $((3 * tensor))" \
        "bytes rmsnorm_dw $((2 * tensor))" "bytes layernorm_dw $((2 * tensor))" |
        folder kernels "$data/kernels.json" 32 32 sgd --recompute none ;;
  esac
done
