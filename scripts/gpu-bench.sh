#!/bin/sh
# Measures emitted CUDA programs on a machine that has a GPU. Needs the CUDA toolkit, NCCL, make, a C compiler and what
# lies beside this script; nothing of braid, and --baseline what it names.
#   scripts/gpu-bench.sh [--baseline COMMAND] [--steps N] [--seconds N] [--json FILE] OUT...
# scripts/gpu-bench-folders.sh makes the OUTs. In OUT/check lie `options` as for gpu-check.sh and `work`, lines of a key and a value:
#   name W             which work this is; of several folders with one name the fastest counts
#   micro_batch N      its samples; flops_per_token X: of the model, forward and backward, for MFU as it is usually counted,
#                      over peak_flops X a second; without that over the cluster's rate
#   reach X            what the baseline's tokens/s are to be multiplied by; reach_mfu X, reach_copy X: shares; most_bytes X:
#                      the most that the arena may be of the baseline's peak at the same micro-batch; a folder above it
#                      does not count, and one of a work's folders has to
#   curve N            losses of so many steps are compared with the baseline's from the same weights and samples; nothing else of
#                      this folder is measured. batch N: samples of a step
#   bytes OPS N        of folders that measure kernels: what the instruction with these ops reads and writes
# Each program trains --steps (30), of which the first fifth is left out; its tokens/s are those of the median step. Its matrix products are
# tuned before the first step (--tune), anew for each folder. A run may
# take --seconds (1200). COMMAND is called once with a work's name, its micro-batch and the number of steps, in the same run, and prints
# `tokens_per_second X` and `peak_bytes N` as its last two lines, or ends with a status, when there is no figure: a work with `reach_mfu` is held to that alone then, others fail. For curves it is
# called with `--batch N --curve WEIGHTS TEXT SEED` behind these and prints `loss X` for each step: with the program's seed, and with the next one;
# the program's losses must be as close to the first as the second are, both on average. Kernels are
# compared with the copy of 1 GiB that gpu-copy.c measures. Prints two tables, leaves their rows in gpu-bench.json or
# --json FILE. Exit status: 0 all that has a bound reaches it, 1 something does not or failed, 2 wrong usage, 77 no GPU, CUDA
# toolkit or NCCL is here, so nothing was measured.
set -u
baseline='' steps=30 seconds=1200 json=gpu-bench.json here=$(cd "$(dirname "$0")" && pwd)

usage() { echo "gpu-bench.sh: $*; usage: gpu-bench.sh [--baseline COMMAND] [--steps N] [--seconds N] [--json FILE] OUT..." >&2; exit 2; }
absent() { echo "gpu-bench.sh: $*: nothing was measured" >&2; exit 77; }

. "$here/gpu-common.sh"
options="baseline steps seconds json"
read_options "$@"
shift $taken
for number in "$steps" "$seconds"; do
  is_count "$number" || usage "'$number' is no number of steps or seconds"
done
for out; do
  [ -r "$out/plan.json" ] || usage "'$out' is no output folder of braid compile: it has no plan.json"
  [ -r "$out/check/work" ] && [ -r "$out/check/options" ] ||
    usage "'$out' has no check/work; scripts/gpu-bench-folders.sh makes such folders"
done

open_gpus

# What check/work says of a key, or nothing.
told() { sed -n "s/^$2 //p" "$1/check/work" | head -1; }

