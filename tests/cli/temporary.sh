#!/bin/sh
# Ranks are not started where mpirun cannot have its temporary files: one line says which folder it is. So it does of
# an output folder whose disk is full.
#   temporary.sh BRAID
set -eu
export LC_ALL=C
braid=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "temporary.sh: $*"; exit 1; }

# FOLDER PATTERN COMMAND...: with TMPDIR there braid ends in status 4, with one line that has the pattern.
expect() {
  folder=$1 pattern=$2 status=0
  shift 2
  TMPDIR=$folder timeout 60 "$braid" "$@" >log 2>&1 || status=$?
  [ "$status" = 4 ] && [ "$(wc -l <log)" = 1 ] && grep -qF "$pattern" log ||
    fail "$*: status $status, not 4 with '$pattern': $(cat log)"
}

"$braid" compile gpt2-tiny --devices 2 --seq 16 --global-batch 4 -o out
yes 'sixteen and more bytes of text' | head -50 >text.txt
cannot='cannot make a temporary folder there'
train='run out --steps 1 --data text.txt'
expect "$work/none" "$work/none: error: $cannot: No such file or directory; set TMPDIR to a folder that can be written" $train
[ ! -e none ] || fail 'the folder was made'
expect "$work/text.txt" "$work/text.txt: error: $cannot: Not a directory" $train
expect /proc "/proc: error: $cannot: " $train
expect "$work/none" "$cannot" probe
TMPDIR=$work/ "$braid" $train 2>log || fail "$(cat log)"
[ -z "$(find . -name 'braid-*')" ] || fail 'something is left in the folder'

# A small disk, where this user may have one.
mkdir small
small() { unshare -rm sh -c 'mount -t tmpfs -o size=2m none small && exec "$@"' sh "$@"; }
if ! small true 2>/dev/null; then
  echo 'no file system can be mounted: a full one is not tried'
  exit 0
fi
status=0
small env TMPDIR="$work/small" timeout 60 "$braid" $train >log 2>&1 || status=$?
[ $status = 4 ] && [ "$(wc -l <log)" = 1 ] || fail "status $status: $(cat log)"
grep -qE '/small: error: the folder of temporary files has [0-9]+ KiB free, of 12288 that mpirun needs; make room there, or set TMPDIR to another folder$' log ||
  fail "$(cat log)"

# Whichever file the disk has no room for.
for size in 16k 128k 256k 512k; do
  status=0
  unshare -rm sh -c 'mount -t tmpfs -o size=$0 none small && exec "$@"' $size "$braid" compile gpt2-tiny --devices 2 --seq 16 \
    --global-batch 4 --emit c -o small/out >log 2>&1 || status=$?
  [ $status = 4 ] && [ "$(wc -l <log)" = 1 ] && grep -q 'error: .*No space left on device' log ||
    fail "a disk of $size: status $status: $(cat log)"
done
