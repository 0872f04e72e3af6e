#!/usr/bin/env bash
# Runs the ONNX suite's tests of all ops that braid reads, and our own of versions that it lacks, on the interpreter and
# on generated CPU code:
#   scripts/onnx-suite.sh [--interpreter]
# With --interpreter on it alone. Closes with `N passed, N failed`; the exit status is 0 when none failed.
set -euo pipefail
. "$(dirname "$0")/help.sh"
root=$(cd "$(dirname "$0")/.." && pwd)
if [ -z "${TESTS:-}" ]; then
  "$root/scripts/install.sh"
  "$root/scripts/build.sh" "$root/build"
  TESTS=$root/build/tests
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
how=()
if [ "${1:-}" != --interpreter ]; then
  ln -s "$root/runtime" "$work/runtime"
  how=(--work "$work")
fi
sh "$root/tests/suite/unpack.sh" "$TESTS/make_onnx" "$root/tests/data/onnx/vectors.txt" "$work/own"
"$TESTS/onnx_suite" "${how[@]}" /usr/share/libonnx-testdata/data "$root/tests/data/onnx/selected.txt" \
  "$work/own" "$work/own/list"
