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
# A search of a minute and more, in batches of a second. A shell starts background jobs with interrupts
# ignored; env gives them back.
start() { # options
  rm -f plan.json
  : >log
  env --default-signal=INT "$braid" compile llama-3-8b --cluster h100:8x8 --global-batch 5040 --time-limit 3600 \
    --threads 1 --verbose --emit plan -o plan.json "$@" 2>log &
  pid=$!
}
# PATTERN: waits until a line of the log has it.
wait_for() {
  tries=2400
  until grep -q "$1" log; do
    kill -0 "$pid" 2>/dev/null || fail "braid ended by itself: $(cat log)"
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || fail "no '$1' in: $(cat log)"
    sleep 0.05
  done
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
"$braid" explain plan.json >page || fail "the plan cannot be explained"

# Nothing fits.
start --memory-cap 1GiB
wait_for 'no plan yet'
kill -INT "$pid"
finish
[ "$status" = 4 ] || fail "an interrupted search without a plan ends in status $status: $(cat log)"
grep -q 'error: the search was interrupted before it found a plan' log || fail "no word in: $(cat log)"
[ ! -e plan.json ] || fail "there is a plan all the same"

# The second interrupt must come while the search still winds up: a few tries.
for try in 1 2 3 4 5 6 7 8; do
  start --memory-cap 1GiB
  wait_for 'no plan yet'
  kill -INT "$pid"
  sleep 0.01
  kill -INT "$pid" 2>/dev/null || true
  finish
  [ "$status" = 130 ] && break
done
[ "$status" = 130 ] || fail "a second interrupt does not end braid: status $status: $(cat log)"
[ ! -e plan.json ] || fail "a killed search leaves a plan"
