#!/bin/sh
# Python is needed for lit alone, to make expected numbers anew, and for PyTorch as a baseline: no other file is written in
# it, and no script or test calls it. Prints what breaks that; the exit status is not 0 then.
#   python.sh ROOT
set -eu
cd "$1"
allowed='scripts/(expected-(losses|onnx)|baseline-torch)\.py|tests/(.*/)?lit(\.site)?\.cfg\.py(\.in)?'
files=$(find . \( -name .git -o -path './build*' -o -path './out*' \) -prune -o -type f -print | sed 's|^\./||' |
  sort | grep -vxE "$allowed" || true)
[ -n "$files" ] || { echo "nothing was found to check"; exit 1; }
bad=0
refuse() {
  echo "$1"
  bad=1
}
if printf '%s\n' "$files" | grep -E '\.py[a-z]*(\.in)?$'; then
  refuse 'is Python by its name'
fi
if printf '%s\n' "$files" | tr '\n' '\0' | xargs -0 awk 'FNR == 1 && /^#!.*[pP]ython/ { print FILENAME ": " $0; bad = 1 }
  END { exit !bad }'; then
  refuse 'is Python by its first line'
fi
# CMake finds Python for lit, the scripts install it, torchrun has an option of that name; and this rule is about it.
scanned=$(printf '%s\n' "$files" | grep -E '^(tests|scripts|\.ci)/|(^|/)CMakeLists\.txt$|\.cmake$' |
  grep -vxE 'tests/style/(check_)?python\.sh' || true)
if printf '%s\n' "$scanned" | tr '\n' '\0' | xargs -0 -r awk '
  {
    line = $0
    if (FILENAME == "tests/CMakeLists.txt") {
      sub(/find_program\(PYTHON python3 REQUIRED\) # lit/, "", line)
      sub(/\$\{PYTHON\} \$\{LIT\}/, "", line)
      sub(/foreach\(rule includes calls python\)/, "", line)
    }
    if (FILENAME == "scripts/install.sh") sub(/ python3\)$/, "", line)
    gsub(/--no-python/, "", line)
    if (tolower(line) ~ /(^|[^a-z])(python|pypy)([^a-z]|$)/) { print FILENAME ":" FNR ": " $0; bad = 1 }
  }
  END { exit !bad }'; then
  refuse 'names Python'
fi
exit $bad
