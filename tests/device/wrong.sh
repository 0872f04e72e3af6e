#!/bin/bash
# The fake device sees programs that are wrong.
#   wrong.sh BRAID LOWER LIBRARIES MODEL [FOLDER]
set -euo pipefail
. "$(dirname "$0")/device.sh"
model=$4
open_device "$1" "$2" "$3" "${5:-}"
data=samples target=cuda
write_samples samples 64

plan_model pipe "$model" 2 2 1 2 1f1b - none -
build_fake pipe
train_fake pipe 2 5 0
cp pipe/metrics.jsonl right

# Work that does not wait for what was received, and messages that do not wait for what was computed: some order
# of work must show each.
for forgotten in 1 2; do
  found=0
  for seed in 1 2 3; do
    BD_FAKE_FORGET_WAITS=$forgotten start_fake pipe 2 $seed --steps 5 --metrics pipe/metrics.jsonl
    await_fake
    [ "${statuses[*]}" = '0 0' ] && cut -d, -f1-2 pipe/metrics.jsonl | cmp -s - <(cut -d, -f1-2 right) ||
      found=$((found + 1))
  done
  echo "without the waits of kind $forgotten, $found of 3 orders of work go wrong"
  [ $found -gt 0 ] || fail 'that streams do not wait for each other is not seen'
done

# A collective that one rank makes larger.
plan_model data "$model" 2 1 2 4 1f1b - none -
build_fake data
sed -i 's/^void stage0_step(bd_rt \*rt) {/&\n  bd_rt_all_reduce(rt, 0, BD_RT_F32, BD_RT_SUM, 64 + bd_rt_rank(rt), bd_rt_arena(rt), bd_rt_arena(rt));/' data/stage0.c
grep -q '64 + bd_rt_rank' data/stage0.c || fail 'the program was not changed'
link_fake data
BD_FAKE_STUCK_SECONDS=5 start_fake data 2 0 --steps 1
await_fake
[[ " ${statuses[*]} " == *" 99 "* ]] || fail "collectives of two sizes are not seen: ${statuses[*]}"
grep -qh 'calls it with count' data/log.* || fail "collectives of two sizes are not told: $(cat data/log.*)"

# A kernel that reads or writes 16 bytes at once where they are no multiple of 16, which ends a GPU's work.
plan_model odd "$model" 1 1 1 8 1f1b - none -
build_fake odd
sed -i '0,/\(bd_rt_launch(.*(char \*\[\]){\)/s//\14 + (char *)/' odd/stage0.c
grep -q '{4 + (char \*)' odd/stage0.c || fail 'the program was not changed'
link_fake odd
start_fake odd 1 0 --steps 1
await_fake
[ "${statuses[*]}" != 0 ] || fail 'an odd address is not seen'
grep -qh 'an address is no multiple' odd/log.* || fail "an odd address is not told: $(cat odd/log.*)"

finish
