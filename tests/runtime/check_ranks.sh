#!/bin/sh
# usage: check_ranks.sh PROGRAM: every cut of check_ranks.c trains three steps; all must save the same bytes,
# load them back, and meet the same gradient norms.
set -eu
program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
printf 'it was the best of times, it was the worst of times, it was the age of wisdom' >"$folder/text.txt"
run() {
  ranks=$1
  shift
  mpirun -q --allow-run-as-root --oversubscribe -n "$ranks" "$program" "$@" 2>"$folder/log" || {
    cat "$folder/log" >&2
    exit 1
  }
}
for cut in one:1 data2:2 zero2:2 cut2:2 cut3:3 both4:4 bothzero4:4 pipe2:2 pipe4:4 pipetie4:4 pipezero4:4 all8:8; do
  name=${cut%:*}
  ranks=${cut#*:}
  run "$ranks" "$name" --steps 0 --save "$folder/$name.start"
  run "$ranks" "$name" --data "$folder/text.txt" --steps 3 --clip 0 --lr 0.1 --save "$folder/$name.end" \
    --metrics "$folder/$name.jsonl" --report "$folder/$name.report"
  run "$ranks" "$name" --init "$folder/one.end" --steps 0 --save "$folder/$name.again"
  cmp "$folder/one.start" "$folder/$name.start"
  cmp "$folder/one.end" "$folder/$name.end"
  cmp "$folder/one.end" "$folder/$name.again"
  sed 's/.*"grad_norm": \([0-9]*\.[0-9]\{6\}\).*/\1/' "$folder/$name.jsonl" >"$folder/$name.norms"
  cmp "$folder/one.norms" "$folder/$name.norms"
done
