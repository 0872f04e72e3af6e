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
  grep -q "^error: stopped by " log || fail "no word of signal $number: $(cat log)"
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

# A compilation that is stopped, whatever it is at, leaves no program, no half of one and no child, and says so in a line.
compile() { # OUT OPTIONS
  compiled=$1
  shift
  : >log
  env --default-signal=INT "$braid" compile gpt2-tiny --devices 2 --seq 16 --global-batch 4 -o "$compiled" "$@" 2>log &
  pid=$!
}
# NUMBER WORD: how it has ended.
check_stopped() {
  [ "$status" = $((128 + $1)) ] || fail "signal $1 ends a compilation in status $status: $(cat log)"
  [ "$(grep -c "^error: .*stopped by $2" log)" = 1 ] || fail "no word of signal $1: $(cat log)"
  [ "$(wc -l <log)" = 1 ] || fail "more than a line: $(cat log)"
  [ -z "$(ls -d other* 2>/dev/null)" ] || fail "something was left: $(ls -d other*)"
}

# While make runs.
mkdir bin
cat >bin/mpicc <<'END2'
#!/bin/sh
echo $$ >>"$(dirname "$0")/started"
exec sleep 60
END2
chmod +x bin/mpicc
started() { [ -s bin/started ]; }
ended() {
  while read -r child; do
    ! kill -0 "$child" 2>/dev/null || return 1
  done <bin/started
}
for number in 15 2 1; do
  rm -f bin/started
  case $number in 2) word="an interrupt" ;; 15) word=SIGTERM ;; *) word=SIGHUP ;; esac
  PATH=$work/bin:$PATH compile other
  wait_until "the compiler was not started" 60 started
  kill -"$number" "$pid"
  status=0
  wait "$pid" || status=$?
  check_stopped "$number" "$word; nothing is written"
  wait_until "compilers outlive signal $number" 10 ended
done

# At any moment of reading, lowering and writing: how far it is by then depends on the machine.
"$braid" compile gpt2-tiny --devices 2 --seq 16 --global-batch 4 --emit plan -o plan.json
# Whether the process is braid, no longer the shell or env, and catches interrupts, signal 2.
catches() {
  mask='' name=''
  while read -r key mask; do
    [ "$key" != Name: ] || name=$mask
    [ "$key" != SigCgt: ] || break
  done 2>/dev/null <"/proc/$pid/status"
  case $name$mask in braid*[2367abef]) return 0 ;; *) return 1 ;; esac
}
read=0 wrote=0
for pause in caught 0 0.01 0.03 partial caught 0.05 partial caught 0.1 partial caught 0.2 partial caught 0.4 partial caught; do
  compile other --plan plan.json --emit c
  if [ "$pause" = partial ]; then
    until [ -n "$(ls -d other.partial-* 2>/dev/null)" ] || ! kill -0 "$pid" 2>/dev/null; do :; done
  elif [ "$pause" = caught ]; then
    until catches || ! kill -0 "$pid" 2>/dev/null; do :; done
  else
    sleep "$pause"
  fi
  kill -2 "$pid" 2>/dev/null || true
  status=0
  wait "$pid" || status=$?
  if [ "$status" = 0 ]; then
    [ -e other/Makefile ] && [ "$(ls -d other*)" = other ] || fail "a compilation that is done leaves $(ls -d other*)"
    rm -r other
    continue
  fi
  # Before it watches, or is braid at all, it ends without a word.
  [ "$status" = 130 ] && [ ! -s log ] && [ "$pause" != partial ] && continue
  check_stopped 2 "an interrupt"
  if grep -q writing log; then wrote=1; else read=1; fi
done
[ "$wrote" = 1 ] || fail "no interrupt came while sources were written"
[ "$read" = 1 ] || fail "no interrupt came before sources were written"

# Nor are temporary folders left.
mkdir temporary
rm -f bin/started
TMPDIR=$work/temporary PATH=$work/bin:$PATH env --default-signal=INT "$braid" probe -o here.json 2>log &
pid=$!
wait_until "the compiler was not started" 60 started
kill -2 "$pid"
status=0
wait "$pid" || status=$?
[ "$status" = 130 ] && grep -q "stopped by an interrupt" log || fail "a probe ends in status $status: $(cat log)"
[ -z "$(ls temporary)" ] && [ ! -e here.json ] || fail "a probe leaves $(ls temporary)"
