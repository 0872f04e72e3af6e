#!/bin/bash
# What may happen to a run and its checkpoints: it is told to stop, it is killed, files are damaged, lost or another
# run's. Each ends in the bits of the run that was not disturbed, or in one line that says why not.
#   checkpoint_faults.sh BRAID FLIP [FOLDER]
set -euo pipefail
braid=$(realpath "$1") flip=$(realpath "$2")
here=$(dirname "$(realpath "$0")")
. "$here/road.sh"
open_folder "${3:-}"
write_text text.txt
export OMPI_MCA_odls_base_sigkill_timeout=0 # ranks that end with a status have said why

plan_model two gpt2-tiny 2 1 2 4 1f1b 0 none batch
build two
optimizer=sgd plan_model other gpt2-tiny 2 1 2 4 1f1b - none batch
build other
plan_model less llama-tiny 2 1 2 4 1f1b - none batch
build less

# EXPECTED-STATUS NAME OPTION... -> log
# The seed is 1 where no other is given.
run() {
  local status=0
  mpirun --allow-run-as-root --oversubscribe -n 2 "$2/train" --data text.txt "${@:3}" 2>log </dev/null || status=$?
  [ "$status" = "$1" ] || { cat log; fail "${*:2} ended with status $status, not $1"; }
}
says() { grep -q -- "$1" log || { cat log; fail "no line says '$1'"; }; }
same_end() { cmp -s whole.safetensors end.safetensors || fail "$1: other weights"; }

# NAME OPTION... -> log, $launcher: a run that goes on until it is told to stop, or killed.
start() {
  mpirun --allow-run-as-root --oversubscribe -n 2 "$1/train" --data text.txt --seed 1 --steps 100000 "${@:2}" 2>log </dev/null &
  launcher=$!
}
# COMMAND...: waits until it succeeds, while $launcher runs.
while_running() {
  until "$@"; do
    kill -0 "$launcher" 2>/dev/null || { cat log; echo "FAIL: the run ended before '$*'"; exit 1; }
    sleep 0.02
  done
}

run 0 two --steps 6 --save whole.safetensors --checkpoint good --checkpoint-every 2 --checkpoint-keep 3

# Told to stop: a checkpoint, a status of its own, and the rest later.
start two --checkpoint told --metrics told.jsonl
while_running [ -s told.jsonl ]
kill -USR1 $launcher
status=0
wait $launcher || status=$?
[ "$status" = 15 ] || fail "told to stop it ends with status $status"
says 'stopped after step'
[ "$(ls told | wc -l)" = 1 ] || fail "told to stop it leaves other things than a checkpoint"
step=$(ls told | sed 's/step-0*//')
run 0 two --steps $((step + 1)) --resume told --checkpoint told --metrics told.jsonl
says 'goes on from told/step-'
[ "$(wc -l <told.jsonl)" = $((step + 1)) ] || fail "a resumed run's metrics do not go on"

# PROCESS
kill_children() {
  local process line state parent
  for process in /proc/[0-9]*; do
    { read -r line <"$process/stat"; } 2>/dev/null || continue # it has ended
    read -r state parent _ <<<"${line##*) }"
    [ "$parent" != "$1" ] || kill -9 "${process#/proc/}" 2>/dev/null || true
  done
}

# The last step of which a checkpoint of the killed run stands, and whether that is this one or a later one: the
# checkpoints of single steps make room for others before anybody looks.
standing() { ls killed 2>/dev/null | grep -v partial | tail -1 | sed 's/step-0*//'; }
stands() { local step; step=$(standing) && [ "$step" -ge "$1" ]; }

# Killed at any moment, what stands is whole.
for wait in 1 2 3; do
  rm -rf killed
  start two --checkpoint killed --checkpoint-every 1
  while_running stands "$wait"
  kill_children $launcher
  wait $launcher || true
  step=$(standing)
  run 0 two --steps "$step" --resume killed --save killed.safetensors
  run 0 two --steps "$step" --save straight.safetensors
  cmp -s killed.safetensors straight.safetensors || fail "a checkpoint of a killed run is not what it stood at"
