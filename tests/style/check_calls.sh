#!/bin/sh
# The tree makes none of the refused calls, and the check sees each kind in a tree that does.
#   check_calls.sh ROOT
set -eu
here=$(cd "$(dirname "$0")" && pwd)
sh "$here/calls.sh" "$1"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for folder in ir/base frontend planner codegen runtime cli; do
  mkdir -p "$work/$folder"
  echo 'int snprintf_of(void) { return my_system(1) + x.system(2) + bd_malloc(3); }' >"$work/$folder/good.c"
done
sh "$here/calls.sh" "$work" >"$work/found"
for breach in 'cli/a.c:system("x");' 'ir/base/a.c:  strcpy(a, b);' 'frontend/a.c:p = malloc(3);' 'codegen/a.c:exit(1);' \
  'planner/a.c:getenv("A");' 'runtime/a.h:if (sprintf(a, b)) c();'; do
  file=${breach%%:*}
  printf '%s\n' "${breach#*:}" >"$work/$file"
  ! sh "$here/calls.sh" "$work" >"$work/found" || { echo "not seen: $breach"; exit 1; }
  rm "$work/$file"
done
