#!/usr/bin/env bash
# Installs, builds, and runs every test: scripts/test.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

# FOLDER OPTION...: runs tests. The sources of the runtime are the same in every emitted program: with ccache they are
# compiled once. OpenBLAS comes with CBC, where it would start threads that nobody uses.
run_tests() {
  local folder=$1 settings=(OPENBLAS_NUM_THREADS=1)
  shift
  if command -v ccache >/dev/null; then
    settings+=(CCACHE_DIR="$root/build/ccache" OMPI_CC="ccache ${OMPI_CC:-gcc}")
  fi
  env "${settings[@]}" ctest --test-dir "$folder" --output-on-failure -j "$(nproc)" "$@"
}

"$root/scripts/install.sh"
"$root/scripts/build.sh" "$root/build" -DBRAID_WERROR=ON
run_tests "$root/build"

# The compiler again under the address and undefined-behaviour sanitizers: units and diagnostics. A small quarantine
# still holds what was just freed; filling one of 256 MiB takes a third of the time of short runs.
"$root/scripts/build.sh" "$root/build-sanitize" -DBRAID_SANITIZE=ON
export ASAN_OPTIONS=detect_leaks=1:quarantine_size_mb=16
run_tests "$root/build-sanitize" -L quick
