#!/bin/sh
# scripts/gpu-check.sh on a machine that only looks as if it had a GPU: what it takes for agreement, and what not.
#   gpu_check.sh ROOT JSON_LINES
set -eu
check=$1/scripts/gpu-check.sh
json_lines=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "FAIL: $*"; exit 1; }

mkdir -p fake none toolkit/bin toolkit/include
printf '#!/bin/sh\ncase $1 in -L) echo "GPU 0: Fake"; echo "GPU 1: Fake" ;; *) echo Fake ;; esac\n' >fake/nvidia-smi
printf '#!/bin/sh\nexit 1\n' >none/nvidia-smi
printf '#!/bin/sh\necho "Cuda compilation tools, release 13.0, V13.0"\n' >toolkit/bin/nvcc
: >toolkit/include/nccl.h
chmod +x fake/nvidia-smi none/nvidia-smi toolkit/bin/nvcc

# NAME LOSS ARENA STATUS: a folder whose four ranks do as told. Ranks check what they were started with.
folder() {
  mkdir -p "$1/check"
  cat >"$1/plan.json" <<END
{
  "target": "cuda",
  "precision": "f32",
  "stages": 2,
  "mesh": [2],
  "predicted": {
    "stages": [
      {"forward_seconds": 1, "arena_bytes": 4096, "segments": {"weights": 4096}},
      {"forward_seconds": 1, "arena_bytes": 8192, "segments": {"weights": 8192}}
    ]
  }
}
END
  printf '{"step": %d, "loss": %s, "grad_norm": 1}\n' 1 5.5 2 0.25 >"$1/check/expected.jsonl"
  printf '%s\n' --data 'a file' --steps 2 >"$1/check/options"
  : >"$1/check/a file"
  cat >"$1/program" <<END
#!/bin/sh
[ -e "\$2" ] && [ "\$4" = 2 ] && [ "\$WORLD_SIZE" = 4 ] && [ "\$LOCAL_RANK" = "\$RANK" ] && [ "\$BRAID_SHARE_GPU" = 1 ] || exit 2
[ \$RANK != 3 ] || exit $4
[ \$RANK = 0 ] || exit 0
cat >"\$6" <<METRICS
{"step": 1, "loss": $2, "grad_norm": 1, "tokens_per_second": 10, "step_seconds": 1}
{"step": 2, "loss": 0.25, "grad_norm": 1, "tokens_per_second": 20, "step_seconds": 1}
METRICS
cat >"\$8" <<REPORT
{"ranks": [
  {"rank": 0, "stage": 0, "arena_bytes": 4096, "segments": [0, 4096], "peak_rss_bytes": 1},
  {"rank": 1, "stage": 0, "arena_bytes": 4096, "segments": [0, 4096], "peak_rss_bytes": 1},
  {"rank": 2, "stage": 1, "arena_bytes": $3, "segments": [0, 8192], "peak_rss_bytes": 1},
  {"rank": 3, "stage": 1, "arena_bytes": 8192, "segments": [0, 8192], "peak_rss_bytes": 1}
]}
REPORT
END
  printf 'train: program\n\tcp program train && chmod +x train\n' >"$1/Makefile"
}

# STATUS WORDS...: runs the script and compares its status; its words are in log.
run() {
  wanted=$1 got=0
  shift
  PATH=$work/fake:$PATH CUDA_HOME=$work/toolkit sh "$check" "$@" >log 2>&1 || got=$?
  [ $got -eq "$wanted" ] || { cat log; fail "gpu-check.sh $*: status $got instead of $wanted"; }
}
says() { grep -q -- "$1" log || { cat log; fail "no '$1' was said"; }; }
# FILE RESULTS LINE...: the file is JSON with so many results and has these values.
holds() {
  file=$1 count=$2
  shift 2
  "$json_lines" "$file" >lines || fail "$file is not JSON"
  [ "$(grep -c '^results\[[0-9]*\]\.verdict = ' lines)" = "$count" ] || fail "$file has not $count results"
  for line in "$@"; do
    grep -qxF -- "$line" lines || { cat lines; fail "$file has no '$line'"; }
  done
}

folder good 5.500055 8192 0
folder wrong 5.50055 8192 0
folder nan nan 8192 0
folder arena 5.5 8448 0
folder dead 5.5 8192 11
folder 'odd "name' 5.5 8192 0
sed -i '2i [ "$RANK" != 0 ] || printf "%s\\n" "braid: the loss is not finite" "braid: attention by cuDNN 9.19.0" "MFU: 1" "step 1/2" >\&2' dead/program
folder broken 5.5 8192 0
printf 'train:\n\tno-such-tool error\n' >broken/Makefile

# A program whose attention is cuDNN's runs again without; its second loss is then SECOND.
attends() {
  folder "$1" 5.5 8192 0
  sed -i "s/^cat >.*METRICS$/[ \"\${BRAID_CUDNN:-1}\" = 0 ] || echo 'braid: attention by cuDNN 9.19.0' >\&2\n&/" "$1/program"
  printf '[ "${BRAID_CUDNN:-1}" = 1 ] || sed -i "s/: 0.25/: %s/" "$6"\n' "$2" >>"$1/program"
}
attends alike 0.2500001
attends apart 0.26

