#!/bin/sh
# Builds emitted CUDA programs on a machine that has a GPU, runs them with all their ranks and compares the losses
# with those that the CPU computed. Needs the CUDA toolkit, NCCL, make, a C and a C++ compiler; nothing of braid but gpu-common.sh
# beside it.
#   scripts/gpu-check.sh [--expect LOSSES.jsonl] [--tolerance X] [--seconds N] [--json FILE] OUT...
# An OUT made by scripts/gpu-folders.sh has in OUT/check: `options`, an argument of the program per line, read in the
# folder OUT/check; `data.*`, what they name; and `expected.jsonl`, what `braid run --metrics` wrote on CPU ranks.
# --expect names another such file for all folders. A loss may differ from the expected one by 2e-5 of it (fp32) or
# 2e-3 (bf16), 5e-4 (fp16), or by --tolerance. The bytes that every rank's arena has must be those that plan.json predicts. A run
# may take --seconds (600). More ranks than GPUs share them. Where each rank has a GPU of its own, what the driver says is
# used of it may be at most 2 GiB more than the arena. A program whose attention is cuDNN's runs again with BRAID_CUDNN=0,
# when its losses must be as close to the expected ones and to those before. The first folder of one rank also runs a step under compute-sanitizer,
# where the toolkit has it; of accesses, since libraries ask the driver for functions that it may lack.
# Prints a table, leaves its rows in gpu-check.json or --json FILE. Exit status: 0 all agree, 1 something failed,
# 2 wrong usage, 77 no GPU, CUDA toolkit or NCCL is here, so nothing was checked.
set -u
expect='' tolerance='' seconds=600 json=gpu-check.json here=$(cd "$(dirname "$0")" && pwd)

usage() { echo "gpu-check.sh: $*; usage: gpu-check.sh [--expect FILE] [--tolerance X] [--seconds N] [--json FILE] OUT..." >&2; exit 2; }
absent() { echo "gpu-check.sh: $*: nothing was checked" >&2; exit 77; }

. "$here/gpu-common.sh"
options="expect tolerance seconds json"
read_options "$@"
shift $taken
[ -z "$expect" ] || [ -r "$expect" ] || usage "cannot read '$expect'"
for out; do
  [ -r "$out/plan.json" ] || usage "'$out' is no output folder of braid compile: it has no plan.json"
  grep -q '"target": "cuda"' "$out/plan.json" || usage "'$out' is a program for CPUs; compile it with --target cuda"
  [ -n "$expect" ] || [ -r "$out/check/expected.jsonl" ] || usage "'$out' has no check/expected.jsonl; give --expect"
  [ -r "$out/check/options" ] || usage "'$out' has no check/options; scripts/gpu-folders.sh makes such folders"
done

open_gpus

# The largest relative difference of a loss: EXPECTED METRICS -> "difference steps tokens/s", or "why" alone.
compare_losses() {
  awk '
    function number(key) {
      if (!match($0, "\"" key "\": *[-+0-9.eEnaif]+")) return "none"
      text = substr($0, RSTART, RLENGTH)
      sub(/.*: */, "", text)
      return text
    }
    FNR == NR { expected[number("step")] = number("loss"); wanted++; next }
    {
      step = number("step"); loss = number("loss"); rate = number("tokens_per_second") + 0
      if (!(step in expected)) { print "step " step " is not expected"; bad = 1; exit }
      if (loss !~ /^[-+]?[0-9.]+([eE][-+]?[0-9]+)?$/) { print "the loss of step " step " is " loss; bad = 1; exit }
      difference = loss - expected[step]
      if (difference < 0) difference = -difference
      size = expected[step] < 0 ? -expected[step] : expected[step] + 0
      if (size > 0) difference /= size
      if (difference > most) most = difference
      if (rate > best) best = rate
      steps++
    }
    END {
      if (bad) exit
      if (!wanted) { print "no losses are expected"; exit }
      if (steps != wanted) { printf "%d steps instead of %d\n", steps, wanted; exit }
      printf "%.3g %d %.6g\n", most, steps, best
    }' "$1" "$2"
}

# Whether every rank has the arena that the plan predicts: PLAN REPORT -> "bytes" of the largest, or why not.
compare_arenas() {
  awk '
    { gsub(/[{},\[\]]/, " "); for (i = 1; i < NF; i++) { key = $i; value[key] = $(i + 1)
        if (key == "\"arena_bytes\":" && FNR == NR) planned[stages++] = $(i + 1) } }
    FNR != NR && /"arena_bytes":/ {
      ranks++
      bytes = value["\"arena_bytes\":"]; wanted = planned[value["\"stage\":"]]
      used = value["\"device_used_bytes\":"] + 0
      if (!shared && used > bytes + 2147483648) {
        printf "rank %d has an arena of %s bytes, but %.0f of its GPU are used\n", ranks - 1, bytes, used; bad = 1; exit }
      if (bytes != wanted) { printf "rank %d allocates %s bytes, planned are %s\n", ranks - 1, bytes, wanted; bad = 1; exit }
      if (bytes + 0 > most + 0) most = bytes
    }
    END { if (!bad) print ranks ? most : "the report lists no ranks" }' shared="$share" "$1" "$2"
}

