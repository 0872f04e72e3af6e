#!/bin/bash
# What can go wrong with a program for GPUs ends in its status; and the fake device sees programs that are wrong.
#   failures.sh BRAID LOWER LIBRARIES MODEL [FOLDER]
set -euo pipefail
braid=$(realpath "$1") lower=$(realpath "$2") model=$4
read -ra libraries <<<"$3"
device=$(dirname "$(realpath "$0")")
root=$(realpath "$device/../..")
here=$root/tests/road
. "$here/road.sh"
. "$device/device.sh"
open_folder "${5:-}"
mkdir shared
data=samples target=cuda
write_samples samples 64

# WHAT RANK STATUS [WORDS]: how a rank has ended, and what it says.
check_end() {
  [ "${statuses[$2]}" = "$3" ] || fail "$1: rank $2 ended with ${statuses[$2]}, not $3"
  [ $# -lt 4 ] || grep -q -- "$4" "$name/log.$2" || fail "$1: rank $2 does not say '$4': $(cat "$name/log.$2")"
}

name=pipe
plan_model pipe "$model" 2 2 1 2 1f1b - none -
build_fake pipe
train_fake pipe 2 5 0
cp pipe/metrics.jsonl right

BD_FAKE_DEVICES=0 start_fake pipe 2 0 --steps 1
await_fake
check_end 'no GPU' 0 14 'has no GPU'
check_end 'no GPU' 1 14

BD_FAKE_DEVICES=1 start_fake pipe 2 0 --steps 1
await_fake
check_end 'one GPU for two ranks' 0 14
check_end 'one GPU for two ranks' 1 14

BD_FAKE_CAPABILITY=75 start_fake pipe 2 0 --steps 1
await_fake
check_end 'an old GPU' 0 14 'compute capability 7.5'

BD_FAKE_DEVICE_BYTES=1000000 start_fake pipe 2 0 --steps 1
await_fake
check_end 'a small GPU' 0 14 'of 1000000 bytes free'

start_fake pipe 1 0 --steps 1
await_fake
check_end 'too few ranks' 0 13

# A rank that is killed ends the others.
start_fake pipe 2 0 --steps 1000000
for ((i = 0; i < 600; i++)); do
  grep -q '^step 2/' pipe/log.0 && break
  sleep 0.1
done
kill -KILL $(cat "/proc/${processes[1]}/task/${processes[1]}/children")
await_fake
check_end 'a rank is killed' 0 10
check_end 'a rank is killed' 1 137

# Programs that are wrong. Without waits between streams some order of work must show it.
found=0
for seed in 1 2 3; do
  BD_FAKE_FORGET_WAITS=1 start_fake pipe 2 $seed --steps 5 --metrics pipe/metrics.jsonl
  await_fake
  [ "${statuses[0]}${statuses[1]}" = 00 ] && cut -d, -f1-2 pipe/metrics.jsonl | cmp -s - <(cut -d, -f1-2 right) ||
    found=$((found + 1))
done
[ $found -gt 0 ] || fail 'that no stream waits for another is not seen'

# A collective that one rank makes larger.
name=data
plan_model data "$model" 2 1 2 4 1f1b - none -
build_fake data
sed -i 's/^void stage0_step(bd_rt \*rt) {/&\n  bd_rt_all_reduce(rt, 0, BD_RT_F32, BD_RT_SUM, 64 + bd_rt_rank(rt), bd_rt_arena(rt), bd_rt_arena(rt));/' data/stage0.c
grep -q '64 + bd_rt_rank' data/stage0.c || fail 'the program was not changed'
link_fake data
BD_FAKE_STUCK_SECONDS=5 start_fake data 2 0 --steps 1
await_fake
[[ " ${statuses[*]} " == *" 99 "* ]] || fail "collectives of two sizes are not seen: ${statuses[*]}"
cat data/log.* | grep -q 'calls it with count' || fail "collectives of two sizes are not told: $(cat data/log.*)"

finish