done

# FILE...: with these of the newest checkpoint damaged, the one before serves, and the damaged one makes room.
falls_back() {
  run 0 two --steps 6 --resume bad --checkpoint bad --save end.safetensors
  says "$1"
  says 'goes on from bad/step-00000004'
  same_end "$1"
  [ -e bad/step-00000006 ] && [ -e bad/step-00000006.damaged ] || fail "$1: $(ls bad)"
}
fresh() { rm -rf bad; cp -r good bad; }
newest=bad/step-00000006
for at in 0 9 2000 100000 -1; do
  fresh
  "$flip" "$newest/rank-00001.safetensors" "$at"
  falls_back 'is damaged'
done
fresh; truncate -s -4 $newest/rank-00000.safetensors; falls_back 'does not have the size'
fresh; rm $newest/rank-00001.safetensors; falls_back 'No such file'
fresh; mv $newest/rank-00001.safetensors x; mv $newest/rank-00000.safetensors $newest/rank-00001.safetensors
mv x $newest/rank-00000.safetensors; falls_back 'is damaged\|does not have the size'
fresh; truncate -s 300 $newest/checkpoint.json; falls_back 'no sound description'
fresh; rm $newest/checkpoint.json; falls_back 'No such file'
fresh; mkfifo x; mv x $newest/checkpoint.json; falls_back 'no regular file'

# Any byte of a description: it is refused, or the run is the same.
size=$(stat -c %s good/step-00000006/checkpoint.json)
for at in $(seq 0 $((size / 40)) $((size - 1))); do
  fresh
  rm -r bad/step-00000002 bad/step-00000004
  "$flip" $newest/checkpoint.json "$at"
  status=0
  mpirun --allow-run-as-root --oversubscribe -n 2 two/train --data text.txt --seed 1 --steps 6 --resume bad --save end.safetensors \
    2>log </dev/null || status=$?
  case $status in
    0) same_end "byte $at of checkpoint.json" ;;
    12) [ "$(grep -c '^braid: bad' log)" = 1 ] || { cat log; fail "byte $at of checkpoint.json is not told in one line"; } ;;
    *) cat log; fail "byte $at of checkpoint.json: status $status" ;;
  esac
done

# Nothing that is whole, nothing at all, and another run's.
fresh
for step in 2 4 6; do "$flip" bad/step-0000000$step/rank-00000.safetensors 5000; done
run 12 two --steps 6 --resume bad
run 12 two --steps 6 --resume nowhere; says 'nowhere: has no checkpoint to go on from'
run 0 two --steps 6 --resume new --checkpoint new --save end.safetensors; same_end 'a first start'
run 2 two --steps 6 --checkpoint good; says 'good has checkpoints already, up to step 6'
run 12 other --steps 6 --resume good; says 'its optimizer is adamw'
run 12 less --steps 6 --resume good; says 'its model has'
run 12 two --steps 6 --resume good --seed 2; says 'a run with --seed 1'
run 0 two --steps 6 --resume good/step-00000002 --save end.safetensors; same_end 'one that is named'
run 2 two --steps 6 --checkpoint-every 2; says '--checkpoint FOLDER is needed'
run 2 two --steps 6 --checkpoint x --checkpoint-keep 0; says 'at least 1'
run 4 two --steps 6 --checkpoint text.txt; says 'text.txt: cannot be written'

# What cannot be written does not end a run, unless it is its end.
mkdir -p full/step-00000002.partial/x full/step-00000006.partial/x
run 4 two --steps 6 --checkpoint full --checkpoint-every 2
says 'training goes on without a checkpoint of step 2'
says 'a checkpoint cannot be written'
[ -e full/step-00000004 ] || fail 'a run that cannot write one checkpoint writes no other'
finish