# Sets `copy_rate`, bytes a second, or leaves it empty.
measure_copy() {
  copy_rate='' reason='gpu-copy.c does not build, and nothing says why'
  # What pip installs has the library in lib, with its version in its name.
  libraries=$CUDA_HOME/lib64 cudart=-lcudart
  [ -d "$libraries" ] || libraries=$CUDA_HOME/lib
  if [ ! -e "$libraries/libcudart.so" ]; then
    for file in "$libraries"/libcudart.so.*; do [ ! -e "$file" ] || cudart=-l:${file##*/}; done
  fi
  if cc -O2 -I"$CUDA_HOME/include" -o "$work/copy" "$here/gpu-copy.c" -L"$libraries" -Wl,-rpath,"$libraries" "$cudart" \
    >"$work/copy.log" 2>&1; then
    copy_rate=$("$work/copy" 2>>"$work/copy.log") || reason="gpu-copy ended with status $?"
  fi
  is_number "$copy_rate" && return
  copy_rate=''
  said=$(tail -n 1 "$work/copy.log")
  echo "gpu-bench.sh: the rate of copies is not known: ${said:-$reason}" >&2
}

# METRICS -> "tokens/s MFU power clock" of the median step; what is not known is null.
median_step() {
  awk '
    function number(key) {
      if (!match($0, "\"" key "\": *[-+0-9.eE]+")) return ""
      text = substr($0, RSTART, RLENGTH)
      sub(/.*: */, "", text)
      return text
    }
    number("step_seconds") + 0 > 0 { seconds[++n] = number("step_seconds") + 0; line[n] = $0 }
    END {
      first = int(n / 5) + 1
      for (i = first; i <= n; i++) { # by insertion
        for (k = ++count; k > 1 && seconds[order[k - 1]] > seconds[i]; k--) order[k] = order[k - 1]
        order[k] = i
      }
      if (!count) { print "no step was recorded"; exit }
      $0 = line[order[int((count + 1) / 2)]]
      power = number("power_watts"); clock = number("clock_mhz"); mfu = number("mfu")
      print number("tokens_per_second") + 0, (mfu == "" ? "null" : mfu), (power == "" ? "null" : power), (clock == "" ? "null" : clock)
    }' "$1"
}

largest_of() { awk -v key="\"$2\":" '{ gsub(/[{},]/, " "); for (i = 1; i < NF; i++) if ($i == key && $(i + 1) + 0 > most) most = $(i + 1) + 0 } END { if (most) printf "%.0f\n", most; else print "null" }' "$1"; }

# Measures a folder: sets verdict, and with `ok` rate, mfu, power, clock, arena, used.
measure() {
  out=$1 rate=null mfu=null power=null clock=null arena=null used=null
  build_folder "$out" || return 0
  rm -f "$work"/log* "$work/metrics.jsonl" "$work/report.json" "$work/profile.json" "$work/tune.json"
  more="--steps $steps --tune $work/tune.json"
  [ -z "$(told "$out" bytes)" ] || more="$more --profile $work/profile.json"
  run_ranks "$out" "$(ranks_of "$out")" "$more"
  ended=$?
  if [ $ended -ne 0 ]; then
    verdict="ended with status $ended: $(last_words)"
    return
  fi
  say_libraries
  result=$(median_step "$work/metrics.jsonl")
  read -r rate mfu power clock <<END
$result
END
  if ! is_number "$rate"; then verdict=$result rate=null mfu=null power=null clock=null; return; fi
  flops=$(told "$out" flops_per_token) peak=$(told "$out" peak_flops)
  [ -n "$peak" ] || peak=$(sed -n 's/.*\.flops_per_second = \([^,]*\),.*/\1/p' "$out/main.c" | head -1)
  if [ -n "$flops" ] && [ -n "$peak" ]; then
    mfu=$(awk -v r="$rate" -v f="$flops" -v p="$peak" -v n="$(ranks_of "$out")" 'BEGIN { printf "%.4f", r * f / p / n }')
  fi
  arena=$(largest_of "$work/report.json" arena_bytes) used=$(largest_of "$work/report.json" device_used_bytes)
  verdict=ok
}

# Rows "OPS SHARE" of the kernels of a measured folder: how much of the copy's rate each reaches in its fastest call.
kernel_shares() {
  awk -v rate="$copy_rate" '
    FILENAME == ARGV[1] { if ($1 == "bytes") wanted[substr($0, 7, length($0) - 7 - length($NF))] = $NF; next }
    /"what": "/ { what = $0; sub(/.*"what": "/, "", what); sub(/".*/, "", what); name[count++] = what; next }
    /^ *\[[0-9]+, / {
      gsub(/[\[\],]/, " ")
      ops = name[$1]
      if (ops in wanted && (!(ops in best) || $4 < best[ops])) best[ops] = $4
    }
    END { for (ops in wanted) printf "%s\t%s\n", ops, (ops in best && best[ops] > 0 ? wanted[ops] / best[ops] / rate : "null") }
  ' "$1/check/work" "$work/profile.json" | sort
}

# Why the baseline gave nothing.
say_baseline() { echo "gpu-bench.sh: the baseline of $1 ends with status $2: $(tail -n 1 "$work/base.log")" >&2; }

# Sets base_rate and base_bytes for a work and micro-batch, which is measured once.
measure_baseline() {
  base_rate=null base_bytes=null
  [ -n "$baseline" ] && [ "$1" != kernels ] || return
  figures=$work/base-$1-$2
  if [ ! -e "$figures" ]; then
    timeout -k 10 "$seconds" sh -c "$baseline \"\$@\"" baseline "$1" "$2" "$steps" >"$work/base" 2>"$work/base.log" && ended=0 || ended=$?
    [ $ended -eq 0 ] || { say_baseline "$1 at $2 samples" $ended; : >"$work/base"; }
    mv "$work/base" "$figures"
  fi
  base_rate=$(sed -n 's/^tokens_per_second //p' "$figures" | tail -1)
  base_bytes=$(sed -n 's/^peak_bytes //p' "$figures" | tail -1)
  is_number "$base_rate" || base_rate=null
  is_number "$base_bytes" || base_bytes=null
}

# ours A B -> "difference noise": mean distances of the losses of the first two files, and of the last two.
distances() {
  awk '
    FNR == 1 { file++ }
    match($0, /"?loss"?:? *[-+0-9.eE]+/) { text = substr($0, RSTART, RLENGTH); sub(/.*[: ]/, "", text); loss[file, ++count[file]] = text + 0 }
    function distance(i, k) { return loss[i, s] > loss[k, s] ? loss[i, s] - loss[k, s] : loss[k, s] - loss[i, s] }
    END {
      if (!count[1] || count[1] != count[2] || count[1] != count[3]) { print "losses are missing"; exit }
      for (s = 1; s <= count[1]; s++) { difference += distance(1, 2); noise += distance(2, 3) }
      printf "%.3g %.3g\n", difference / count[1], noise / count[1]
    }' "$1" "$2" "$3"
}

# Sets difference and noise of a folder's curve, or says why there is none.
measure_curve() {
  out=$1 length=$(told "$1" curve) difference=null noise=null verdict=ok
  build_folder "$out" || return 0
  text=$(cd "$out/check" && pwd)/data.txt seed=$(awk 'found { print; exit } /^--seed$/ { found = 1 }' "$out/check/options")
  rm -f "$work/metrics.jsonl"
  run_ranks "$out" 1 "--steps 0 --save $work/start.safetensors" &&
    run_ranks "$out" 1 "--init $work/start.safetensors --steps $length" || { verdict="does not train: $(last_words)"; return; }
  pids=''
  for turn in 0 1; do # at once: no time is measured
    timeout -k 10 "$seconds" sh -c "$baseline \"\$@\"" baseline "$(told "$out" name)" "$(told "$out" micro_batch)" "$length" \
      --batch "$(told "$out" batch)" --curve "$work/start.safetensors" "$text" $((seed + turn)) >"$work/curve.$turn" 2>"$work/curve.$turn.log" &
    pids="$pids $!"
  done
  for pid in $pids; do
    wait "$pid" || { ended=$?; cat "$work"/curve.?.log >"$work/base.log"; say_baseline "the curve" $ended; verdict='the baseline has no curve'; }
  done
  [ "$verdict" = ok ] || return
  result=$(distances "$work/metrics.jsonl" "$work/curve.0" "$work/curve.1")
  read -r difference noise <<END
$result
END
  if ! is_number "$difference"; then verdict=$result difference=null noise=null; return; fi
  awk -v d="$difference" -v n="$noise" 'BEGIN { exit !(d <= n) }' || verdict='further from the baseline than its seeds are'
}

ratio_of() { awk -v a="$1" -v b="$2" 'BEGIN { if (a == "null" || b == "null" || b == 0) print "null"; else printf "%.3f\n", a / b }'; }
below() { [ "$1" != null ] && [ -n "$1" ] && [ "$2" != null ] && [ -n "$2" ] && awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'; }

# What has been measured so far, so that it is there when this script is ended early.
write_rows() {
  printf '{"device": %s, "cuda": %s, "copy_bytes_per_second": %s, "folders": [\n%s\n], "works": [\n%s\n], "curves": [\n%s\n], "kernels": [\n%s\n]}\n' \
    "$(quoted "$device")" "$(quoted "$toolkit")" "${copy_rate:-null}" "$(cat "$work/rows")" "$(cat "$work/best")" \
    "$(cat "$work/curves")" "$(cat "$work/shares")" >"$json"
}

failed=0
measure_copy
for table in rows best curves shares kernels; do : >"$work/$table"; done
printf '%-28s %6s %12s %7s %14s %14s %12s %7s  %s\n' folder batch tokens/s MFU 'arena bytes' 'bytes used' baseline ratio verdict
for out; do
  [ -z "$(told "$out" curve)" ] || continue
  measure "$out"
  name=$(told "$out" name) batch=$(told "$out" micro_batch)
  base_rate=null base_bytes=null
  if [ "$verdict" = ok ]; then measure_baseline "$name" "$batch"; else failed=$((failed + 1)); fi
  ratio=$(ratio_of "$rate" "$base_rate") memory=$(ratio_of "$arena" "$base_bytes")
  counted=$rate
  if [ "$verdict" = ok ] && below "$(told "$out" most_bytes)" "$memory"; then
    counted=null verdict="does not count: arena above $(told "$out" most_bytes) of the baseline's peak"
  fi
  printf '%-28s %6s %12s %7s %14s %14s %12s %7s  %s\n' "$(basename "$out")" "${batch:--}" "$rate" "$mfu" "$arena" "$used" \
    "$base_rate" "$ratio" "$verdict"
  printf '%s {"folder": %s, "work": %s, "micro_batch": %s, "tokens_per_second": %s, "mfu": %s, "power_watts": %s, "clock_mhz": %s, "arena_bytes": %s, "device_used_bytes": %s, "baseline_tokens_per_second": %s, "baseline_peak_bytes": %s, "share_of_peak": %s, "verdict": %s}\n' \
    "$([ -s "$work/rows" ] && echo ,)" "$(quoted "$out")" "$(quoted "$name")" "${batch:-null}" "$rate" "$mfu" "$power" "$clock" \
    "$arena" "$used" "$base_rate" "$base_bytes" "$memory" "$(quoted "$verdict")" >>"$work/rows"
  write_rows || exit 1
  [ "$rate" != null ] || continue
  printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$name" "$counted" "$mfu" "$base_rate" "$(told "$out" reach)" "$(told "$out" reach_mfu)" >>"$work/works"
  [ -n "$(told "$out" bytes)" ] || continue
  if [ -n "$copy_rate" ]; then
    kernel_shares "$out" | sed "s/\$/	$(told "$out" reach_copy)/" >>"$work/kernels"
  else
    failed=$((failed + 1)) # nothing to compare its kernels with
  fi
done

for out; do
  [ -n "$baseline" ] && [ -n "$(told "$out" curve)" ] || continue
  measure_curve "$out"
  [ -s "$work/curves" ] || printf '\n%-28s %6s %12s %12s  %s\n' curve steps difference noise verdict
  printf '%-28s %6s %12s %12s  %s\n' "$(basename "$out")" "$length" "$difference" "$noise" "$verdict"
  printf '%s {"folder": %s, "steps": %s, "difference": %s, "noise": %s, "verdict": %s}\n' "$([ -s "$work/curves" ] && echo ,)" \
    "$(quoted "$out")" "$length" "$difference" "$noise" "$(quoted "$verdict")" >>"$work/curves"
done

# Each side at its best micro-batch, ours of the folders that count.
echo
printf '%-28s %12s %12s %7s %7s  %s\n' work tokens/s baseline ratio MFU verdict
[ ! -s "$work/works" ] || cut -f1 "$work/works" | sort -u | while IFS= read -r name; do
  awk -F '\t' -v name="$name" '
    $1 == name { if ($2 != "null" && $2 > rate) { rate = $2; mfu = $3 } if ($4 != "null" && $4 > base) base = $4; reach = $5; share = $6 }
    END { printf "%s\t%s\t%s\t%s\t%s\n", (rate ? rate : "null"), (base ? base : "null"), (rate ? mfu : "null"), reach, share }' "$work/works" >"$work/one"
  IFS='	' read -r rate base mfu reach share <"$work/one"
  ratio=$(ratio_of "$rate" "$base")
  verdict=measured
  [ "$ratio" = null ] || [ -z "$reach" ] || verdict=ok
  [ "$rate" != null ] || verdict='no folder counts'
  [ "$verdict" != measured ] || [ -z "$baseline" ] || [ -z "$reach" ] || [ -n "$share" ] || verdict='the baseline gives no figure'
  below "$ratio" "$reach" && verdict="below $reach of the baseline"
  below "$mfu" "$share" && verdict="MFU is below $share"
  printf '%-28s %12s %12s %7s %7s  %s\n' "$name" "$rate" "$base" "$ratio" "$mfu" "$verdict"
  printf '%s {"work": %s, "tokens_per_second": %s, "baseline_tokens_per_second": %s, "ratio": %s, "mfu": %s, "verdict": %s}\n' \
    "$([ -s "$work/best" ] && echo ,)" "$(quoted "$name")" "$rate" "$base" "$ratio" "$mfu" "$(quoted "$verdict")" >>"$work/best"
done
if [ -s "$work/kernels" ]; then
  echo
  printf '%-28s %14s  %s\n' kernel 'share of copy' verdict
  while IFS='	' read -r ops share reach; do
    verdict=ok
    [ "$share" != null ] || verdict='was not run'
    below "$share" "$reach" && verdict="below $reach"
    printf '%-28s %14.8s  %s\n' "$ops" "$share" "$verdict"
    printf '%s {"kernel": %s, "share_of_copy": %s, "verdict": %s}\n' "$([ -s "$work/shares" ] && echo ,)" "$(quoted "$ops")" "$share" \
      "$(quoted "$verdict")" >>"$work/shares"
  done <"$work/kernels"
fi
write_rows || exit 1
short=$(cat "$work/rows" "$work/best" "$work/curves" "$work/shares" | grep -cvE '"verdict": "(ok|measured|does not count.*|does not build.*|ended with status.*|no step .*)"')
[ $failed -eq 0 ] && [ "$short" -eq 0 ] || { echo "gpu-bench.sh: $failed folders failed, $short bounds are not reached" >&2; exit 1; }
