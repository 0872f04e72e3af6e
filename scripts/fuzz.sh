#!/usr/bin/env bash
# Feeds every reader of files with mutated inputs, under the address and undefined-behaviour sanitizers.
#   scripts/fuzz.sh [SECONDS] [TARGET...]     60 seconds each; the targets are tests/fuzz/fuzz_TARGET.c
# No reader may allocate more than 64 MiB at once for an input of 64 KiB, or more than 512 MiB in all with the fuzzer's own
# (ONNX models: 600 and 1536, docs/testing.md).
# An input that fails is kept in build-fuzz/found; the exit status is then 1.
set -euo pipefail
. "$(dirname "$0")/help.sh"
root=$(cd "$(dirname "$0")/.." && pwd)
seconds=${1:-60}
case $seconds in '' | *[!0-9]*) echo "usage: scripts/fuzz.sh [SECONDS] [TARGET...]" >&2; exit 2 ;; esac
[ $# -eq 0 ] || shift
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for source in "$root"/tests/fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    targets+=("${name#fuzz_}")
  done
fi
folder=$root/build-fuzz

"$root/scripts/install.sh" clang-14 libclang-rt-14-dev
[ -n "${BRAID:-}" ] || { TARGET=braid "$root/scripts/build.sh" "$root/build"; BRAID=$root/build/braid; }
cmake -S "$root" -B "$folder" -G Ninja -DCMAKE_C_COMPILER=clang-14 -DBRAID_FUZZ=ON >/dev/null
cmake --build "$folder" --target fuzzers make_onnx >&2
bash "$root/tests/fuzz/seeds.sh" "$BRAID" "$folder/seeds" "$folder/tests/make_onnx"

export ASAN_OPTIONS=quarantine_size_mb=16
failed=0
mkdir -p "$folder/found"
for name in "${targets[@]}"; do
  words=$folder/$name.words
  corpus=$folder/corpus/$name
  mkdir -p "$corpus"
  # The words of the seeds, so that the fuzzer need not guess keys and names.
  { grep -rohaE '[A-Za-z_][A-Za-z_0-9.]{1,30}' "$folder/seeds/$name" || true; } | sort | uniq -c | sort -rn |
    awk 'NR <= 400 { printf "\"%s\"\n", $2 }' >"$words"
  past=()
  [ ! -d "$root/tests/fuzz/found/$name" ] || past=("$root/tests/fuzz/found/$name")
  most_mb=64
  most_total_mb=512
  [ "$name" != onnx ] || { most_mb=600 && most_total_mb=1536; }
  if "$folder/tests/fuzz/fuzz_$name" -max_total_time="$seconds" -timeout=100 -max_len=65536 \
    -malloc_limit_mb=$most_mb -rss_limit_mb=$most_total_mb -dict="$words" -artifact_prefix="$folder/found/$name-" -print_final_stats=1 \
    "$corpus" "$folder/seeds/$name" "${past[@]}" 2>"$folder/$name.log"; then
    awk -v name="$name" '/^stat::number_of_executed_units/ { units = $2 } / cov: / { for (i = 1; i < NF; i++) if ($i == "cov:") cov = $(i + 1) }
      END { printf "%-16s %9d inputs, %6d edges covered: sound\n", name, units, cov }' "$folder/$name.log"
  else
    failed=1
    echo "$name: FAILED, see $folder/$name.log and $folder/found/" >&2
    grep -E -m3 'ERROR|SUMMARY|runtime error|Assertion' "$folder/$name.log" >&2 || true
  fi
done
exit $failed
