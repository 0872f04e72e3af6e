#!/bin/sh
# The first interrupt ends a search with the plan in hand and its gap, or with a word when there is
# none; a second one ends braid.
#   interrupt.sh BRAID
set -eu
braid=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
  echo "interrupt.sh: $*" >&2
  exit 1
}
# MODEL OPTIONS. A shell starts background jobs with interrupts ignored; env gives them back.
compile() {
  rm -f plan.json
  : >log
  env --default-signal=INT "$braid" compile "$@" --threads 1 --verbose --emit plan -o plan.json 2>log &
  pid=$!
}
# A search of a minute and more, in batches of a second.
start() { # options
  compile llama-3-8b --cluster h100:8x8 --global-batch 5040 --time-limit 3600 "$@"
}
# PATTERN: waits until a line of the log has it.
wait_for() {
  tries=12000
  until grep -q "$1" log; do
    kill -0 "$pid" 2>/dev/null || fail "braid ended by itself: $(cat log)"
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || fail "no '$1' in: $(cat log)"
    sleep 0.01
  done
}
# Hundredths of a second of processor time that the process has used: what it has done by then depends on no other
# load. Nothing once it has ended.
used() {
  awk '{ sub(/.*\) /, "") } $1 != "Z" { print $12 + $13 }' "/proc/$pid/stat" 2>/dev/null || true
}
# HUNDREDTHS: waits until the process has used so much more, or has ended.
spend() {
  now=$(used)
  target=$((${now:-0} + $1))
  while [ "$now" ] && [ "$now" -lt "$target" ]; do
    sleep 0.01
    now=$(used)
  done
}
# Whether the process is halted, or has ended.
is_halted() {
  case $(awk '{ sub(/.*\) /, ""); print $1 }' "/proc/$pid/stat" 2>/dev/null) in T | Z | '') return 0 ;; esac
  return 1
}
finish() {
  status=0
  wait "$pid" || status=$?
}

start
wait_for 'gap [0-9.]* %'
kill -INT "$pid"
finish
[ "$status" = 0 ] || fail "an interrupted search with a plan ends in status $status: $(cat log)"
grep -q 'warning: the search was stopped by an interrupt: .*(a gap of [0-9.]* %)' log || fail "no gap in: $(cat log)"
grep -q '"search": "stopped by an interrupt' plan.json || fail "the plan does not tell: $(grep search plan.json)"
if grep -q "came after the search" log; then fail "the interrupt is told twice: $(cat log)"; fi
"$braid" explain plan.json >page || fail "the plan cannot be explained"

# Nor is a plan lost when the interrupt comes later, while it is compared with others: when that is depends on the
# machine.
kept=
for pause in 4 6 8 10 2 3 5 7 12 15 18 22 26 30 35 40 50 60 80 100 150; do
  compile gpt2-124m --cluster cpu:1x4 --global-batch 8 --seq 64 --memory-cap 600MiB
  wait_for 'gap [0-9.]* %'
  spend "$pause"
  kill -INT "$pid" 2>/dev/null || true
  finish
  [ "$status" = 0 ] || continue
  if grep -q '"search": "whole space' plan.json && grep -q 'the search was interrupted' plan.json; then
    kept=yes
    break
  fi
done
[ "$kept" ] || fail "no plan outlives an interrupt while it is compared: status $status: $(cat log)"
grep -q "warning: the interrupt came after the search" log || fail "no word of the interrupt: $(cat log)"

# The full space tells in other words.
compile gpt3-175b --precision bf16 --space full --cluster a100-80gb:128x8 --global-batch 1536 --time-limit 3600
wait_for 'gap [0-9.]* %'
kill -INT "$pid"
finish
[ "$status" = 0 ] || fail "an interrupted search of the full space ends in status $status: $(cat log)"
grep -q '"search": "full space, in part, stopped by an interrupt' plan.json || fail "the plan does not tell: $(grep search plan.json)"
if grep -q "came after the search" log; then fail "the interrupt is told twice: $(cat log)"; fi

# Nothing fits.
start --memory-cap 1GiB
wait_for 'no plan yet'
kill -INT "$pid"
finish
[ "$status" = 130 ] || fail "an interrupted search without a plan ends in status $status: $(cat log)"
grep -q 'error: the search was interrupted before it found a plan' log || fail "no word in: $(cat log)"
[ ! -e plan.json ] || fail "there is a plan all the same"

# The second interrupt must come after the first is seen, and while the search still winds up: the process is halted
# as soon as it has the first, so that it has the second before it goes on. A few tries, since it may end before it is
# halted.
for _ in $(seq 20); do
  start --memory-cap 1GiB
  wait_for 'no plan yet'
  kill -INT "$pid"
  kill -STOP "$pid" 2>/dev/null || true
  until is_halted; do :; done
  kill -INT "$pid" 2>/dev/null || true
  kill -CONT "$pid" 2>/dev/null || true
  finish
  [ "$status" = 130 ] && break
done
[ "$status" = 130 ] || fail "a second interrupt does not end braid: status $status: $(cat log)"
[ ! -e plan.json ] || fail "a killed search leaves a plan"

