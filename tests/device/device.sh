# Steps shared by the tests of programs on the fake device, which begin with open_device and set $data.
device=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
root=$(realpath "$device/../..")
here=$root/tests/road
. "$here/road.sh"

# BRAID LOWER LIBRARIES FOLDER: enters the folder (open_folder). LIBRARIES: what programs are linked with, separated by
# spaces.
open_device() {
  braid=$(realpath "$1") lower=$(realpath "$2")
  read -ra libraries <<<"$3"
  open_folder "$4"
  mkdir shared
}

# FILE DIMS [TARGETS]: samples for models without tokens.
write_samples() {
  cc -std=c11 -O1 -Wall -Wextra -Werror -o samples_tool "$root/tests/support/samples.c" -lm
  ./samples_tool "$@"
}

# What the program embeds stands in for device code: the fake device takes the lowered kernels instead.
build_fake() {
  "$braid" compile "$(cat "$1.model")" --devices "$(ranks_of "$1")" --plan "$1.json" --emit c -o "$1"
  mkdir -p "$1/build"
  printf '\x50\xed\x55\xba' >"$1/build/kernels.fatbin"
  echo 80 90 >"$1/build/architectures"
  "$lower" "$1/kernels.ll" "$1/build/kernels.o"
  awk -f "$device/kernels.awk" "$1/kernels.ptx" >"$1/build/table.c"
  link_fake "$1"
}

link_fake() {
  (cd "$1" && cc -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -I. -I"$root" -o train main.c stage*.c \
    device_code.s build/table.c build/kernels.o "${libraries[@]}")
}

# RANK RANKS LAUNCHER JOB: the environment that torchrun, Open MPI or Slurm gives a rank on one machine.
launched() {
  case $3 in
  torchrun) echo RANK="$1" WORLD_SIZE="$2" LOCAL_RANK="$1" LOCAL_WORLD_SIZE="$2" TORCHELASTIC_RUN_ID="$4" ;;
  openmpi)
    echo OMPI_COMM_WORLD_RANK="$1" OMPI_COMM_WORLD_SIZE="$2" OMPI_COMM_WORLD_LOCAL_RANK="$1" \
      OMPI_COMM_WORLD_LOCAL_SIZE="$2" PMIX_NAMESPACE="$4"
    ;;
  slurm)
    echo SLURM_PROCID="$1" SLURM_NTASKS="$2" SLURM_LOCALID="$1" SLURM_STEP_NODELIST=localhost \
      SLURM_JOB_ID="$4"
    ;;
  esac
}

# NAME RANKS SEED OPTION...: starts the ranks, each under a time limit; `processes` are theirs. The seed is the
# fake device's, of its order of work; it chooses the launcher as well, and by odd ones some calls of NCCL take so long that
# ranks look after each other in between.
start_fake() {
  local name=$1 ranks=$2 seed=$3 rank launchers=(torchrun openmpi slurm)
  shift 3
  processes=()
  for ((rank = 0; rank < ranks; rank++)); do
    env $(launched "$rank" "$ranks" "${launchers[seed % 3]}" "$$-$name-$seed") BD_FAKE_RANK="$rank" \
      BD_FAKE_POLLS=$((seed % 2 ? 1000 : 3)) \
      BD_FAKE_SEED="$seed" BD_FAKE_FOLDER="$PWD/shared" BD_FAKE_REPORT="$PWD/$name/device.$rank" \
      timeout 200 "$name/train" --data "$data" --seed 1 "$@" 2>"$name/log.$rank" </dev/null &
    processes+=($!)
  done
}

# Waits for them; their statuses, in the order of ranks, are `statuses`.
await_fake() {
  local process status
  statuses=()
  for process in "${processes[@]}"; do
    status=0
    wait "$process" || status=$?
    statuses+=($status)
  done
}

# NAME RANKS STEPS SEED OPTION...
train_fake() {
  local rank
  start_fake "$1" "$2" "$4" --steps "$3" --metrics "$1/metrics.jsonl" --report "$1/report.json" \
    --save "$1/weights.safetensors" "${@:5}"
  await_fake
  for ((rank = 0; rank < $2; rank++)); do
    [ "${statuses[rank]}" = 0 ] && continue
    echo "FAIL: rank $rank of $1 ended with ${statuses[rank]}:"
    tail -n 3 "$1/log.$rank"
    exit 1
  done
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

# Gradient norms and final weights, too, are the CPU's; $compare compares weights.
check_update() {
  paste -d' ' "$1/metrics.jsonl" "$2/metrics.jsonl" | awk -v name="$2" '
    { n = split($0, part, /"grad_norm": /); a = part[2] + 0; b = part[3] + 0; gap = (a - b) / a
      if (gap < 0) gap = -gap
      if (n != 3 || !(gap <= 1e-4)) { print "step " NR ": gradient norms " a " and " b; bad = 1 } }
    END { exit bad || NR < 2 }' || fail "$2 departs from $1 in its gradients"
  "$compare" "$1/weights.safetensors" "$2/weights.safetensors" 1e-4 0.005 >"$2/weights.log" ||
    { tail -3 "$2/weights.log"; fail "$2 departs from $1 in its weights"; }
}

# NAME COUNT: of the device of rank 0.
count() { sed "s/.*\"$2\": \([0-9]*\).*/\1/" "$1/device.0"; }