run 0 good 'odd "name'
says '^good  *4  *2  *1e-05  *8192  *20  ok$'
says 'all 2 folders agree'
holds gpu-check.json 2 'results[0].verdict = "ok"' 'results[0].ranks = 4' 'results[1].verdict = "ok"' \
  'results[1].folder = "odd \"name"'
run 1 --json rows.json good wrong nan arena dead broken
says 'losses differ by more than 2e-5'
says 'the loss of step 1 is '
says 'rank 2 allocates 8448 bytes, planned are 8192'
says 'ended with status 11: braid: the loss is not finite$'
says 'does not build'
says '5 of 6 folders failed'
holds rows.json 6
run 0 --tolerance 1e-3 wrong
printf '{"step": 1, "loss": 5.50055}\n{"step": 2, "loss": 0.25}\n' >other.jsonl
run 0 --expect other.jsonl wrong
printf '{"step": 1, "loss": 5.5}\n' >short.jsonl
run 1 --expect short.jsonl good
says 'step 2 is not expected'
run 0 alike
says '^braid: attention by cuDNN 9.19.0$'
run 1 apart
says 'losses with BRAID_CUDNN=0 differ by 0.04'

# Rows are there as soon as they are known.
folder slow 5.5 8192 0
sed -i 's/^\[ -e .*/sleep 30/' slow/program
rm -f early.json
PATH=$work/fake:$PATH CUDA_HOME=$work/toolkit sh "$check" --json early.json good slow >log 2>&1 &
checker=$!
turn=0
while [ ! -s early.json ] && [ $turn -lt 50 ]; do sleep 0.4; turn=$((turn + 1)); done
kill -TERM $checker
holds early.json 1 'results[0].verdict = "ok"'
wait $checker || :

# NCCL and cuDNN that come with PyTorch.
packages=$work/lib/any/site-packages/nvidia
mkdir -p "$packages/nccl/include" "$packages/cudnn"
printf '#!/bin/sh\ncase $* in *"-I%s/nccl/include"*) ;; *) exit 1 ;; esac\n' "$packages" >fake/cc
printf '#!/bin/sh\nexit 1\n' >fake/torchrun
chmod +x fake/cc fake/torchrun
folder packaged 5.5 8192 0
printf 'train: program\n\ttest "$(NCCL_HOME) $(CUDNN_HOME)" = "%s/nccl %s/cudnn" && cp program train && chmod +x train\n' \
  "$packages" "$packages" >packaged/Makefile
run 0 packaged
says "NCCL in $packages/nccl, cuDNN in $packages/cudnn"
rm -r "$packages/nccl"
run 77 packaged
says "NCCL's header nccl.h is not installed"
rm fake/cc fake/torchrun

# One rank alone also runs a step under compute-sanitizer.
printf '#!/bin/sh\n[ "$1 $2 $3 $4" = "--report-api-errors no --error-exitcode 99" ] || exit 3\nshift 4\necho "$*" >%s/sanitized\n' \
  "$work" >toolkit/bin/compute-sanitizer
chmod +x toolkit/bin/compute-sanitizer
folder single 5.5 8192 0
sed -i 's/"stages": 2/"stages": 1/; s/"mesh": \[2\]/"mesh": [1]/' single/plan.json
sed -i 's/^\[ -e .*/[ "$WORLD_SIZE" = 1 ] || exit 2/; /"rank": [123]/d; s/"peak_rss_bytes": 1},/"peak_rss_bytes": 1}/' single/program
run 0 single
grep -q 'single/train --data a file --steps 2 .* --steps 1$' sanitized || fail 'the sanitizer watches something else'
printf '#!/bin/sh\necho "========= Invalid __global__ read"\nexit 99\n' >toolkit/bin/compute-sanitizer
run 1 single
says 'compute-sanitizer: Invalid __global__ read'
rm toolkit/bin/compute-sanitizer

run 2
run 2 --no-such-option good
says "unknown option '--no-such-option'"
run 2 none
says 'it has no plan.json'
sed -i 's/"cuda"/"cpu"/' dead/plan.json
run 2 dead
says 'is a program for CPUs'
# Of the GPUs that are there, those that programs see.
# LIST COUNT: of two, this many.
sees() {
  export CUDA_VISIBLE_DEVICES="$1"
  run 0 good
  says "^Fake x $2, CUDA"
  unset CUDA_VISIBLE_DEVICES
}
sees 1 1
sees 1,0 2
sees GPU-1b2c,0 2
sees 0,2,1 1
export CUDA_VISIBLE_DEVICES=
run 77 good
export CUDA_VISIBLE_DEVICES=0
cp none/nvidia-smi fake/nvidia-smi
run 77 good
says 'this machine has no NVIDIA GPU'
unset CUDA_VISIBLE_DEVICES
run 77 good
says 'this machine has no NVIDIA GPU'
printf '#!/bin/sh\necho "GPU 0: Fake"\n' >fake/nvidia-smi
rm toolkit/bin/nvcc
run 77 good
says 'there is no CUDA toolkit'
echo "all as it should be"
