#!/bin/sh
# Nothing but lit needs Python, and the check sees each way to need it in a tree that does.
#   check_python.sh ROOT
set -eu
here=$(cd "$(dirname "$0")" && pwd)
sh "$here/python.sh" "$1"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
! sh "$here/python.sh" "$work" >"$work.found" 2>&1 || { echo "the check passes an empty tree"; rm "$work.found"; exit 1; }
rm "$work.found"
tree=$work/tree
mkdir -p "$tree/scripts" "$tree/tests/lit/ir" "$tree/tests/style" "$tree/docs" "$tree/build" "$tree/cli" "$tree/.ci"
printf '#!/usr/bin/env python3\n' >"$tree/scripts/expected-losses.py"
echo 'import lit' >"$tree/tests/lit.site.cfg.py.in"
echo 'import lit' >"$tree/tests/lit/ir/lit.cfg.py"
echo 'import lit' >"$tree/build/lit.site.cfg.py"
echo 'run python3 lit.py' >"$tree/docs/testing.md"
echo 'packages=(cmake python3)' >"$tree/scripts/install.sh"
printf 'find_program(PYTHON python3 REQUIRED) # lit\nadd_test(NAME lit COMMAND ${PYTHON} ${LIT} -v)\n' >"$tree/tests/CMakeLists.txt"
echo 'torchrun --no-python out/train; pythonic' >"$tree/tests/good.sh"
sh "$here/python.sh" "$tree" >"$work/found" || { echo "the check refuses a good tree:"; cat "$work/found"; exit 1; }
for breach in 'tests/a.py:x = 1' 'scripts/b.py:x = 1' 'cli/a.py:x = 1' 'tests/c.py.in:x = 1' 'tests/lit/d.pyw:x = 1' \
  'scripts/e:#!/usr/bin/env python3' 'cli/f:#!/usr/bin/python' 'tests/g.sh:  python3 -c "import json"' \
  'tests/lit/h.test:# RUN: braid explain | python -m json.tool' 'scripts/i.sh:exec /usr/bin/python3.11 x' '.ci/run:python3 x' \
  'tests/hostile/CMakeLists.txt:add_test(NAME x COMMAND ${PYTHON} x)' 'tests/j.c:execlp("python3", "python3", NULL);' \
  'scripts/expected-losses2.py:x = 1' 'CMakeLists.txt:find_package(Python3)' 'scripts/k.sh:pip install x && env pypy3 x'; do
  file=$tree/${breach%%:*}
  mkdir -p "$(dirname "$file")"
  printf '%s\n' "${breach#*:}" >"$file"
  ! sh "$here/python.sh" "$tree" >"$work/found" || { echo "not seen: $breach"; exit 1; }
  rm "$file"
done
