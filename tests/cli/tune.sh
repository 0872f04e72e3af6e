#!/bin/sh
# `braid tune` tries plans, keeps the fastest, and says what it measured; what it leaves is an output folder as any other.
#   tune.sh BRAID
set -eu
braid=$(realpath "$1")
# What launchers of programs that do not run write for their profiles.
export PRETENDS="$(dirname "$(realpath "$0")")/../support/pretend_profile.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# How fast programs are does not matter here, how soon they are built does, unless a cache does that.
printf '#!/bin/sh\nexec cc "$@" -O0\n' >quick-cc
chmod +x quick-cc
export OMPI_CC="${OMPI_CC:-$work/quick-cc}"
fail() {
  echo "tune.sh: $*" >&2
  cat log >&2
  exit 1
}
# STATUS COMMAND...: the command ends so.
ends() {
  wanted=$1 status=0
  shift
  "$@" >log 2>&1 || status=$?
  [ "$status" = "$wanted" ] || fail "status $status instead of $wanted of $*"
}
nothing_left() { [ "$(ls -d "$1"* 2>/dev/null | wc -l)" = "${2:-0}" ] || fail "left: $(ls -d "$1"*)"; }
member() { sed -n "s/.*\"$1\": \([^,}]*\).*/\1/p" "$2"; }

# A real one: what the ranks take becomes the rates of a cluster, by which is planned again.
ends 0 "$braid" tune gpt2-tiny --devices 2 --seq 16 --global-batch 4 --tries 2 --steps 3 -o real
nothing_left real 1
grep -q '"point_seconds": {"add": ' real/cluster.json || fail 'no rates were read off'
[ "$(member kept real/tuning.json)" -lt "$(grep -c '"choice": ' real/tuning.json)" ] || fail 'what is kept was not tried'
grep -q '"cluster": "cluster.json"' real/plan.json || fail 'the plan does not name its cluster'
grep -q '^cluster.json  ' real/README && grep -q '^tuning.json   ' real/README || fail 'the page does not name all files'
grep -q '^products.json ' real/README && fail 'the page names what is not there'
ends 0 "$braid" explain real
grep -q ' for real/cluster.json$' log || fail 'the cluster is not found beside the plan'
# Wherever the folder lies, and whatever is called so where braid is started.
mkdir elsewhere
cp -r real elsewhere/moved
echo '{"braid_cluster": 1}' >elsewhere/cluster.json
(cd elsewhere && ends 0 "$braid" explain moved --why mb=4 && ends 0 "$braid" explain moved/plan.json --why mb=4)
(cd real && ends 0 "$braid" explain plan.json --why mb=4)
(cd / && ends 0 "$braid" explain "$work/elsewhere/moved/plan.json" --why mb=4 -o "$work/forced.json")
grep -q "\"cluster\": \"$work/elsewhere/moved/cluster.json\"" forced.json || fail 'a forced plan does not say where its cluster lies'
(cd elsewhere && ends 0 "$braid" simulate moved --model gpt2-tiny)
ends 0 "$braid" diff real elsewhere/moved
grep -q '^  cluster .*real/cluster.json .*elsewhere/moved/cluster.json$' log || fail 'two files of one name are told as one'
rm elsewhere/moved/cluster.json
(cd elsewhere && ends 1 "$braid" explain moved --why mb=4)
yes 'sixteen and more bytes of text' | head -50 >text.txt
ends 0 "$braid" run real --steps 2 --data text.txt --metrics metrics.jsonl
[ "$(wc -l <metrics.jsonl)" = 2 ] || fail 'the program does not train'
# The plan is that of the rates: compiled for them it predicts the same.
"$braid" compile gpt2-tiny --cluster real/cluster.json --plan real/plan.json --seq 16 --emit plan -o again.json
[ "$(member step_seconds again.json | head -1)" = "$(member step_seconds real/plan.json | head -1)" ] || fail 'predictions differ'
[ "$(member bound_seconds again.json | head -1)" = "$(member bound_seconds real/plan.json | head -1)" ] || fail 'the bound is lost'
grep -q '"cluster": "real/cluster.json"' again.json || fail 'another file does not say where the cluster lies'
ends 2 "$braid" compile gpt2-tiny --cluster real/cluster.json --seq 16 --global-batch 4 -o real
grep -q "error: .*'real/cluster.json'.* -o" log || fail 'a cluster file may be lost'
ends 2 "$braid" tune gpt2-tiny --cluster real/cluster.json --seq 16 --global-batch 4 -o real
grep -q "error: .*'real/cluster.json'.* -o" log || fail 'a cluster file may be lost'

# A launcher that trains nothing: line K of `steps` is how long a step of trial K takes, or how it fails.
cat >launcher <<'END'
[ "$1" = 2 ] || exit 99
shift
echo "$*" >>lines
step=$(sed -n "$(wc -l <lines)p" steps)
case $step in fails*) echo 'a word before' ; echo "it ${step}"; exit 14 ;;
unfit*) echo "the data are ${step}"; exit 12 ;;
torn) step=0.0001 profile='{"braid_profile": 1, "instr' ;;
*) profile='{"braid_profile": 1, "instructions": [], "ranks": [{"rank": 0, "stage": 0, "times": []}]}' ;; esac
while [ $# -gt 0 ]; do
  case $1 in
  --metrics) for i in 1 2 3 4 5; do echo "{\"step\": $i, \"step_seconds\": $([ $i -le 2 ] && echo 100 || echo $step)}"; done >"$2" ;;
  --profile) echo "$profile" >"$2" ;;
  esac
  shift
