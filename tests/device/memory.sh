#!/bin/bash
# scripts/gpu-check.sh and programs on the fake device, whose driver says what the arena has and how much is free: an arena
# that is not the plan's, and memory that is taken while steps repeat, are told.
#   memory.sh TINY
set -eu
tiny=$(realpath "$1") check=$(realpath "$(dirname "$0")/../../scripts/gpu-check.sh")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "FAIL: $*"; cat log; exit 1; }

mkdir -p bin toolkit/bin toolkit/include shared
printf '#!/bin/sh\ncase $1 in -L) echo "GPU 0: Fake"; echo "GPU 1: Fake" ;; *) echo Fake ;; esac\n' >bin/nvidia-smi
printf '#!/bin/sh\necho "Cuda compilation tools, release 13.0, V13.0"\n' >toolkit/bin/ptxas
: >toolkit/include/nccl.h
chmod +x bin/nvidia-smi toolkit/bin/ptxas
export PATH=$work/bin:$PATH CUDA_HOME=$work/toolkit BD_FAKE_FOLDER=$work/shared

# NAME RANKS BYTES STEPS: a folder whose plan predicts so many bytes. Losses are of no matter here.
folder() {
  mkdir -p "$1/check"
  printf '{\n  "target": "cuda",\n  "precision": "f32",\n  "stages": 1,\n  "mesh": [%s],\n' "$2" >"$1/plan.json"
  printf '  "predicted": {\n    "stages": [{"arena_bytes": %s}]\n  }\n}\n' "$3" >>"$1/plan.json"
  echo 'it was the best of times, it was the worst of times' >"$1/check/text.txt"
  printf '%s\n' --data text.txt --steps "$4" >"$1/check/options"
  (cd "$1/check" && "$tiny" --data text.txt --steps "$4" --metrics expected.jsonl) >log 2>&1 || fail "$1 does not train"
  printf '#!/bin/sh\nTINY_RANKS=%s BD_FAKE_RANK=$RANK exec %s "$@"\n' "$2" "$tiny" >"$1/program"
  printf 'train:\n\tcp program train && chmod +x train\n' >"$1/Makefile"
}

# STATUS WORDS FOLDER [VARIABLE=VALUE]...: checks the folder.
check() {
  local status=0
  env "${@:4}" sh "$check" --tolerance 2 "$3" >log 2>&1 || status=$?
  [ $status = "$1" ] || fail "status $status instead of $1 of $3"
  grep -q -- "$2" log || fail "no '$2' was said"
}

bytes=33555968 # tests/cuda/tiny.c
rounded=35651584
folder alone 1 $bytes 5
folder two 2 $bytes 5
check 0 'growth looked for: 1;' alone
check 0 'growth looked for: 1;' two
grep -q "^two .* $rounded " log || fail "NCCL's memory is not that of the driver"

# Whatever a program asks for and says: what counts is what it got, in units of the driver's.
check 0 'all 1 folders agree' alone BD_FAKE_ARENA_ERROR=256
for error in -256 2097152; do
  check 1 "rank 0 allocates $((bytes + error)) bytes, planned are $bytes, in units of 2097152" alone BD_FAKE_ARENA_ERROR=$error
done
check 1 "rank 0 allocates $((rounded + 2097152)) bytes, planned are $bytes" two BD_FAKE_ARENA_ERROR=2097152
check 1 "rank 0 allocates $((rounded - 2097152)) bytes, planned are $bytes" two BD_FAKE_ARENA_ERROR=-2097152
check 1 'the driver does not say what the arena of rank 0 has' alone BD_FAKE_DRIVER_FUNCTIONS=0
folder larger 1 $((bytes - 4096)) 5
check 1 "rank 0 allocates $bytes bytes, planned are $((bytes - 4096))" larger
folder smaller 1 $((bytes + 4096)) 5
check 1 "rank 0 allocates $bytes bytes, planned are $((bytes + 4096))" smaller

# Memory that is taken for good by the third step is what libraries take; later it is not. One copy a step: its sample.
check 0 'all 1 folders agree' alone BD_FAKE_LOSES=67108864 BD_FAKE_LOSES_AT=3
for folder in alone two; do
  for step in 4 5; do
    check 1 'of the GPU of rank 0 67108864 bytes more are used after the last step than after three updates (ranks: 1)' $folder \
      BD_FAKE_LOSES=67108864 BD_FAKE_LOSES_AT=$step
  done
done
check 0 'all 1 folders agree' alone BD_FAKE_LOSES=2097152 BD_FAKE_LOSES_AT=4
folder brief 1 $bytes 3
check 0 'as no step follows the third update: folders: 1' brief BD_FAKE_LOSES=67108864 BD_FAKE_LOSES_AT=3
echo "all as it should be"
