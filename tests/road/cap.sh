#!/bin/bash
# A memory cap is exact: with the bytes that the diagnostic asks for a plan exists and keeps to them,
# with one byte less none does. Then an arena of more than 500 MB, on one rank and on two.
#   cap.sh BRAID [FOLDER]
set -euo pipefail
braid=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
. "$here/road.sh"
open_folder "${2:-}"
write_text text.txt

# MODEL RANKS CAP [PIN...]: 0 and a plan, or 3 and a diagnostic.
plan_under() {
  local status=0
  "$braid" compile "$1" --devices "$2" --global-batch 8 --memory-cap "$3" "${@:4}" --emit plan -o capped.json \
    2>diagnostic || status=$?
  echo "$status"
}

# The cap is what the diagnostic asks for, found from a cap that nothing fits.
check_cap() {
  local least lacking status
  rm -f capped.json
  status=$(plan_under "$1" "$2" 1000 "${@:3}")
  [ "$status" = 3 ] || { fail "$*: a cap of 1000 bytes ends with $status"; return; }
  [ ! -e capped.json ] || fail "$*: a plan was written that does not fit"
  least=$(sed -n 's/.*the leanest needs \([0-9]*\) bytes.*/\1/p' diagnostic)
  lacking=$(sed -n 's/.*: \([0-9]*\) bytes are lacking.*/\1/p' diagnostic)
  [ "$((least - lacking))" = 1000 ] || fail "$*: $least bytes needed, $lacking lacking"
  grep -q 'nearest plan has' diagnostic || fail "$*: the nearest plan is not named"
  status=$(plan_under "$1" "$2" "$((least - 1))" "${@:3}")
  [ "$status" = 3 ] || fail "$*: one byte under the least ends with $status"
  grep -q ': 1 byte is lacking' diagnostic || fail "$*: the one byte is not named"
  status=$(plan_under "$1" "$2" "$least" "${@:3}")
  [ "$status" = 0 ] || { fail "$*: the least cap ends with $status"; return; }
  # The fastest plan within these bytes may need a little less.
  [ "$(largest_arena capped.json)" -le "$least" ] || fail "$*: the plan exceeds the cap"
  [ "$(largest_arena capped.json)" -gt "$((least - least / 1000))" ] || fail "$*: far less would do"
  echo "$*: least cap $least bytes"
}

largest_arena() {
  grep -o '"arena_bytes": [0-9]*' "$1" | awk '$2 > most { most = $2 } END { printf "%d", most }'
}

check_cap gpt2-tiny 1
check_cap gpt2-tiny 4 --stages 2
check_cap llama-tiny 4 --mesh 2x2 --micro-batch 4
check_cap gpt2-tiny-25h 2

batch=1280
plan_model large gpt2-tiny 1 1 1 1280 1f1b - none -
plan_model large-2 gpt2-tiny 2 1 2 1280 gpipe - none tensor
for name in large large-2; do
  build "$name"
  train "$name" "$(ranks_of "$name")" 2
  check_memory "$name"
  [ "$(largest_arena "$name/plan.json")" -ge 500000000 ] || fail "$name has a small arena"
done
check_losses large large-2

finish
