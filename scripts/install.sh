#!/usr/bin/env bash
# Installs what building, using and testing braid needs (Debian 12). Root, or sudo.
#   scripts/install.sh [PACKAGE]...     these as well
set -euo pipefail
. "$(dirname "$0")/help.sh"

packages=(build-essential cmake ninja-build pkg-config llvm-19-dev llvm-19-tools libglpk-dev libcjson-dev
  zlib1g-dev libopenblas-dev libdnnl-dev libopenmpi-dev openmpi-bin libcmocka-dev coinor-libcbc-dev libonnx-testdata ccache lld iproute2
  python3)
packages+=("$@")

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

run=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "install.sh: needs root or sudo for: ${missing[*]}" >&2; exit 4; }
  run=(sudo)
fi
echo "installing: ${missing[*]}" >&2
"${run[@]}" apt-get update -qq
"${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
