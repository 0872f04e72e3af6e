#!/bin/sh
# --help of every script: its text and nothing else, whatever else there is to be had.
#   script_help.sh ROOT
set -eu
scripts=$(realpath "$1")/scripts
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/empty"
cd "$work/empty"
fail() { echo "script_help.sh: $*"; exit 1; }

count=0
for script in "$scripts"/*.sh; do
  [ -x "$script" ] || continue # others are sourced
  name=$(basename "$script")
  for word in --help -h; do
    timeout 20 "$script" $word >../help 2>../errors </dev/null || fail "$name $word ends with status $?"
    grep -q "scripts/$name" ../help || fail "$name $word does not say how it is used: $(cat ../help)"
    ! grep -q '^#\|set -' ../help || fail "$name $word prints more than its head: $(cat ../help)"
    [ ! -s ../errors ] || fail "$name $word: $(cat ../errors)"
  done
  count=$((count + 1))
done
for script in "$scripts"/../examples/*/run.sh; do
  sh "$script" --help >../help 2>../errors </dev/null || fail "$script --help: $(cat ../errors)"
  grep -q 'run.sh \[STEPS\]' ../help || fail "$script --help does not say how it is used: $(cat ../help)"
done
[ $count -gt 15 ] || fail "only $count scripts were found"
[ -z "$(ls -A .)" ] || fail "something is left: $(ls -A .)"

# STATUS PATTERN SCRIPT ARGUMENT...: ends so with one line of complaint.
expect() {
  wanted=$1 pattern=$2 status=0
  shift 2
  "$scripts/$@" >../out 2>../errors </dev/null || status=$?
  [ $status = "$wanted" ] && [ "$(wc -l <../errors)" = 1 ] && grep -qF -- "$pattern" ../errors ||
    fail "$*: status $status, not $wanted with '$pattern': $(cat ../errors)"
}
expect 2 'usage: loss-curve.sh METRICS.jsonl' loss-curve.sh
expect 2 "loss-curve.sh: cannot read 'none'" loss-curve.sh none
echo '{"step": 1, "loss": 2}
{"step": 2, "loss": 3}' >../rising.jsonl
expect 1 'the loss did not fall' loss-curve.sh ../rising.jsonl
expect 2 'usage: gpu-folders.sh OUT' gpu-folders.sh --hlp
expect 2 'usage: gpu-bench-folders.sh OUT [WORK]...' gpu-bench-folders.sh --hlp
