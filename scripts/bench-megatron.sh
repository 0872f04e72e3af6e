#!/bin/sh
# Megatron-LM's published runs on A100s: what braid predicts for their configurations, and the plans that it finds
# for the same models, batches and devices (docs/benchmarks/megatron.md). Usage: scripts/bench-megatron.sh
# [TABLE.csv [CLUSTER]]. MEGATRON names the built benchmark.
set -eu
. "$(dirname "$0")/help.sh"
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${MEGATRON:-$root/build/tests/megatron}" "${1:-$root/tests/data/published/megatron-a100.csv}" \
  "${2:-a100-80gb-2021}" "$work" plans
