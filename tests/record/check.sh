#!/bin/bash
# All ranks of a case of cases.txt do what they must, and what they did when expected/NAME.txt was written.
#   check.sh BRAID RECORD NAME [--renew | --show RANK | --ways LIST]
# With --renew that file is written anew, for a person to review; --show prints what a rank does instead. With --ways
# ranks then do it again, some of it in other ways (main.c), of which there is no file.
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
# OPTION...: what all ranks do lies in $work/summary.
summarize() {
  "$record" --steps "$steps" "$@" "${files[@]}" >"$work/summary" || { cat "$work/summary"; exit 1; }
}
summarize
if [ "${4:-}" = --renew ]; then
  cp "$work/summary" "$root/tests/record/expected/$name.txt"
elif ! diff -u "$root/tests/record/expected/$name.txt" "$work/summary"; then
  echo "FAIL: $name does other things than it did; see docs/testing.md, Records"
  exit 1
fi
if [ "${4:-}" = --ways ]; then
  summarize --ways "$5"
  if cmp -s "$root/tests/record/expected/$name.txt" "$work/summary"; then
    echo "FAIL: $name does nothing in other ways"
    exit 1
  fi
fi