# Bare problems keep what they have: STATUS WORD FILE and options.
solve() {
  wanted=$1 word=$2
  shift 2
  for pause in 100 200 400 800; do # longer where an interrupt comes before the search
    : >log
    env --default-signal=INT "$braid" solve --time-limit 3600 "$@" >page 2>log &
    pid=$!
    spend "$pause"
    kill -INT "$pid" || fail "'solve $*' ended by itself: $(cat page log)"
    finish
    [ "$status" = 130 ] && grep -qx "error: stopped by an interrupt" log || break
  done
  [ "$status" = "$wanted" ] || fail "'solve $*' ends in status $status: $(cat log)"
  grep -q "$word" log || fail "no '$word' for 'solve $*' in: $(cat log)"
}
stopped='warning: the search was stopped by an interrupt: the answer costs .*(gap [0-9.e+-]* %)'

awk 'function row(n, most) {
    for (k = 0; k < n; k++) printf "%s%d", k ? "," : "[", rand() * most
    return "]"
  }
  BEGIN {
    srand(3); n = 2000
    printf "{\"problem\":{\"usage_limit\":8000,\"nodes\":{\"intervals\":"
    for (i = 0; i < n; i++) printf "%s[%d,%d]", i ? "," : "[", i, i + 20
    printf "],\"costs\":"
    for (i = 0; i < n; i++) { printf i ? "," : "["; printf row(8, 1000) }
    printf "],\"usages\":"
    for (i = 0; i < n; i++) { printf i ? "," : "["; printf row(8, 1000) }
    printf "]},\"edges\":{\"nodes\":"
    for (i = 0; i < 2 * n; i++) { printf i ? "," : "["; printf row(2, n) }
    printf "],\"costs\":"
    for (i = 0; i < 2 * n; i++) { printf i ? "," : "["; printf row(64, 1000) }
    print "]}}}"
  }' >sharding.json
solve 0 "$stopped" sharding.json
grep -q 'seconds .*, stopped by an interrupt' page || fail "the page does not tell: $(cat page)"

awk 'BEGIN {
    srand(5)
    print "{\"braid_layers\": 1, \"devices\": [{\"kind\": \"d\", \"count\": 16, \"cap_bytes\": 60000}],"
    print "\"link\": {\"bytes_per_second\": 800}, \"micro_batches\": [4, 8, 16], \"max_stages\": 16,"
    print "\"schedules\": [\"1f1b\", \"zero-bubble\", \"interleaved\"], \"chunks\": [2, 4], \"layers\": ["
    for (i = 0; i < 80; i++) {
      printf "%s{\"name\": \"l%d\", \"options\": [", i ? ",\n" : "", i
      for (k = 0; k < 4; k++) {
        d = k < 2 ? 1 : 2
        printf "%s{\"devices\": %d, \"forward_seconds\": %.3f, \"backward_seconds\": %.3f, ", k ? ", " : "", d, (1 + rand()) / d, (2 + rand()) / d
        printf "\"fixed_bytes\": %d, \"micro_batch_bytes\": %d}", rand() * 1000 / d, rand() * 1000 / d
      }
      printf "]}"
    }
    print "]}"
  }' >layers.json
solve 0 "$stopped" layers.json --json
grep -q '"gap": [0-9]' page || fail "no gap in: $(cat page)"

# A chain has nothing before its end but a sequence that is sure to fit.
awk 'BEGIN {
    print "L 900"
    for (i = 0; i < 900; i++) print i, i % 7 + 1, i % 5 + 2, 1000 + i % 13, 3001 + i % 17
    print "a_last 1000"
  }' >chain.txt
solve 0 "$stopped" chain.txt --budget 900000

# A graph, with a budget that is easily kept and with one that is not.
awk 'BEGIN {
    n = 300
    for (i = 0; i <= 2 * n; i++) print "node", i, "v" i, (i >= n), 100 + i * 37 % 101, 1000 + i * 53 % 211
    for (i = 1; i < n; i++) { print "edge", i - 1, i; print "edge", i, 2 * n - i }
    for (i = n; i <= 2 * n; i++) print "edge", i - 1, i
  }' >graph.txt
solve 0 "$stopped" graph.txt --budget 250000
solve 130 "error: the search was interrupted before it found an answer" graph.txt --budget 6000

# Weights that are not whole leave nothing behind.
for number in 2 15 1; do
  case $number in 2) signal=INT ;; 15) signal=TERM ;; *) signal=HUP ;; esac
  : >log
  env --default-signal=$signal "$braid" init gpt2-1558m -o weights 2>log &
  pid=$!
  tries=12000
  until [ -s weights.partial ]; do
    kill -0 "$pid" 2>/dev/null || fail "braid init ended by itself: $(cat log)"
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || fail "braid init writes nothing"
    sleep 0.01
  done
  kill -$signal "$pid"
  finish
  [ "$status" = $((128 + number)) ] || fail "init ends in status $status after $signal: $(cat log)"
  grep -q "^weights: error: writing was stopped by .*; nothing is written$" log || fail "init: $(cat log)"
  [ ! -e weights ] && [ ! -e weights.partial ] || fail "init leaves $(ls)"
done
