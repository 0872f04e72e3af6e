#!/bin/sh
# usage: check_ranks.sh PROGRAM [REFERENCE CUT:RANKS...]: every cut of check_ranks.c, or those named, trains three
# steps; all must save the bytes, load them back, and meet the gradient norms of the cut "one", which REFERENCE
# trains (PROGRAM when it is not named).
set -eu
program=$1
reference=${2:-$1}
shift
[ $# = 0 ] || shift
[ $# -gt 0 ] ||
  set -- data2:2 zero2:2 cut2:2 cut3:3 both4:4 bothzero4:4 pipe2:2 pipe4:4 pipetie4:4 pipezero4:4 all8:8
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
printf 'it was the best of times, it was the worst of times, it was the age of wisdom' >"$folder/text.txt"
run() {
  executable=$1
  ranks=$2
  shift 2
  mpirun -q --allow-run-as-root --oversubscribe -n "$ranks" "$executable" "$@" 2>"$folder/log" || {
    cat "$folder/log" >&2
    exit 1
  }
}
# PROGRAM CUT RANKS
train() {
  run "$1" "$3" "$2" --steps 0 --save "$folder/$2.start"
  run "$1" "$3" "$2" --data "$folder/text.txt" --steps 3 --clip 0 --lr 0.1 --save "$folder/$2.end" \
    --metrics "$folder/$2.jsonl" --report "$folder/$2.report"
  run "$1" "$3" "$2" --init "$folder/one.end" --steps 0 --save "$folder/$2.again"
  sed 's/.*"grad_norm": \([0-9]*\.[0-9]\{6\}\).*/\1/' "$folder/$2.jsonl" >"$folder/$2.norms"
}
train "$reference" one 1
cmp "$folder/one.end" "$folder/one.again"
for cut; do
  name=${cut%:*}
  train "$program" "$name" "${cut#*:}"
  cmp "$folder/one.start" "$folder/$name.start"
  cmp "$folder/one.end" "$folder/$name.end"
  cmp "$folder/one.end" "$folder/$name.again"
  cmp "$folder/one.norms" "$folder/$name.norms"
done
