#!/usr/bin/env bash
# Installs, builds, and runs every test: scripts/test.sh
set -euo pipefail
. "$(dirname "$0")/help.sh"
root=$(cd "$(dirname "$0")/.." && pwd)

# Tests make and remove thousands of folders: in memory, where there is a file system of it with 8 GiB to spare that
# programs can be started from.
use_memory() {
  [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ] && [ "$(df --output=avail -BG /dev/shm | tail -1 | tr -dc 0-9)" -ge 8 ] ||
    return 0
  memory=$(mktemp -d /dev/shm/braid-tests.XXXXXX)
  trap 'rm -rf "$memory"' EXIT
  cp "$(type -P true)" "$memory/starts"
  if "$memory/starts" 2>/dev/null; then
    export TMPDIR=$memory
  fi
}

# FOLDER OPTION...: runs tests, one more at a time than there are cores, as programs of several ranks wait for each
# other; Open MPI has ranks that are no more than the cores keep theirs meanwhile, unless it is told. The sources of the
# runtime are the same in every emitted program: with ccache they are compiled once. OpenBLAS comes with CBC, where it
# would start threads that nobody uses.
run_tests() {
  local folder=$1 settings=(OPENBLAS_NUM_THREADS=1 OMPI_MCA_mpi_yield_when_idle=1)
  shift
  if command -v ccache >/dev/null; then
    settings+=(CCACHE_DIR="$root/build/ccache" OMPI_CC="ccache ${OMPI_CC:-gcc}")
  fi
  env "${settings[@]}" ctest --test-dir "$folder" --output-on-failure -j "$(($(nproc) + 1))" "$@"
}

"$root/scripts/install.sh"
"$root/scripts/build.sh" "$root/build" -DBRAID_WERROR=ON
use_memory

# The compiler again under the address and undefined-behaviour sanitizers: units and diagnostics. It is built while tests
# wait for each other, and what that says is shown behind theirs.
nice "$root/scripts/build.sh" "$root/build-sanitize" -DBRAID_SANITIZE=ON >"$root/build/sanitize.log" 2>&1 &
tested=0 built=0
run_tests "$root/build" || tested=$?
wait $! || built=$?
cat "$root/build/sanitize.log" >&2
[ "$tested" = 0 ] || exit "$tested"
[ "$built" = 0 ] || exit "$built"

# A small quarantine still holds what was just freed; filling one of 256 MiB takes a third of the time of short runs.
export ASAN_OPTIONS=detect_leaks=1:quarantine_size_mb=16
run_tests "$root/build-sanitize" -L quick
