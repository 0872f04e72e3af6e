#!/bin/sh
# Tuning for GPUs, by a launcher that pretends to train: profiles are runs of their own, algorithms of products are kept, and
# products in parts are tried where the cluster says nothing of them.
#   tune.sh BRAID
set -eu
braid=$(realpath "$1")
# What launchers of programs that do not run write for their profiles.
export PRETENDS="$(dirname "$(realpath "$0")")/../support/pretend_profile.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() {
  echo "tune.sh: $*" >&2
  cat log >&2
  exit 1
}

# Two GPUs with a slow link between them.
cat >slow.json <<'END'
{"braid_cluster": 1, "nodes": 1, "devices_per_node": 2, "memory_bytes": 80e9, "flops_f32": 50e12, "flops_bf16": 700e12,
"memory_bytes_per_second": 3e12, "kernel_seconds": 3e-6, "intra": {"latency_seconds": 1e-6, "bytes_per_second": 60e9}, "gpu": true}
END
# Every trial is faster than the one before; every instruction takes 30 ms.
cat >launcher <<'END'
[ "$1" = 2 ] || exit 99
folder=$(dirname "$2")
shift
echo "$*" >>lines
while [ $# -gt 0 ]; do
  case $1 in
  --metrics)
    echo trial >>trials
    for i in 1 2 3 4 5; do echo "{\"step\": $i, \"step_seconds\": 0.0$((9 - $(wc -l <trials)))}"; done >"$2"
    ;;
  --tune) [ -e "$2" ] || echo "{\"braid_tune\": 1, \"trial\": $(wc -l <trials)}" >"$2" ;;
  --profile) sh "$PRETENDS" "$folder" >"$2" ;;
  esac
  shift
done
END
export ARCHITECTURES=80 # programs that are not run
"$braid" tune gpt2-124m --cluster slow.json --precision bf16 --seq 1024 --global-batch 8 --pin tp=2,dp=1,pp=1 --micro-batch 8 \
  --steps 5 --tries 2 --within 1000 --launcher "sh $work/launcher {ranks}" -o out >log 2>&1 || fail 'no program is left'
[ "$(wc -l <lines)" = 4 ] || fail 'trials are not two runs each'
[ "$(grep -c -- '--steps 5 --lr 0 --metrics out.partial-.*/metrics.jsonl --tune .*/products.json$' lines)" = 2 ] || fail 'runs that count'
[ "$(grep -c -- '--steps 4 --lr 0 --profile out.partial-.*/profile.json --tune .*/products.json$' lines)" = 2 ] || fail 'runs that are profiled'
grep -q '^  2  open,parts .* 70.0 ms  kept$' log || fail 'products in parts are not tried'
grep -q '"parts": [2-8]' out/plan.json || fail 'no product is in parts'
grep -q '"product_beside": 0.88' out/cluster.json || fail 'the rates do not say what products in parts go by'
grep -q '"trial": 2' out/products.json || fail 'the algorithms are not those of the trial'
grep -q '^products.json algorithms ' out/README || fail 'the page does not name the algorithms'
# A rate that no search had, and so no bound.
grep -q '"bound_seconds": 0,' out/plan.json && grep -q '"search": ".* there is no bound"' out/plan.json || fail 'a bound of other rates'
# By the rates that were given instructions take far less; these move as far as they may.
grep -q '"flops_bf16": 87500000000000,' out/cluster.json || fail "$(grep flops_bf16 out/cluster.json)"

# Without a launcher programs are started here. A driver that gives as many GPUs as it is told to.
mkdir driver broken
cat >driver.c <<'END'
#include <stdlib.h>
int cuInit(unsigned flags) { return flags || !getenv("GPUS") ? 100 : 0; }
int cuDeviceGetCount(int *count) { *count = atoi(getenv("GPUS")); return 0; }
END
cc -shared -fPIC -o driver/libcuda.so.1 driver.c
echo 'no library' >broken/libcuda.so.1
# STATUS DRIVER OPTION...: ends so before anything is built, or planned.
ends() {
  wanted=$1 status=0
  export LD_LIBRARY_PATH="$work/$2${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  shift 2
  "$braid" tune gpt2-124m --cluster slow.json --precision bf16 --global-batch 8 "$@" -o here >log 2>&1 || status=$?
  [ "$status" = "$wanted" ] || fail "status $status instead of $wanted"
  [ "$(ls -d here* 2>/dev/null | wc -l)" = 0 ] || fail "left: $(ls -d here*)"
  grep -q '^trial' log && fail 'a trial began' || true
}
(ends 4 broken)
grep -q '^error: .* this machine, which has no NVIDIA driver (libcuda.so.1); name by --launcher ' log || fail 'no word of the driver'
(unset GPUS; ends 4 driver)
grep -q '^error: .* this machine, whose NVIDIA driver has none to give (.*); name by --launcher ' log || fail 'no word of the GPUs'
(GPUS=1 && export GPUS && ends 4 driver)
grep -q '^error: 2 ranks would be started on this machine, one for each GPU, and of these there is 1; ' log || fail 'no word of how many GPUs there are'
(GPUS=2 && export GPUS && ends 3 driver --memory-cap 100KiB)
grep -q '^error: no plan fits' log || fail 'GPUs that are there are not enough'
