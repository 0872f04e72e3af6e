#!/usr/bin/env bash
# Installs, builds, and runs every test: scripts/test.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
"$root/scripts/install.sh"
"$root/scripts/build.sh" "$root/build" -DBRAID_WERROR=ON
ctest --test-dir "$root/build" --output-on-failure -j "$(nproc)"

# The compiler again under the address and undefined-behaviour sanitizers: units and diagnostics.
"$root/scripts/build.sh" "$root/build-sanitize" -DBRAID_SANITIZE=ON
ASAN_OPTIONS=detect_leaks=1 ctest --test-dir "$root/build-sanitize" --output-on-failure -L quick -j "$(nproc)"
