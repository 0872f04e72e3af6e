#!/usr/bin/env bash
# Runs the ONNX suite's tests of all ops that braid reads, on the interpreter and on generated CPU code:
#   scripts/onnx-suite.sh [--interpreter]
# With --interpreter on it alone. Closes with `N passed, N failed`; the exit status is 0 when none failed.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
if [ -z "${ONNX_SUITE:-}" ]; then
  "$root/scripts/install.sh"
  "$root/scripts/build.sh" "$root/build"
  ONNX_SUITE=$root/build/tests/onnx_suite
fi
how=()
if [ "${1:-}" != --interpreter ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  ln -s "$root/runtime" "$work/runtime"
  how=(--work "$work")
fi
"$ONNX_SUITE" "${how[@]}" /usr/share/libonnx-testdata/data "$root/tests/data/onnx/selected.txt"
