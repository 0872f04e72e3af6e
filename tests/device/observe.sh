#!/bin/bash
# What a program for GPUs tells of itself, on the fake device: a profile on the axes of braid simulate, NVTX ranges,
# NVML's figures and MFU in the metrics.
#   observe.sh BRAID LOWER LIBRARIES CUDA_HEADERS [FOLDER]
set -euo pipefail
. "$(dirname "$0")/device.sh"
headers=$4
open_device "$1" "$2" "$3" "${5:-}"
data=text.txt target=cuda
write_text text.txt
plan_model pipe gpt2-tiny 2 2 1 4 1f1b - none -
build_fake pipe
train_fake pipe 2 3 0
cp pipe/metrics.jsonl alone.jsonl

cc -std=c11 -O1 -Wall -Wextra -Werror -shared -fPIC -o libnvidia-ml.so.1 "$device/tools/nvml.c"
cc -std=gnu11 -O1 -Wall -Wextra -shared -fPIC -isystem "$headers" -o nvtx.so "$device/tools/nvtx.c"
LD_LIBRARY_PATH=$PWD NVTX_INJECTION64_PATH=$PWD/nvtx.so NVTX_LOG=$PWD/ranges train_fake pipe 2 3 0 --profile pipe/profile.json
cut -d, -f1-3 alone.jsonl | cmp - <(cut -d, -f1-3 pipe/metrics.jsonl) || fail 'watching changes what is computed'
[ "$(grep -c '"left_handles": 0}' pipe/device.0 pipe/device.1 | grep -c ':1$')" = 2 ] || fail 'a profile keeps handles'

# The same processes, threads, passes and messages as a replay of the plan; and a thread of collectives.
"$braid" simulate pipe.json --trace replayed.json >/dev/null
events() {
  grep -o '"ph": "M".*' "$1" | grep -v '"tid": 4' | tr -d ','
  sed -n 's/.*"ph": "X", "name": "\([^"]*\)", "cat": "\(compute\|send\|receive\|sync\)", "pid": \([0-9]*\), "tid": \([0-9]*\),.*/\3.\4 \1/p' "$1"
}
diff <(events replayed.json | sort -u) <(events pipe/profile.json | grep -v 'tied gradients' | sort -u) ||
  fail 'the profile has other axes than the replay'
for kind in s f; do
  [ "$(grep -c "\"ph\": \"$kind\"" pipe/profile.json)" = "$(grep -c "\"ph\": \"$kind\"" replayed.json)" ] ||
    fail "the profile has other messages than the replay"
done
grep -q '"tid": 4, "args": {"name": "collectives"}' pipe/profile.json || fail 'the profile lacks the collectives'
grep -q '"name": "layer 4", "cat": "layer", "pid": 1, "tid": 0' pipe/profile.json || fail 'the profile lacks layers'

# Ranges: of the stage's steps, passes in them, layers in those.
for range in 'stage 0, step 2 / forward 1 / layer 3' 'stage 1, step 2 / backward 0 / layer 4' 'stage 1, step 3 / update'; do
  [ "$(cat ranges.* | grep -cx "$range")" = 1 ] || fail "NVTX has not the range '$range' once"
done

grep -q '"power_watts": 654.321, "clock_mhz": 1755, "memory_clock_mhz": 2619, "memory_used_bytes": 10737418240' pipe/metrics.jsonl ||
  fail "NVML's figures are not in the metrics"
grep -q '"rank": 0.*"device_used_bytes": 10737418240}' pipe/report.json || fail "NVML's figure is not in the report"
grep -q '"rank": 1.*"device_used_bytes"' pipe/report.json && fail 'a device that NVML does not know has its figure'

# MFU is what its definition says.
sed -n 's/.*\.model_flops = \([^,]*\), \.flops_per_second = \([^,]*\),/\1 \2/p' pipe/main.c >rates
grep -q 'MFU: a step.s products, .* over 2 x ' pipe/log.0 || fail 'MFU is not defined'
awk '
  FNR == NR { most = $1 / $2 / 2; next }
  { gsub(/[",{}]/, ""); for (i = 1; i < NF; i++) value[$i] = $(i + 1)
    ratio = value["mfu:"] * value["step_seconds:"] / most; if (!(ratio > 0.999 && ratio < 1.001)) bad = 1 }
  END { exit bad || FNR != 3 }' rates pipe/metrics.jsonl || fail 'MFU is another'
finish
