#!/bin/bash
# Programs for GPUs, built against the fake device and trained on several ranks: their losses are the CPU's,
# their memory is what the plan says, and they give back all they took.
#   programs.sh BRAID LOWER COMPARE_WEIGHTS LIBRARIES MODEL [FOLDER]
# LIBRARIES: what programs are linked with, separated by spaces. FOLDER, when given, keeps what was built.
set -euo pipefail
braid=$(realpath "$1") lower=$(realpath "$2") compare=$(realpath "$3") model=$5
read -ra libraries <<<"$4"
device=$(dirname "$(realpath "$0")")
root=$(realpath "$device/../..")
here=$root/tests/road
. "$here/road.sh"
open_folder "${6:-}"
mkdir shared

# NAME RANKS STAGES MESH MICRO-BATCH SCHEDULE ZERO RECOMPUTE CUT, as in same_model.sh.
plans_of() {
  case $1 in
  gpt2-tiny) cat <<'END' ;;
    one          1 1 1   8 1f1b  -  none -
    data         2 1 2   4 1f1b  -  none batch
    tensor       2 1 2   4 1f1b  -  none tensor
    sequence     2 1 2   8 1f1b  -  full sequence
    pipe         4 2 2   2 1f1b  -  none batch
    pipe-gpipe   4 2 2   2 gpipe -  full tensor
    deep         4 4 1   1 1f1b  -  full -
    zero         2 1 2   4 1f1b  0  none batch
    all          8 1 4x2 4 1f1b  1  full tensor,batch
END
  llama-tiny) cat <<'END' ;;
    one          1 1 1   8 1f1b  -  none -
    pipe         4 2 2   4 gpipe -  full tensor
    all          8 2 2x2 4 1f1b  0  full batch,tensor
END
  gpt2-tiny-25h) cat <<'END' ;;
    one          1 1 1   8 1f1b  -  none -
    tensor       3 1 3   4 1f1b  -  none tensor
    mixed        4 2 2   4 1f1b  -  full mixed
END
  *mlp.json | *cnn.json) cat <<'END' ;;
    one          1 1 1   8 1f1b  -  -    -
    data         2 1 2   4 1f1b  0  -    -
    pipe         4 2 2   2 1f1b  -  -    -
END
  esac
}

