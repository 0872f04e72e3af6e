#!/bin/sh
# How a trained program ends when it cannot go on: its status, and one line that says why.
#   exit_codes.sh BRAID
set -eu
braid=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$braid" compile gpt2-tiny --devices 4 --stages 2 --mesh 2 --seq 16 --global-batch 4 -o out
yes 'sixteen and more bytes of text' | head -50 >text.txt
program=$work/out/train

fail() {
  echo "exit_codes.sh: $*" >&2
  exit 1
}
# CODE PATTERN COMMAND...: ends with CODE and one line of complaint, which has PATTERN.
expect() {
  code=$1
  pattern=$2
  shift 2
  status=0
  timeout 60 "$@" >log 2>&1 || status=$?
  [ "$status" = "$code" ] || fail "status $status instead of $code: $(cat log)"
  one_line "$pattern"
}
# Open MPI itself tells when a rank vanishes while another copies from its memory, or before its launcher looks after it.
one_line() {
  grep -v -e '^step ' -e '^\[.*\] Read -1, expected' -e '^\[warn\] Epoll ' -e '^$' log >said || true
  [ "$(wc -l <said)" = 1 ] || fail "not one line: $(cat said)"
  grep -q -- "$1" said || fail "no '$1' in: $(cat said)"
}

# What the program says of them.
"$program" --help >log
grep -q "4 MPI, the device or an output failed" log && grep -q "12 data or weights are missing" log || fail "no statuses in: $(cat log)"

# 10: a rank dies, whichever it is; all others end within 30 seconds.
for rank in 0 3; do
  rm -f metrics.jsonl
  "$braid" run out --steps 100000000 --data text.txt --metrics metrics.jsonl >log 2>&1 &
  pid=$!
  tries=600
  until grep -q '"step": 2,' metrics.jsonl 2>/dev/null; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || fail "no step is made: $(cat log)"
    sleep 0.1
  done
  victim=
  for process in /proc/[0-9]*; do
    [ "$(readlink "$process/exe")" = "$program" ] || continue
    tr '\0' '\n' <"$process/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$rank" && victim=${process#/proc/}
  done
  [ -n "$victim" ] || fail "rank $rank is not found"
  kill -9 "$victim"
  started=$(date +%s)
  status=0
  wait "$pid" || status=$?
  [ $(($(date +%s) - started)) -le 30 ] || fail "the others took more than 30 seconds to end"
  [ "$status" = 10 ] || fail "a dead rank ends in status $status: $(cat log)"
  one_line 'ended by signal 9'
  for process in /proc/[0-9]*; do
    [ "$(readlink "$process/exe")" != "$program" ] || fail "a rank is left"
  done
done

# 14 is tested where the processor can be faked (tests/runtime/check_machine.c).

# 11: the loss leaves the numbers.
expect 11 'of step [0-9]* is not finite' "$braid" run out --steps 50 --lr 1e6 --clip 0 --data text.txt

# 12: data that cannot be used.
printf 'short' >short.txt
expect 12 'short.txt' "$braid" run out --steps 1 --data short.txt
printf '\377\377\377\377%.0s' $(seq 100) >wild.bin
expect 12 'wild.bin' "$braid" run out --steps 1 --data wild.bin
expect 12 'none.bin' "$braid" run out --steps 1 --data none.bin

# So is an index of Megatron's that says more than there is; a sound one gives the same losses as its bytes as text.
index='MMIDIDX\0\0\1\0\0\0\0\0\0\0\1\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0%b\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0'
cp text.txt tokens.bin
# shellcheck disable=SC2059
printf "$index" '\0017' >tokens.idx
expect 12 'tokens.idx: not a sound index' "$braid" run out --steps 1 --data tokens.bin
# shellcheck disable=SC2059
printf "$index" '\0016' >tokens.idx
for data in text.txt tokens.idx; do
  "$braid" run out --steps 1 --data "$data" --metrics "$data.jsonl" >log 2>&1 || fail "$(cat log)"
  sed -n 's/.*"loss": \([0-9.]*\).*/\1/p' "$data.jsonl" >"$data.loss"
done
{ [ -s text.txt.loss ] && cmp text.txt.loss tokens.idx.loss; } || fail "other losses of the same tokens"

# 13: the wrong number of ranks.
root=
[ "$(id -u)" != 0 ] || root=--allow-run-as-root
expect 13 'needs 4 ranks' mpirun --quiet --oversubscribe $root -n 3 "$program" --steps 1 --data text.txt

# 2 and 4: usage, and files that cannot be written.
expect 2 "unknown argument '--no-such'" "$braid" run out --no-such 1
expect 4 'nowhere/metrics.jsonl' "$braid" run out --steps 1 --data text.txt --metrics nowhere/metrics.jsonl
expect 4 'nowhere/weights' "$braid" run out --steps 1 --data text.txt --save nowhere/weights.safetensors

# Files that are missing, are folders or lead nowhere: 1 of all commands, 12 of what a program reads.
mkdir -p folder/blocked
for named in none folder; do
  expect 1 "$named" "$braid" compile "$named" --devices 2 --global-batch 4 -o other
  expect 1 "$named" "$braid" compile gpt2-tiny --cluster "$named" --global-batch 4 -o other
  expect 1 "$named" "$braid" compile gpt2-tiny --devices 4 --plan "$named" -o other
  expect 1 "$named" "$braid" compile gpt2-tiny --devices 4 --partial "$named" -o other
  expect 1 "$named" "$braid" explain "$named"
  expect 1 "$named" "$braid" diff out "$named"
  expect 1 "$named" "$braid" diff "$named" out
  expect 1 "$named" "$braid" simulate "$named"
  expect 1 "$named" "$braid" simulate out --cluster "$named"
  expect 1 "$named" "$braid" solve "$named"
  expect 1 "$named" "$braid" run "$named"
  expect 1 "$named" "$braid" init "$named" -o other
  expect 1 "$named" "$braid" opt "$named"
  expect 1 "$named" "$braid" import "$named"
  expect 12 "$named" "$braid" run out --steps 1 --data "$named"
  expect 12 "$named" "$braid" run out --steps 1 --data text.txt --init "$named"
done
# And outputs that have no place: 1, and 4 of what a program writes, which would lose what it has trained.
echo 'L 1
0 1 1 1 2
a_last 1' >chain.txt
for named in none/other text.txt/other folder; do
  case $named in folder) there=folder/blocked ;; *) there=$named ;; esac
  expect 1 "$named" "$braid" compile gpt2-tiny --devices 2 --seq 16 --global-batch 4 --emit plan -o "$named"
  expect 1 "$named" "$braid" explain out --why zero=1 -o "$named"
  expect 1 "$named" "$braid" simulate out --trace "$named"
  expect 1 "$named" "$braid" solve chain.txt --budget 100 -o "$named"
  expect 1 "$named" "$braid" init gpt2-tiny -o "$named"
  expect 1 "$named" "$braid" probe -o "$named"
  expect 4 "$named" "$braid" run out --steps 1 --data text.txt --metrics "$there"
  expect 4 "$named" "$braid" run out --steps 1 --data text.txt --report "$there"
  expect 4 "$named" "$braid" run out --steps 1 --data text.txt --profile "$there"
done
[ ! -e other ] && [ ! -e none ] || fail "something was written"