done
END
# OUT STATUS OPTION...: tunes with it.
tune() {
  out=$1 status=$2
  shift 2
  rm -f lines
  ends "$status" "$braid" tune gpt2-tiny --devices 2 --seq 16 --global-batch 4 --steps 5 --launcher "sh $work/launcher {ranks}" -o "$out" "$@"
}
# The fastest is kept, whatever fails is told and left out, be it by what it should leave.
printf '%s\n' 0.0100 'fails for want of memory' 0.0070 torn 0.0090 >steps
tune kept 0 --tries 5 --within 400
[ "$(wc -l <lines)" = 5 ] || fail "$(wc -l <lines) trials"
grep -qv -- '/train --data .*/data.bin --tokenizer u16 --steps 5 --lr 0 --metrics ' lines && fail 'not all are trained alike'
[ "$(member kept kept/tuning.json)" = 2 ] || fail 'the fastest is not kept'
grep -q '^  3 .* 7.0 ms  kept$' log || fail 'what is kept is not told'
grep -q '^  2 .*failed, status 14: it fails for want of memory$' log || fail 'a failure is not told'
grep -q '^  4 .*failed, status 0, but profile.json: ' log || fail 'a torn profile is not told'
grep -q '"measured_seconds": null, "failure": "status 0, but profile.json: ' kept/tuning.json || fail 'a torn profile counts as measured'
grep -q '"measured_seconds": null, "failure": "status 14: it fails' kept/tuning.json || fail 'a failure is not in the file'
[ "$(member micro_batch kept/plan.json)" = "$(grep choice kept/tuning.json | sed -n '3s/.*"micro_batch": \([0-9]*\).*/\1/p')" ] ||
  fail 'another plan is in the folder'

# When nothing runs, nothing is written.
yes 'fails always' | head -20 >steps
tune never 4 --tries 1
grep -q 'error: no program that was tried ran to its end; .* status 14: it fails always' log || fail 'no word of the end'
nothing_left never
yes damaged | head -20 >steps
tune never 4 --tries 1
grep -q 'error: no program .* status 0, but metrics.jsonl: expected a value' log || fail 'damaged metrics are not told'
nothing_left never

# Data that one program does not take are taken by none.
yes 'unfit for training' | head -20 >steps
tune never 1 --data text.txt
grep -q '^text.txt: error: cannot be trained on: the data are unfit for training$' log || fail 'no word of the data'
[ "$(wc -l <lines)" = 1 ] || fail 'unfit data are tried again'
nothing_left never

# A launcher that does not wait for its ranks is no trial.
printf 'exit 0\n' >hasty
ends 4 "$braid" tune gpt2-tiny --devices 2 --seq 16 --global-batch 4 --tries 1 --launcher "sh $work/hasty" -o hurried
grep -q "error: no program .* status 0, but metrics.jsonl: cannot open" log || fail "no word of what is not there"
nothing_left hurried

# Under these pins there is one plan.
yes 0.01 | head -20 >steps
tune pinned 0 --pin dp=2,pp=1 --micro-batch 4 --tries 8 --within 1000
[ "$(wc -l <lines)" = 1 ] || fail 'there is more than one plan under these pins'

# Every instruction takes as long: by such rates another plan is best, which the table would tell alike.
cat >launcher <<'END'
[ "$1" = 2 ] || exit 99
folder=$(dirname "$2")
shift
echo "$*" >>lines
while [ $# -gt 0 ]; do
  case $1 in
  --metrics) for i in 1 2 3 4 5; do echo "{\"step\": $i, \"step_seconds\": 0.0$((9 - $(wc -l <lines)))}"; done >"$2" ;;
  --profile) sh "$PRETENDS" "$folder" >"$2" ;;
  esac
  shift
done
END
tune twins 0 --stages 1 --mesh 2 --micro-batch 4 --tries 2 --within 1000
grep -A 1 '^  2  open ' log | grep -q '^     unlike 1: [a-zA-Z ]* (.* -> .*); .* -> .*; .* -> .*; [1-9][0-9]* more$' || fail 'trials of one choice look alike'
[ "$(grep -c ' unlike ' log)" = 1 ] || fail 'the first trial is unlike one'
grep -q '"unlike": {"trial": 0, "choices": \[{"name": "[^"]*", "a": "[^"]*", "b": "[^"]*"}, ' twins/tuning.json || fail 'the file does not say in what trials differ'

# What is told to stop leaves nothing.
printf 'exec sleep 100\n' >launcher
env --default-signal=INT "$braid" tune gpt2-tiny --devices 2 --seq 16 --global-batch 4 --launcher "sh $work/launcher" -o stopped >log 2>&1 &
pid=$!
tries=1200
until ls stopped.partial-*/0/log >/dev/null 2>&1 || [ $tries = 0 ]; do
  tries=$((tries - 1))
  sleep 0.1
done
kill -INT $pid
status=0
wait $pid || status=$?
[ "$status" = 130 ] || fail "an interrupt ends in status $status"
grep -q 'error: tuning was stopped by an interrupt; nothing is written' log || fail 'no word of the stop'
nothing_left stopped

# So does a search that would go on for long.
env --default-signal=INT "$braid" tune gpt-1t --cluster cpu:256x8 --global-batch 2048 --time-limit 300 -o searched >log 2>&1 &
pid=$!
tries=1200
until ls -d searched.partial-* >/dev/null 2>&1 || [ $tries = 0 ]; do
  tries=$((tries - 1))
  sleep 0.1
done
sleep 1
kill -INT $pid
told=$(date +%s) status=0
wait $pid || status=$?
[ "$status" = 130 ] || fail "an interrupt of a search ends in status $status"
[ $(($(date +%s) - told)) -le 100 ] || fail 'a search is not interrupted'
grep -q 'error: tuning was stopped by an interrupt; nothing is written' log || fail 'no word of the stop of a search'
nothing_left searched
