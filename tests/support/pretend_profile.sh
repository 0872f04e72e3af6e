#!/bin/sh
# Prints a profile of a program in which every instruction of stage 0 took 30 ms each of ten times.
#   pretend_profile.sh FOLDER
set -eu
row='^    {\(-*[0-9]*\), \(-*[0-9]*\), "\(.*\)"},'
echo '{"braid_profile": 1, "instructions": ['
sed -n "s/$row/{\"function\": \1, \"step\": \2, \"what\": \"\3\"},/p" "$1/main.c" | sed '$s/,$//'
echo '], "ranks": [{"rank": 0, "stage": 0, "times": ['
grep -c "$row" "$1/main.c" | awk '{ for (i = 0; i < $1; i++) printf "%s[%d, 10, 0.3, 0.03]\n", (i ? "," : ""), i }'
echo ']}]}'
