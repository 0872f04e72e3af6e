#!/bin/sh
# Tuning for GPUs, by a launcher that pretends to train: profiles are runs of their own, algorithms of products are kept, and
# products in parts are tried where the cluster says nothing of them.
#   tune.sh BRAID
set -eu
braid=$(realpath "$1")
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
  --profile)
    {
      echo '{"braid_profile": 1, "instructions": ['
      sed -n 's/^    {\(-*[0-9]*\), \(-*[0-9]*\), "\(.*\)"},/{"function": \1, "step": \2, "what": "\3"},/p' "$folder/main.c" | sed '$s/,$//'
      echo '], "ranks": [{"rank": 0, "stage": 0, "times": ['
      sed -n 's/^    {\(-*[0-9]*\), \(-*[0-9]*\), "\(.*\)"},/x/p' "$folder/main.c" |
        awk '{ printf "%s[%d, 10, 0.3, 0.03]\n", (NR > 1 ? "," : ""), NR - 1 }'
      echo ']}]}'
    } >"$2"
    ;;
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
# By the rates that were given instructions take far less; these move as far as they may.
grep -q '"flops_bf16": 87500000000000,' out/cluster.json || fail "$(grep flops_bf16 out/cluster.json)"
