#!/bin/sh
# Builds emitted CUDA programs on a machine that has a GPU, runs them with all their ranks and compares the losses
# with those that the CPU computed, and the memory with the plan's. Needs the CUDA toolkit, NCCL, make and a C compiler;
# nothing of braid but gpu-common.sh beside it.
#   scripts/gpu-check.sh [--expect LOSSES.jsonl] [--tolerance X] [--seconds N] [--json FILE] OUT...
# An OUT made by scripts/gpu-folders.sh has in OUT/check: `options`, an argument of the program per line, read in the
# folder OUT/check; `data.*`, what they name; `expected.jsonl`, what `braid run --metrics` wrote on a CPU rank; and `memcheck`
# where a step is to be run under compute-sanitizer, too. --expect names another file of losses for all folders. A loss may differ
# from the expected one by a part of it that the precision sets (limit_of), or by --tolerance. What the driver says that every
# rank's arena has must be what plan.json predicts, or that rounded up to the unit in which the driver gives memory. From the second
# update of the weights to the last step no more of a GPU may come to be used than 2 MiB a rank. What NVML says is used of a GPU must
# be at least the arenas of its ranks and at most 2 GiB a rank more. A run may take --seconds (600). More ranks than GPUs share them. A program whose attention is cuDNN's runs again with
# BRAID_CUDNN=0, when its losses must be as close to the expected ones and to those before. compute-sanitizer looks at accesses
# alone, since libraries ask the driver for functions that it may lack.
# Prints a table, leaves its rows in gpu-check.json or --json FILE, and says what could not be checked. Exit status: 0 all agree,
# 1 something failed, 2 wrong usage, 77 no GPU, CUDA toolkit or NCCL is here, so nothing was checked.
set -u
expect='' tolerance='' seconds=600 json=gpu-check.json here=$(cd "$(dirname "$0")" && pwd)

usage() { echo "gpu-check.sh: $*; usage: gpu-check.sh [--expect FILE] [--tolerance X] [--seconds N] [--json FILE] OUT..." >&2; exit 2; }
absent() { echo "gpu-check.sh: $*: nothing was checked" >&2; exit 77; }

. "$here/gpu-common.sh"
options="expect tolerance seconds json"
read_options "$@"
shift $taken
[ -z "$expect" ] || [ -r "$expect" ] || usage "cannot read '$expect'"

# Within which part of the expected loss one in PRECISION must lie (docs/gpu.md says why); nothing for another word.
limit_of() {
  case $1 in
    f32) echo 2e-5 ;;
    tf32 | f16) echo 5e-4 ;;
    bf16 | f8) echo 2e-3 ;;
  esac
}

# The precision that OUT computes in.
precision_of() {
  precision=$(sed -n 's/^ *"precision": "\([a-z0-9]*\)".*/\1/p' "$1/plan.json")
  ! grep -qx -e --tf32 "$1/check/options" || precision=tf32
  echo "$precision"
}

[ -z "$tolerance" ] || printf '%s\n' "$tolerance" | grep -qxE '[0-9]*[.]?[0-9]+([eE][-+]?[0-9]+)?' ||
  usage "--tolerance takes a number, as 1e-3, not '$tolerance'"
is_count "$seconds" || usage "--seconds takes a whole number, not '$seconds'"
for out; do
  [ -r "$out/plan.json" ] || usage "'$out' is no output folder of braid compile: it has no plan.json"
  grep -q '"target": "cuda"' "$out/plan.json" || usage "'$out' is a program for CPUs; compile it with --target cuda"
  [ -n "$expect" ] || [ -r "$out/check/expected.jsonl" ] || usage "'$out' has no check/expected.jsonl; give --expect"
  [ -r "$out/check/options" ] || usage "'$out' has no check/options; scripts/gpu-folders.sh makes such folders"
  [ -n "${tolerance:-$(limit_of "$(precision_of "$out")")}" ] || usage "no limit is known for the precision of '$out'; give --tolerance"
done

open_gpus

# What NVML says is used of a GPU may be so much more than the arenas of its ranks, for each: driver, NCCL, kernels' code.
OUTSIDE_BYTES=2147483648
# By so much a rank the use of a GPU may grow while steps repeat: the piece that the driver takes of it for small things, its own
# included. All else has been loaded and allocated by the third update.
GROWTH_BYTES=2097152

