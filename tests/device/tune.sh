#!/bin/bash
# --tune on the fake device, whose algorithms differ in bits and in the time that they pretend to take.
#   tune.sh BRAID LOWER LIBRARIES [FOLDER]
set -euo pipefail
. "$(dirname "$0")/device.sh"
open_device "$1" "$2" "$3" "${4:-}"
mkdir kept
data=text.txt target=cuda seed=0
write_text text.txt
export BD_FAKE_PRODUCT_MICROS=1000000

# Two stages of two replicas; and the same model in halves and in 8 bits.
plan_model pipe gpt2-tiny 4 2 2 2 1f1b - none batch
build_fake pipe
precision=fp8
plan_model eight gpt2-tiny 1 1 1 8 1f1b - none -
build_fake eight
precision=fp32

# NAME RANKS OPTION...: trains, and leaves losses and what the ranks' devices tell in NAME.losses and NAME.told.
tuned() {
  local name=$1 ranks=$2
  shift 2
  train_fake "$name" "$ranks" 3 $((seed++)) "$@"
  cut -d, -f1-3 "$name/metrics.jsonl" >"$name.losses"
  cat "$name"/device.* >"$name.told"
}
# RANK KEY NAME: a number that its device tells.
told() { sed "$(($1 + 1))!d; s/.*\"$2\": \([-0-9]*\).*/\1/" "$3.told"; }
choices() { sed 's/, "seconds": .*/}/' "$1"; }

tuned pipe 4
cp pipe.losses plain.losses
cp pipe.told plain.told
tuned pipe 4 --tune kept/pipe.json
cp pipe.losses made.losses
[ "$(ls kept)" = pipe.json ] || fail "tuning leaves $(ls kept)"
cp kept/pipe.json first.json
grep -q '^tuned [1-9][0-9]* matrix products: [1-9][0-9]* of them do not' pipe/log.0 || fail 'what was tuned is not told'
[ "$(grep -c '"product": ' kept/pipe.json)" = "$(sed -n 's/^tuned \([0-9]*\) .*/\1/p' pipe/log.0)" ] || fail 'the file has other products'
awk '/"first_seconds"/ { n++; sub(/.*"seconds": /, ""); s = $1 + 0; f = $3 + 0; if (s > f) bad = 1; if (s < f) faster++ }
  END { exit bad || !faster || faster == n }' kept/pipe.json || fail 'the choices are not the fastest, or all first, or all others'
cmp -s plain.losses made.losses && fail 'other algorithms give the same bits: nothing was chosen'
check_device() { awk '!/"left_bytes": 0, "left_handles": 0}/ || !/"device_allocations": 1,/ { bad = 1 } END { exit bad }' "$1.told"; }
check_device pipe || fail 'tuning takes memory, or keeps handles'

# The file gives the same bits, and the products that it is asked for are all that are computed.
tuned pipe 4 --tune kept/pipe.json
cmp -s made.losses pipe.losses || fail 'the file gives other bits than the run that wrote it'
cmp -s first.json kept/pipe.json || fail 'a run that reads the file changes it'
grep -q '^tuned' pipe/log.0 && fail 'a run that reads the file tunes'
for ((rank = 0; rank < 4; rank++)); do
  [ "$(told $rank matmuls pipe)" = "$(told $rank matmuls plain)" ] || fail "rank $rank computes more products with the file"
  [ "$(told $rank product_micros pipe)" -lt "$(told $rank product_micros plain)" ] || fail "rank $rank is not faster with the file"
  [ "$(told $rank algorithms pipe)" != "$(told $rank algorithms plain)" ] || fail "rank $rank uses the first algorithms"
done

# Once more without a file: the same choices. Call by call: the same bits.
BRAID_GRAPHS=0 tuned pipe 4 --tune=kept/again.json
cmp -s <(choices kept/pipe.json) <(choices kept/again.json) || fail 'tuning again chooses otherwise'
cmp -s made.losses pipe.losses || fail 'tuning again gives other bits'

# Replicas that would choose otherwise by themselves compute alike; told by rank 0 of each stage.
BD_FAKE_UNLIKE=1 tuned pipe 4 --tune kept/unlike.json
cp pipe.losses made.losses
BD_FAKE_UNLIKE=1 tuned pipe 4 --tune kept/unlike.json
cmp -s made.losses pipe.losses || fail 'replicas that measure otherwise use other algorithms than the file has'
for rank in 0 2; do
  [ "$(told $rank algorithms pipe)" = "$(told $((rank + 1)) algorithms pipe)" ] || fail "replicas $rank and $((rank + 1)) use other algorithms"
