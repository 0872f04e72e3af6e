#!/bin/bash
# All ranks of a case of cases.txt do what they must, and what they did when expected/NAME.txt was written.
#   check.sh BRAID RECORD NAME [--renew | --show RANK | --ways LIST]
# With --renew that file is written anew, for a person to review; --show prints what a rank does instead. With --ways
# ranks do some of it in other ways (main.c), which has no file.
set -euo pipefail
braid=$(realpath "$1") record=$(realpath "$2") name=$3
root=$(realpath "$(dirname "$0")/../..")
. "$root/tests/record/case.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build_case "$name" "$work"
if [ "${4:-}" = --show ]; then
  "$record" --print "$5" "${files[@]}"
  exit
fi
ways=()
[ "${4:-}" != --ways ] || ways=(--ways "$5")
"$record" --steps "$steps" "${ways[@]}" "${files[@]}" >"$work/summary" || { cat "$work/summary"; exit 1; }
if [ "${4:-}" = --renew ]; then
  cp "$work/summary" "$root/tests/record/expected/$name.txt"
elif [ ${#ways[@]} -gt 0 ]; then
  if cmp -s "$root/tests/record/expected/$name.txt" "$work/summary"; then
    echo "FAIL: $name does nothing in other ways"
    exit 1
  fi
elif ! diff -u "$root/tests/record/expected/$name.txt" "$work/summary"; then
  echo "FAIL: $name does other things than it did; see docs/testing.md, Records"
  exit 1
fi