# The largest relative difference of a loss: EXPECTED METRICS -> "difference steps tokens/s", or "why" alone.
compare_losses() {
  [ -e "$2" ] || return
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

# Whether every rank has the arena that the plan predicts, and its GPU the use: PLAN REPORT -> the bytes of the largest arena, a
# list of what is predicted for each rank's GPU, one of what NVML says is used of it (null: no figure), one of by how much that
# has grown since the third update (null: no figure), by how many bytes a rank the use is most above the arenas, and the most
# growth a rank, or "none" where a rank has no figure; and why not, in words. Ranks take GPUs in turn.
compare_memory() {
  awk -v gpus="$gpus" -v outside=$OUTSIDE_BYTES -v growth=$GROWTH_BYTES '
    function wrong(text) { if (!why) why = text }
    function listed(list, value) { return list (list == "" ? "" : ",") value }
    function figure(name) { return name in value && value[name] != "null" ? value[name] : "" }
    BEGIN { ranks = stages = 0 }
    { gsub(/[{},\[\]]/, " "); split("", value)
      for (i = 1; i < NF; i++) {
        value[$i] = $(i + 1)
        if ($i == "\"arena_bytes\":" && FNR == NR) planned[stages++] = $(i + 1)
        if ($i == "\"device_free_bytes\":") { value["warm"] = $(i + 2); value["end"] = $(i + 3) }
      } }
    FNR != NR && "\"arena_bytes\":" in value {
      allocated = figure("\"allocated_bytes\":"); unit = figure("\"allocation_unit_bytes\":")
      predicted = planned[value["\"stage\":"]] + 0
      most = unit > 0 ? int((predicted + unit - 1) / unit) * unit : predicted
      if (allocated == "")
        wrong("the driver does not say what the arena of rank " ranks " has")
      else if (allocated + 0 < predicted || allocated + 0 > most)
        wrong(sprintf("rank %d allocates %.0f bytes, planned are %.0f, in units of %.0f", ranks, allocated, predicted, unit))
      if (allocated + 0 > largest) largest = allocated + 0
      used[ranks] = figure("\"device_used_bytes\":")
      grown[ranks] = figure("warm") == "" || figure("end") == "" ? "" : value["warm"] - value["end"]
      arenas[ranks % gpus] += predicted; sharing[ranks % gpus]++
      ranks++
    }
    END {
      if (!ranks) why = "the report lists no ranks"
      for (r = 0; r < ranks; r++) {
        least = arenas[r % gpus]; n = sharing[r % gpus]
        wanted = listed(wanted, sprintf("%.0f", least))
        uses = listed(uses, used[r] == "" ? "null" : used[r])
        growths = listed(growths, grown[r] == "" ? "null" : sprintf("%.0f", grown[r]))
        if (grown[r] == "")
          ungrown = 1
        else {
          if (grown[r] > n * growth)
            wrong(sprintf("of the GPU of rank %d %.0f bytes more are used after the last step than after three updates (ranks: %d)",
                          r, grown[r], n))
          if (r == 0 || grown[r] / n > growing) growing = grown[r] / n
        }
        if (used[r] == "") { unused = 1; continue }
        over = (used[r] - least) / n
        if (over < 0 || over > outside)
          wrong(sprintf("of the GPU of rank %d %.0f bytes are used, the arenas there have %.0f (ranks: %d)", r, used[r], least, n))
        if (r == 0 || over > above) above = over
      }
      print largest + 0, "[" wanted "]", "[" uses "]", "[" growths "]", unused || !ranks ? "none" : sprintf("%.0f", above),
        ungrown || !ranks ? "none" : sprintf("%.0f", growing), why
    }' "$1" "$2"
}

within() { awk -v d="$1" -v t="$2" 'BEGIN { exit !(d <= t) }'; }

# Runs a program that has attention by cuDNN without it: its losses must be the expected ones, and those before.
check_apart() {
  cp "$work/metrics.jsonl" "$work/cudnn.jsonl"
  BRAID_CUDNN=0
  export BRAID_CUDNN
  run_ranks "$out" "$ranks"
  ended=$?
  unset BRAID_CUDNN
  if [ $ended -ne 0 ]; then verdict="ended with status $ended with BRAID_CUDNN=0: $(last_words)"; return 1; fi
  for one in "${expect:-$out/check/expected.jsonl}" "$work/cudnn.jsonl"; do
    result=$(compare_losses "$one" "$work/metrics.jsonl")
    other=${result%% *}
    if ! is_number "$other"; then verdict="with BRAID_CUDNN=0: $result"; return 1; fi
    within "$other" "$limit" || { verdict="losses with BRAID_CUDNN=0 differ by $other"; return 1; }
  done
}

# Runs a step under compute-sanitizer. It is clean when every rank's says that it has found nothing.
check_accesses() {
  if [ -z "$sanitizer" ]; then memcheck='not at hand'; return 0; fi
  run_ranks "$out" "$ranks" '--steps 1' "$sanitizer --report-api-errors no --error-exitcode 99"
  ended=$?
  if [ $ended -eq 0 ] && [ "$(grep -c '^=* *ERROR SUMMARY: 0 errors' "$work/log")" = "$ranks" ]; then memcheck=clean; return 0; fi
  memcheck=failed
  verdict="compute-sanitizer: $(sed -n 's/^========= *//p' "$work/log" | grep -m 1 -v '^COMPUTE-SANITIZER' || last_words)"
  return 1
}

# Checks one folder: sets verdict ("ok" or why not), limit, difference, steps, rate, bytes, predicted, used, grown, over, growth,
# memcheck.
check() {
  out=$1 difference='' steps='' rate='' bytes='' predicted='' used='' grown='' over=none growth=none memcheck='not asked'
  limit=${tolerance:-$(limit_of "$precision")}
  [ ! -e "$out/check/memcheck" ] || memcheck='not run'
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
  if ! is_number "$difference"; then verdict=${result:-no losses were written} difference=''; return; fi
  steps=$(echo "$result" | cut -d' ' -f2) rate=$(echo "$result" | cut -d' ' -f3)
  result=$(compare_memory "$out/plan.json" "$work/report.json")
  read -r bytes predicted used grown over growth verdict <<END
$result
END
  [ -z "$verdict" ] || return
  within "$difference" "$limit" || { verdict="losses differ by more than $limit"; return; }
  if grep -qE "attention( and convolutions)? by cuDNN" "$work/log"; then check_apart || return 0; fi
  [ "$memcheck" = 'not asked' ] || check_accesses || return 0
  verdict=ok
}

# What has been checked so far, so that it is there when this script is ended early.
write_rows() {
  {
    printf '{"device": %s, "folders": %s, "failed": %s, ' "$(quoted "$device")" "$folders" $failed
    printf '"memcheck": {"clean": %s, "not_at_hand": %s}, ' $clean $unwatched
    printf '"nvml": {"checked": %s, "not_at_hand": %s, "outside_bytes": %s}, ' $sensed $unsensed $OUTSIDE_BYTES
    printf '"growth": {"checked": %s, "not_at_hand": %s, "limit_bytes": %s}, ' $followed $unfollowed $GROWTH_BYTES
    printf '"results": [\n%s\n]}\n' "$(cat "$work/rows")"
  } >"$json"
}

sanitizer=$CUDA_HOME/bin/compute-sanitizer
[ -x "$sanitizer" ] || sanitizer=$(command -v compute-sanitizer)
folders=$# failed=0 clean=0 unwatched=0 sensed=0 unsensed=0 followed=0 unfollowed=0
build_folders "$@"
line='%-20s %5s %9s %5s %10s %7s %12s %11s %11s  %s\n'
printf "$line" folder ranks precision steps difference limit 'arena bytes' 'NVML above' memcheck verdict
for out; do
  ranks=$(ranks_of "$out") precision=$(precision_of "$out") pass=true above='-'
  check "$out"
  [ "$verdict" = ok ] || { failed=$((failed + 1)) pass=false; }
  case $memcheck in clean) clean=$((clean + 1)) ;; 'not at hand') unwatched=$((unwatched + 1)) ;; esac
  if is_number "$over"; then
    sensed=$((sensed + 1)) above=$(awk -v b="$over" 'BEGIN { printf "%.2f GB", b / 1e9 }')
  elif [ -n "$used" ]; then
    unsensed=$((unsensed + 1)) above='not at hand'
  fi
  if is_number "$growth"; then followed=$((followed + 1)); elif [ -n "$grown" ]; then unfollowed=$((unfollowed + 1)); fi
  printf "$line" "$(basename "$out")" "$ranks" "$precision" "${steps:--}" "${difference:--}" "$limit" "${bytes:--}" "$above" "$memcheck" \
    "$verdict"
  printf '%s {"folder": %s, "ranks": %s, "gpus": %s, "precision": "%s", "steps": %s, "loss_difference": %s, "limit": %s, "arena_bytes": %s, "device_predicted_bytes": %s, "device_used_bytes": %s, "device_grown_bytes": %s, "memcheck": "%s", "tokens_per_second": %s, "pass": %s, "verdict": %s}\n' \
    "$([ -s "$work/rows" ] && echo ,)" "$(quoted "$out")" "$ranks" "$gpus" "$precision" "${steps:-null}" "${difference:-null}" "$limit" \
    "${bytes:-null}" "${predicted:-null}" "${used:-null}" "${grown:-null}" "$memcheck" "${rate:-null}" $pass "$(quoted "$verdict")" >>"$work/rows"
  write_rows || exit 1
done
echo "compared with NVML's figure: $sensed of $folders folders; growth looked for: $followed; clean under compute-sanitizer: $clean"
[ $unsensed -eq 0 ] || echo "not checked: the memory that is used, as NVML gives no figure: folders: $unsensed"
[ $unfollowed -eq 0 ] || echo "not checked: the memory that comes to be used, as no step follows the third update: folders: $unfollowed"
[ $unwatched -eq 0 ] || echo "not checked: accesses, as compute-sanitizer is not at hand: folders: $unwatched"
[ $failed -eq 0 ] || { echo "gpu-check.sh: $failed of $folders folders failed" >&2; exit 1; }
echo "all $folders folders agree"
