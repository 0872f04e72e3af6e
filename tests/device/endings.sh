#!/bin/bash
# How a program for GPUs ends, on the fake device: every status of docs/cuda.md with one line that says why.
#   endings.sh TINY
set -u
tiny=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
mkdir shared
printf 'it was the best of times, it was the worst of times' >text.txt
failures=0
hosts=()
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }

# NAME RANKS EXPECTED-STATUSES LINE [VARIABLE=VALUE]... -- ARGUMENTS: LINE is a pattern that exactly one line
# about braid matches, of all ranks together; empty: there is none. `also`: that of one more line. The rank `victim`
# is killed in step 2, or as soon as the file `blocked` is there, and the others end within 30 seconds; the data ends
# in step 2 where `emptied` is set. `took`: seconds from the start, or from that death, to the end of all.
# `hosts`: the machines of the ranks in their order, where they are not all on this one. `data`: the file, where it is
# not text.txt.
run() {
  local name=$1 ranks=$2 expected=$3 line=$4 rank settings=() processes=() codes=() start=$SECONDS
  local last='' here=0 place=LOCAL_WORLD_SIZE=$2
  [ ${#hosts[@]} = 0 ] || place=MASTER_ADDR=127.0.0.1
  shift 4
  while [ "$1" != -- ]; do settings+=("$1"); shift; done
  shift
  rm -f log.* report.* blocked
  for ((rank = 0; rank < ranks; rank++)); do
    local limit=(timeout 60) host=${hosts[rank]:-this}
    [ "$rank" != "${victim:-}" ] || limit=()
    [ "$host" = "$last" ] || here=0
    env RANK=$rank WORLD_SIZE="$ranks" LOCAL_RANK=$here "$place" BRAID_JOB="$$-$name" \
      TINY_RANKS="$ranks" BD_FAKE_RANK=$rank BD_FAKE_FOLDER="$work/shared" BRAID_JOIN_SECONDS=20 \
      BD_FAKE_REPORT="$work/report.$rank" BD_FAKE_HOST="$host" "${settings[@]}" \
      "${limit[@]}" "$tiny" --data "${data:-text.txt}" "$@" 2>"log.$rank" </dev/null &
    processes+=($!)
    last=$host here=$((here + 1))
  done
  if [ -n "${victim:-}${emptied:-}" ]; then
    for ((i = 0; i < 200; i++)); do { grep -q 'step 2/' log.0 || [ -e blocked ]; } && break; sleep 0.1; done
    start=$SECONDS
    [ -z "${victim:-}" ] || kill -9 "${processes[victim]}"
    [ -z "${emptied:-}" ] || : >text.txt
  fi
  for ((rank = 0; rank < ranks; rank++)); do
    wait "${processes[rank]}"
    codes+=($?)
  done
  took=$((SECONDS - start))
  [ -z "${victim:-}" ] || [ $took -le 30 ] || fail "$name ends $took seconds after a rank's death"
  [ "${codes[*]}" = "$expected" ] || fail "$name ends with ${codes[*]}, not $expected"
  cat log.* | tr '\r' '\n' | grep '^braid: ' >said
  if [ -z "$line" ]; then
    [ ! -s said ] || fail "$name says something"
  else
    [ "$(grep -c "$line" said)" = 1 ] || fail "$name does not say '$line' once"
    [ -z "${also:-}" ] || { line="$line\|$also"; [ "$(grep -c "$also" said)" = 1 ] || fail "$name does not say '$also' once"; }
    ! grep -v "$line" said || fail "$name says more"
  fi
  [ $failures = 0 ] || cat log.*
}

# NAME COUNT NUMBER: every rank of the last run reports it.
reports() {
  local file
  for file in report.*; do
    grep -q "\"$2\": $3[,}]" "$file" || fail "$1 does not report $2 $3: $(cat "$file")"
  done
}

run trains 1 0 '' -- --steps 3
run together 2 '0 0' '' -- --steps 3
reports together windows 1
reports together preferred_streams 2
run waits 2 '0 0' '' TINY_ENDS=1 -- --steps 3
run waits-of-stages 4 '0 0 0 0' '' TINY_ENDS=1 TINY_STAGES=2 TINY_RANKS=2 -- --steps 3
run no-windows 2 '0 0' '' BD_FAKE_WINDOWS=0 -- --steps 3
reports no-windows windows 0
run old-windows 2 '0 0' '' BD_FAKE_NCCL=22605 -- --steps 3
reports old-windows windows 0
hosts=(one two)
run machines 2 '0 0' '' -- --steps 3
reports machines windows 0
hosts=()
run sharing-allowed 2 '0 0' '' BD_FAKE_DEVICES=1 BRAID_SHARE_GPU=1 -- --steps 1
run sharing-any-memory 2 '0 0' '' BD_FAKE_DEVICES=1 BRAID_SHARE_GPU=1 BD_FAKE_NCCL_MEMORY=0 -- --steps 1
reports sharing-allowed windows 0
run sharing 2 '14 14' 'ranks 0 and 1 would use the same GPU' BD_FAKE_DEVICES=1 -- --steps 1
run no-gpu 2 '14 14' 'rank 0 has no GPU that it can use: none is visible; ' BD_FAKE_DEVICES=0 -- --steps 1
run no-driver 1 14 'rank 0 has no GPU that it can use: no NVIDIA driver is loaded; ' BD_FAKE_DRIVER=0 -- --steps 1
run old-driver 2 '14 14' 'driver of rank 0 serves CUDA up to 12.4, the program was built with 13.0: install' \
  BD_FAKE_DRIVER=12040 BD_FAKE_TOOLKIT=13000 -- --steps 1
run minor-driver 1 0 '' BD_FAKE_DRIVER=12040 BD_FAKE_TOOLKIT=12080 TINY_ARCHITECTURES='80 90' -- --steps 1
run old-gpu 1 14 'compute capability 7.5; the program needs 8.0' BD_FAKE_CAPABILITY=75 -- --steps 1
run no-code 1 14 'capability 8.6, the program was built for 90 100: .* ARCHITECTURES="86 90 100"' \
  BD_FAKE_CAPABILITY=86 TINY_ARCHITECTURES='90 100' -- --steps 1
run ptx 1 0 '' BD_FAKE_CAPABILITY=120 TINY_ARCHITECTURES='80 90' -- --steps 1
run old-ptx 1 14 'has PTX alone (its machine code: 80 90), and a driver for CUDA 12.4 does not take that of 12.8' \
  BD_FAKE_CAPABILITY=120 BD_FAKE_DRIVER=12040 BD_FAKE_TOOLKIT=12080 TINY_ARCHITECTURES='80 90' -- --steps 1
run no-f8 2 '14 14' 'in fp8, which the GPU of rank 0 (compute capability 8.6) does not multiply: compile it with --precision bf16' \
  BD_FAKE_CAPABILITY=86 TINY_F8=1 -- --steps 1
run f8 2 '0 0' '' BD_FAKE_CAPABILITY=89 TINY_F8=1 -- --steps 1
run old-nccl 2 '14 14' 'NCCL 2.17 of rank 0 is too old; ' BD_FAKE_NCCL=21701 -- --steps 1
run other-nccl 2 '14 14' 'rank 0 has NCCL 2.28.9, rank 1 has 2.27.3: install the same' \
  BD_FAKE_NCCL=22809 BD_FAKE_NCCL_OTHER=22703 -- --steps 1
run nccl-fails 2 '4 4' 'NCCL failed on rank 0: error, in ncclCommInitRankConfig: no interface is found' \
  BD_FAKE_NCCL_WORDS='no interface is found' -- --steps 1
run nccl-room 2 '14 14' "too little memory on the GPU of rank 0, which has [1-9][0-9]* of [0-9]* bytes free beside the arena of 33555968 (Cuda failure 2 'out of memory'): end" \
  BD_FAKE_NCCL_WORDS="Cuda failure 2 'out of memory'" -- --steps 1
run nccl-memory 2 '14 14' 'the program needs 33555968: Cuda failure 801' BD_FAKE_NCCL_MEMORY=0 \
  BD_FAKE_NCCL_WORDS='Cuda failure 801' -- --steps 1
run small-gpu 2 '14 14' 'has 1000000 of 1000000 bytes free; the program needs 33555968: compile for' \
  BD_FAKE_DEVICE_BYTES=1000000 -- --steps 1
run held-gpu 1 14 'has 10000000 of 40000000 bytes free; the program needs 33555968: end what holds' \
  BD_FAKE_DEVICE_BYTES=40000000 BD_FAKE_HELD_BYTES=30000000 -- --steps 1
run world 1 13 'needs 2 ranks (1 stage of 2), but was started with 1' TINY_RANKS=2 -- --steps 1
run option 2 '2 2' "unknown argument '--stepz'" -- --stepz 1
run launcher 1 2 'RANK=one' RANK=one -- --steps 1
data=absent.txt run no-data 2 '12 12' 'absent.txt: ' -- --steps 1
run no-metrics 2 '4 4' 'absent/metrics: ' -- --steps 1 --metrics absent/metrics
run not-finite 2 '11 11' 'of step [0-9]* is not finite' -- --steps 50 --lr 1000000 --clip 0 --beta1 0 --beta2 0 --eps 0
run alone 1 10 '1 of 2 ranks have joined within 2 seconds' TINY_RANKS=2 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 BRAID_JOIN_SECONDS=2 -- --steps 1
cp text.txt whole
emptied=1
run emptied 1 12 'text.txt: cannot be read at position [0-9]' -- --steps 100000000
emptied=''
mv whole text.txt
[ "$(ls shared | wc -l)" -le 20 ] || fail 'communicators were left behind'

# NCCL that does not come to be, or that fails on its way: on one rank, of which the others hear, and on all at once.
for troubled in 1 -2; do
  run never-joins 3 '10 10 10' 'NCCL does not connect rank [0-2] with the other ranks of a group of 3 within 4 seconds: ' \
    BRAID_JOIN_SECONDS=4 BD_FAKE_TROUBLED=$troubled BD_FAKE_NEVER_JOINS=1 -- --steps 1
  [ $took -ge 4 ] && [ $took -le 15 ] || fail "ranks that do not connect within 4 seconds end after $took"
  run async-error 3 '4 4 4' 'NCCL failed on rank [0-2]: error, in .*; NCCL_DEBUG=WARN' \
    BD_FAKE_TROUBLED=$troubled BD_FAKE_ASYNC_ERROR=2 BD_FAKE_AFTER=20 -- --steps 1000000
  [ -n "$(grep 'step 2/' log.0)" ] || fail 'NCCL fails before the step that it is to fail in'
  run async-remote-error 3 '10 10 10' 'NCCL failed on rank [0-2]: remote error, in ' \
    BD_FAKE_TROUBLED=$troubled BD_FAKE_ASYNC_ERROR=6 BD_FAKE_AFTER=20 -- --steps 1000000
  run async-error-while-waiting 3 '4 4 4' 'NCCL failed on rank [0-2]: error, in .*; NCCL_DEBUG=WARN' TINY_ENDS=1 \
    BD_FAKE_TROUBLED=$troubled BD_FAKE_ASYNC_ERROR=2 BD_FAKE_AFTER=70 -- --steps 1000000
done

# Ranks that die: also where NCCL tells of it first, and where another rank's own thread waits inside of NCCL.
victim=1
run dead-rank 3 '10 137 10' 'rank 1 ended early' -- --steps 1000000
for victim in 0 1; do
  codes=(10 10) codes[victim]=137
  run dead-while-waiting-$victim 2 "${codes[*]}" "rank $victim ended early" TINY_ENDS=1 -- --steps 1000000
done
victim=1
run dead-while-stages-wait 4 '10 137 10 10' 'rank 1 ended early' TINY_ENDS=1 TINY_STAGES=2 TINY_RANKS=2 -- --steps 1000000
victim=0
run dead-host 2 '137 10' 'rank 0 ended early' -- --steps 1000000
run dead-host-of-four 4 '137 10 10 10' 'rank 0 ended early' -- --steps 1000000
# One stage on two machines, and two stages on one and on two: each rank dies in turn. When rank 0 does, a rank of the other machine
# speaks too.
for job in one-stage:two:4 two-stages:one:2 two-stages:two:2; do
  IFS=: read -r stages machines width <<<"$job"
  hosts=(one one two two)
  [ $machines = two ] || hosts=()
  [ $stages = one-stage ] || run $stages-$machines 4 '0 0 0 0' '' TINY_STAGES=2 TINY_RANKS=2 -- --steps 3
  for victim in 0 1 2 3; do
    codes=(10 10 10 10) codes[victim]=137 also=''
    [ $victim-$machines != 0-two ] || also='rank 2 ends too: rank 0 ended early'
    run $stages-$machines-$victim 4 "${codes[*]}" "^braid: rank $victim ended early" \
      TINY_STAGES=$((4 / width)) TINY_RANKS=$width -- --steps 100000000
  done
  victim='' also=''
done
hosts=()
victim=1
for blocked in 0 2; do
  run blocked-$blocked 4 '10 137 10 10' 'rank 1 ended early' BD_FAKE_TROUBLED=$blocked BD_FAKE_BLOCKS=1 BD_FAKE_AFTER=20 \
    BD_FAKE_BLOCKED="$work/blocked" -- --steps 1000000
done
victim=0
run blocked-1 3 '137 10 10' 'rank 0 ended early' BD_FAKE_TROUBLED=1 BD_FAKE_BLOCKS=1 BD_FAKE_AFTER=20 \
  BD_FAKE_BLOCKED="$work/blocked" -- --steps 1000000
[ $failures = 0 ]
