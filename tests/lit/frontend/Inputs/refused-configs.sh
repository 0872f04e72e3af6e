#!/bin/sh
# Each line `CONFIG => WORDS` of a file is a config.json that must be refused: exit status 1, one error with the words
# and its place, and nothing written.
#   refused-configs.sh FILE FOLDER
set -eu
rm -rf "$2"
mkdir "$2"
bad=0
grep ' => ' "$1" >"$2/cases"
while IFS= read -r line; do
  printf '%s\n' "${line%% => *}" >"$2/config.json"
  status=0
  braid compile "$2" --emit graph -o "$2/out" >"$2/said" 2>&1 || status=$?
  if [ $status != 1 ] || [ "$(grep -c 'error: ' "$2/said")" != 1 ] || [ -e "$2/out" ] ||
    ! grep -F "error: ${line##* => }" "$2/said" | grep -q 'config.json:1:[0-9]*: error: '; then
    echo "status $status: $line"
    cat "$2/said"
    bad=1
  fi
done <"$2/cases"
exit $bad