# Samples for models without tokens: a safetensors file of 64 with DIMENSIONS, and 10 classes.
write_samples() {
  python3 - "$1" "$2" <<'END'
import json, math, struct, sys
dims = [int(d) for d in sys.argv[2].split(",")]
count, each = 64, math.prod(dims)
inputs = [math.sin(0.37 * i + 0.01 * (i // each) ** 2) for i in range(count * each)]
targets = [(7 * i + i * i // 3) % 10 for i in range(count)]
header = json.dumps({
    "inputs": {"dtype": "F32", "shape": [count] + dims, "data_offsets": [0, 4 * count * each]},
    "targets": {"dtype": "I32", "shape": [count], "data_offsets": [4 * count * each, 4 * count * (each + 1)]}})
header = header.encode().ljust(-(-len(header) // 8) * 8)
with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<Q", len(header)) + header)
    file.write(struct.pack(f"<{count * each}f", *inputs) + struct.pack(f"<{count}i", *targets))
END
}

# What the program embeds stands in for device code: the fake device takes the lowered kernels instead.
build_fake() {
  "$braid" compile "$(cat "$1.model")" --devices "$(ranks_of "$1")" --plan "$1.json" --emit c -o "$1"
  mkdir -p "$1/build"
  printf '\x50\xed\x55\xba' >"$1/build/kernels.fatbin"
  "$lower" "$1/kernels.ll" "$1/build/kernels.o"
  awk -f "$device/kernels.awk" "$1/kernels.ptx" >"$1/build/table.c"
  (cd "$1" && cc -std=c11 -D_GNU_SOURCE -O1 -Wall -Werror -I. -I"$root" -o train main.c stage*.c \
    device_code.s build/table.c build/kernels.o "${libraries[@]}")
}

# NAME RANKS STEPS SEED: trains as torchrun would start it. The seed is the fake device's, of its order of work.
train_fake() {
  local name=$1 ranks=$2 rank processes=() bad=0
  for ((rank = 0; rank < ranks; rank++)); do
    RANK=$rank WORLD_SIZE=$ranks LOCAL_RANK=$rank LOCAL_WORLD_SIZE=$ranks BRAID_JOB=$$-$name-$4 \
      BD_FAKE_SEED=$4 BD_FAKE_FOLDER=$PWD/shared BD_FAKE_REPORT=$PWD/$name/device.$rank \
      timeout 100 "$name/train" --steps "$3" --data "$data" --seed 1 --metrics "$name/metrics.jsonl" \
      --report "$name/report.json" --save "$name/weights.safetensors" 2>"$name/log.$rank" </dev/null &
    processes+=($!)
  done
  for ((rank = 0; rank < ranks; rank++)); do
    wait "${processes[rank]}" || { bad=1; echo "rank $rank of $name ended with $?:"; tail -3 "$name/log.$rank"; }
  done
  [ $bad = 0 ] || { echo "FAIL: $name does not train"; exit 1; }
}

# One allocation of the device, of exactly the planned bytes, and nothing kept at the end.
check_device() {
  awk -v name="$1" -v ranks="$(ranks_of "$1")" '
    { gsub(/"/, ""); gsub(/[,{}]/, " ") }
    FILENAME == ARGV[1] { for (i = 1; i < NF; i++) if ($i == "arena_bytes:") planned[stages++] = $(i + 1); next }
    {
      for (i = 1; i < NF; i++) value[$i] = $(i + 1)
      rank = FILENAME; sub(/.*\./, "", rank)
      expected = planned[int(rank / (ranks / stages))]
      seen++
      if (value["device_allocations:"] != 1 || value["device_peak_bytes:"] != expected ||
          value["left_bytes:"] != 0 || value["left_handles:"] != 0 || value["kernels:"] == 0) {
        printf "rank %d, %d bytes planned: %s\n", rank, expected, $0
        bad = 1
      }
    }
    END { exit bad || seen != ranks }' <("$braid" explain "$1/plan.json" --json) "$1"/device.* ||
    fail "$1 does not keep to its memory"
}

# Gradient norms and final weights, too, are the CPU's.
check_update() {
  paste -d' ' "$1/metrics.jsonl" "$2/metrics.jsonl" | awk -v name="$2" '
    { n = split($0, part, /"grad_norm": /); a = part[2] + 0; b = part[3] + 0; gap = (a - b) / a
      if (gap < 0) gap = -gap
      if (n != 3 || !(gap <= 1e-4)) { print "step " NR ": gradient norms " a " and " b; bad = 1 } }
    END { exit bad || NR < 2 }' || fail "$2 departs from $1 in its gradients"
  "$compare" "$1/weights.safetensors" "$2/weights.safetensors" 1e-4 0.02 >"$2/weights.log" ||
    { tail -3 "$2/weights.log"; fail "$2 departs from $1 in its weights"; }
}

data=text.txt
case $model in
*mlp.json) data=samples; write_samples samples 64 ;;
*cnn.json) data=samples; write_samples samples 1,28,28 ;;
*) write_text text.txt ;;
esac
steps=20
target=cpu
plan_model cpu "$model" 1 1 1 8 1f1b - none -
build cpu
train cpu 1 $steps

target=cuda
seed=0
while read -r name ranks stages mesh micro schedule zero recompute cut; do
  plan_model "$name" "$model" "$ranks" "$stages" "$mesh" "$micro" "$schedule" "$zero" "$recompute" "$cut"
  build_fake "$name"
  train_fake "$name" "$ranks" $steps $((seed++))
  check_device "$name"
  check_losses cpu "$name"
  check_update cpu "$name"
done < <(plans_of "$model")
# Another order of work gives the same bits.
cp -r "$name" "$name-again"
train_fake "$name-again" "$ranks" $steps $((seed + 1))
check_bits "$name" "$name-again"
[ -z "$(ls shared)" ] || fail "communicators were left behind: $(ls shared)"
finish
