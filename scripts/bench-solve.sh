#!/bin/sh
# Sharding problems: cost, bound, seconds and memory of `braid solve` (docs/benchmarks/solve.md).
# Usage: scripts/bench-solve.sh [SECONDS [FILE...]]; without files the two instances of tests/data/iopddl.
# BRAID names the command.
set -eu
. "$(dirname "$0")/help.sh"
root=$(cd "$(dirname "$0")/.." && pwd)
braid=${BRAID:-$root/build/braid}
seconds=${1:-60}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- "$root"/tests/data/iopddl/*.json.gz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '%-32s %12s %12s %9s %9s %9s\n' file cost bound seconds cpu MiB
for file in "$@"; do
  /usr/bin/time -o "$work/time" -f '%U %S %M' "$braid" solve --json --time-limit "$seconds" "$file" > "$work/answer"
  sed 's/.*"cost": \([0-9]*\), "bound": \([0-9]*\), "seconds": \([0-9.e+-]*\)}/\1 \2 \3/' "$work/answer" |
    awk -v file="$(basename "$file")" -v spent="$(cat "$work/time")" \
      '{split(spent, t, " "); printf "%-32s %12s %12s %9.2f %9.2f %9.0f\n", file, $1, $2, $3, t[1] + t[2], t[3] / 1024}'
done
