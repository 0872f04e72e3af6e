#!/usr/bin/env bash
# Builds braid into a folder: scripts/build.sh [FOLDER] [cmake options]. Default: build.
# TARGET=braid builds the command alone, without the tests.
set -euo pipefail
. "$(dirname "$0")/help.sh"
root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$root/build}
[ $# -gt 0 ] && shift
cmake -S "$root" -B "$folder" -G Ninja "$@" >/dev/null
cmake --build "$folder" ${TARGET:+--target "$TARGET"} >&2