done
cmp -s <(choices kept/pipe.json) <(choices kept/unlike.json) && fail 'what is measured does not count'

# What is fastest at first and slow when it runs for long is not chosen, where it takes its share of a step.
export BD_FAKE_PRODUCT_MICROS=1000
others() { sed -n 's/^tuned [0-9]* matrix products: \([0-9]*\) of them do not.*/\1/p' pipe/log.0; }
tuned pipe 4 --tune kept/cool.json
cool=$(others)
BD_FAKE_HEAT=1 tuned pipe 4 --tune kept/hot.json
[ "$(others)" -lt "$cool" ] || fail "$(others) algorithms that get slow are chosen, as many as where they do not"
export BD_FAKE_PRODUCT_MICROS=1000000
rm kept/unlike.json kept/again.json kept/cool.json kept/hot.json

# Factors in 8 bits.
tuned eight 1 --tune kept/eight.json
cp eight.losses made.losses
grep -q '"product": "1 of e4m3 ' kept/eight.json || fail 'products in 8 bits are not tuned'
grep -q ', bias with bias at ' kept/eight.json || fail 'products with a bias are not tuned'
tuned eight 1 --tune kept/eight.json
cmp -s made.losses eight.losses || fail 'the file of products in 8 bits gives other bits'

# WHAT STATUS LINE NAME RANKS OPTION...: the run ends so, with one line, and leaves the files as they are.
refused() {
  local what=$1 status=$2 line=$3 name=$4 ranks=$5 before rank
  shift 5
  before=$(ls kept)
  rm -f "$name"/log.*
  start_fake "$name" "$ranks" $((seed++)) --steps 1 "$@"
  await_fake
  for ((rank = 0; rank < ranks; rank++)); do
    [ "${statuses[rank]}" = "$status" ] || fail "$what: rank $rank ends with ${statuses[rank]}, not $status"
  done
  cat "$name"/log.* | grep '^braid: ' >said || true
  [ "$(grep -c . said)" = 1 ] && grep -qe "$line" said || fail "$what: does not say '$line' once, but: $(cat said)"
  [ "$(ls kept)" = "$before" ] || fail "$what: leaves $(ls kept)"
}
anew='remove it, or name another, to tune anew$'

BD_FAKE_OTHER_MODEL=-2 refused 'another GPU' 12 "is of Fake A with cuBLASLt [0-9]*, this is Fake B with cuBLASLt [0-9]*; $anew" \
  pipe 4 --tune kept/pipe.json
BD_FAKE_BLAS=120000 refused 'another library' 12 "this is Fake A with cuBLASLt 120000; $anew" pipe 4 --tune kept/pipe.json
BD_FAKE_OTHER_MODEL=2 refused 'unlike GPUs' 14 'rank 0 has Fake A with cuBLASLt [0-9]*, rank 2 Fake B with' pipe 4 --tune kept/none.json
refused 'another program' 12 "eight.json: it lacks a product of rank 0, 1 of f32 .*; $anew" pipe 4 --tune kept/eight.json
refused 'TF32' 12 "it lacks a product of rank 0, .*; $anew" pipe 4 --tune kept/pipe.json --tf32
refused 'a folder' 12 "kept: it is no regular file; $anew" eight 1 --tune kept
refused 'no such folder' 4 'absent/file: cannot be written: No such file' eight 1 --tune absent/file
refused 'the data' 12 "text.txt: it is no file of --tune; $anew" eight 1 --tune text.txt
refused 'an output' 2 '--metrics and --tune name the same file' eight 1 --tune kept/eight.json --metrics kept/eight.json
head -c 1000 kept/eight.json >cut.json
refused 'a part' 12 "cut.json: a product is malformed; $anew" eight 1 --tune cut.json
sed '0,/"algorithm": "0*/s//&1/' kept/eight.json >longer.json
refused 'a digit more' 12 "longer.json: a product is malformed; $anew" eight 1 --tune longer.json
sed '0,/\("algorithm": "[0-9a-f]*\)\([0-8]\)\([a-f9]*"\)/s//\19\3/' kept/eight.json >changed.json
cmp -s kept/eight.json changed.json && fail 'the file was not changed'
refused 'another digit' 12 "changed.json: its sum is another; $anew" eight 1 --tune changed.json
refused 'no value' 2 '--tune needs a value' eight 1 --tune
[ -z "$(ls shared)" ] || fail "communicators were left behind: $(ls shared)"
finish
