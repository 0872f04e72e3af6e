#!/bin/sh
# Signals to `braid run` and `braid compile` end what they started; nobody is left behind.
#   stop.sh BRAID
set -eu
braid=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$braid" compile gpt2-tiny --devices 2 --seq 16 --global-batch 4 -o out
yes 'sixteen and more bytes of text' | head -50 >text.txt
program=$work/out/train

fail() {
  echo "stop.sh: $*" >&2
  exit 1
}
printf '%s\n' "$program" >pattern
# WHAT SECONDS COMMAND...: waits until the command succeeds.
wait_until() {
  what=$1
  tries=$(($2 * 10))
  shift 2
  while ! "$@"; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || fail "$what"
    sleep 0.1
  done
}
trains() { grep -q '"step": 2,' metrics.jsonl 2>/dev/null; }
nobody() { ! grep -qsFf pattern /proc/[0-9]*/cmdline; }

for number in 15 2 1; do
  rm -f metrics.jsonl
  # A shell starts background jobs with SIGINT ignored; env gives it back.
  env --default-signal=INT "$braid" run out --steps 100000000 --data text.txt --metrics metrics.jsonl 2>log &
  pid=$!
  wait_until "no step is made: $(cat log)" 60 trains
  kill -"$number" "$pid"
  status=0
  wait "$pid" || status=$?
  [ "$status" = $((128 + number)) ] || fail "signal $number ends in status $status"
  wait_until "ranks outlive signal $number" 10 nobody
done

# Nobody outlives a braid that is killed.
rm -f metrics.jsonl
"$braid" run out --steps 100000000 --data text.txt --metrics metrics.jsonl 2>log &
pid=$!
wait_until "no step is made: $(cat log)" 60 trains
kill -9 "$pid"
wait "$pid" || true
wait_until "ranks outlive braid" 30 nobody

# A compilation that is stopped while make runs leaves nothing half-written.
mkdir bin
cat >bin/mpicc <<'END'
#!/bin/sh
: >"$(dirname "$0")/started"
exec sleep 60
END
chmod +x bin/mpicc
PATH=$work/bin:$PATH "$braid" compile gpt2-tiny --devices 2 --seq 16 --global-batch 4 -o other 2>log &
pid=$!
started() { [ -e bin/started ]; }
wait_until "the compiler was not started" 60 started
kill -15 "$pid"
status=0
wait "$pid" || status=$?
[ "$status" = 4 ] || fail "a stopped compilation ends in status $status"
grep -q 'error: building the program was stopped by signal 15' log || fail "no word of the signal: $(cat log)"
[ -z "$(ls -d other* 2>/dev/null)" ] || fail "something was left: $(ls -d other*)"