# Checks one folder: sets verdict ("ok" or why not), difference, steps, rate, bytes.
check() {
  out=$1 difference='' steps='' rate='' bytes=''
  limit=$tolerance
  if [ -z "$limit" ]; then
    limit=2e-5
    grep -q '"precision": "bf16"' "$out/plan.json" && limit=2e-3
    grep -q '"precision": "f16"' "$out/plan.json" && limit=5e-4
  fi
  build_folder "$out" || return 0
  rm -f "$work"/log* "$work/metrics.jsonl" "$work/report.json"
  run_ranks "$out" "$ranks"
  ended=$?
  if [ $ended -ne 0 ]; then
    verdict="ended with status $ended: $(last_words)"
    return
  fi
  say_libraries
  result=$(compare_losses "${expect:-$out/check/expected.jsonl}" "$work/metrics.jsonl")
  difference=${result%% *}
  if ! is_number "$difference"; then verdict=$result difference=''; return; fi
  steps=$(echo "$result" | cut -d' ' -f2) rate=$(echo "$result" | cut -d' ' -f3)
  bytes=$(compare_arenas "$out/plan.json" "$work/report.json")
  if ! is_number "$bytes"; then verdict=$bytes bytes=''; return; fi
  if grep -qE "attention( and convolutions)? by cuDNN" "$work/log"; then
    BRAID_CUDNN=0
    export BRAID_CUDNN
    cp "$work/metrics.jsonl" "$work/cudnn.jsonl"
    run_ranks "$out" "$ranks"
    ended=$?
    unset BRAID_CUDNN
    if [ $ended -ne 0 ]; then
      verdict="ended with status $ended with BRAID_CUDNN=0: $(last_words)"
      return
    fi
    for one in "${expect:-$out/check/expected.jsonl}" "$work/cudnn.jsonl"; do
      result=$(compare_losses "$one" "$work/metrics.jsonl")
      other=${result%% *}
      if ! is_number "$other"; then verdict="with BRAID_CUDNN=0: $result"; return; fi
      awk -v d="$other" -v t="$limit" 'BEGIN { exit !(d <= t) }' ||
        { verdict="losses with BRAID_CUDNN=0 differ by $other"; return; }
    done
  fi
  sanitizer=$CUDA_HOME/bin/compute-sanitizer
  if [ -z "$sanitized" ] && [ "$ranks" = 1 ] && [ -x "$sanitizer" ]; then
    sanitized=$out
    if ! run_ranks "$out" 1 '--steps 1' "$sanitizer --report-api-errors no --error-exitcode 99"; then
      verdict="compute-sanitizer: $(grep -m 1 '^=========' "$work/log" | cut -c 11-)"
      return
    fi
  fi
  verdict=ok
  awk -v d="$difference" -v t="$limit" 'BEGIN { exit !(d <= t) }' || verdict="losses differ by more than $limit"
}

# What has been checked so far, so that it is there when this script is ended early.
write_rows() { printf '{"device": %s, "results": [\n%s\n]}\n' "$(quoted "$device")" "$(cat "$work/rows")" >"$json"; }

failed=0 sanitized=''
printf '%-28s %5s %5s %12s %14s %10s  %s\n' folder ranks steps difference 'arena bytes' tokens/s verdict
for out; do
  ranks=$(ranks_of "$out")
  check "$out"
  [ "$verdict" = ok ] || failed=$((failed + 1))
  printf '%-28s %5s %5s %12s %14s %10s  %s\n' "$(basename "$out")" "$ranks" "${steps:--}" "${difference:--}" "${bytes:--}" \
    "${rate:--}" "$verdict"
  printf '%s {"folder": %s, "ranks": %s, "gpus": %s, "steps": %s, "loss_difference": %s, "tolerance": %s, "arena_bytes": %s, "tokens_per_second": %s, "verdict": %s}\n' \
    "$([ -s "$work/rows" ] && echo ,)" "$(quoted "$out")" "$ranks" "$gpus" "${steps:-null}" "${difference:-null}" "$limit" \
    "${bytes:-null}" "${rate:-null}" "$(quoted "$verdict")" >>"$work/rows"
  write_rows || exit 1
done
[ $failed -eq 0 ] || { echo "gpu-check.sh: $failed of $# folders failed" >&2; exit 1; }
echo "all $# folders agree"
