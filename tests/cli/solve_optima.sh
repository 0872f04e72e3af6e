#!/bin/sh
# Known optima of chains and graphs: braid solve finds each, proves it, and refuses what does not fit.
#   solve_optima.sh BRAID FOLDER
set -eu
braid=$(realpath "$1") folder=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

number() { sed -n "s/^ \"$1\": \([^,}]*\)[,}].*/\1/p" "$work/answer" | tail -1; }

rows=0
while IFS=, read -r file budget cost; do
  [ "$file" = file ] && continue
  rows=$((rows + 1)) status=0
  "$braid" solve "$folder/$file" --budget "$budget" --json >"$work/answer" 2>"$work/log" || status=$?
  if [ "$cost" = inf ]; then
    [ $status = 3 ] || { echo "$file in $budget: status $status"; exit 1; }
    smallest=$(sed -n 's/.*the smallest budget .* is //p' "$work/log")
    "$braid" solve "$folder/$file" --budget "$smallest" >/dev/null
    if "$braid" solve "$folder/$file" --budget $((smallest - 1)) >/dev/null 2>&1; then
      echo "$file fits in $((smallest - 1))"
      exit 1
    fi
    continue
  fi
  [ $status = 0 ] || { echo "$file in $budget: $(cat "$work/log")"; exit 1; }
  [ "$(number cost)" = "$cost" ] || { echo "$file in $budget costs $(number cost), not $cost"; exit 1; }
  [ "$(number bound)" = "$cost" ] || { echo "$file in $budget is not proven"; exit 1; }
  [ "$(number peak)" -le "$budget" ] || { echo "$file in $budget takes $(number peak)"; exit 1; }
done <"$folder/optimal.csv"
[ $rows -gt 30 ]

# The same from a gzip file, and into a file.
gzip -c "$folder/homog10.txt" >"$work/homog10.gz"
"$braid" solve "$work/homog10.gz" --budget 24 -o "$work/one"
"$braid" solve "$folder/homog10.txt" --budget 24 -o "$work/other"
grep -v seconds "$work/one" >"$work/one.told"
grep -v seconds "$work/other" | cmp - "$work/one.told"
