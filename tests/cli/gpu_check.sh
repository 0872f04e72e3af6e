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
cat >fake/nvidia-smi <<'END'
#!/bin/sh
case $1 in
-L) echo "GPU 0: Fake"; echo "GPU 1: Fake" ;;
*compute_cap*) echo 9.0; echo 8.0 ;;
*) echo Fake ;;
esac
END
printf '#!/bin/sh\nexit 1\n' >none/nvidia-smi
cat >toolkit/bin/ptxas <<'END'
#!/bin/sh
case $1 in --help) echo "Allowed values for this option:  'sm_80','sm_90'" ;; *) echo "Cuda compilation tools, release 13.0, V13.0" ;; esac
END
: >toolkit/include/nccl.h
chmod +x fake/nvidia-smi none/nvidia-smi toolkit/bin/ptxas

# NAME LOSS ARENA STATUS [USED]: a folder whose four ranks do as told. ARENA: what the driver says that the third's has, whatever
# it asked for; USED: what NVML says of the second GPU, without which NVML is not there. Ranks check what they were started with.
folder() {
  first=', "allocation_unit_bytes": 16384, "device_free_bytes": [90000, 80000, 80000]'
  second=$first
  [ -z "${5:-}" ] || first="$first, \"device_used_bytes\": 12288" second="$second, \"device_used_bytes\": $5"
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
  {"rank": 0, "stage": 0, "arena_bytes": 4096, "segments": [0, 4096], "peak_rss_bytes": 1, "allocated_bytes": 4096$first},
  {"rank": 1, "stage": 0, "arena_bytes": 4096, "segments": [0, 4096], "peak_rss_bytes": 1, "allocated_bytes": 4096$second},
  {"rank": 2, "stage": 1, "arena_bytes": 8192, "segments": [0, 8192], "peak_rss_bytes": 1, "allocated_bytes": $3$first},
  {"rank": 3, "stage": 1, "arena_bytes": 8192, "segments": [0, 8192], "peak_rss_bytes": 1, "allocated_bytes": 8192$second}
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
folder arena 5.5 16640 0
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
says '^good  *4  *f32  *2  *1e-05  *2e-5  *8192  *not at hand  *not asked  *ok$'
says "compared with NVML's figure: 0 of 2 folders; growth looked for: 2; clean under compute-sanitizer: 0"
says 'not checked: the memory that is used, as NVML gives no figure: folders: 2'
says 'all 2 folders agree'
holds gpu-check.json 2 'folders = 2' 'failed = 0' 'nvml.checked = 0' 'nvml.not_at_hand = 2' 'nvml.outside_bytes = 2147483648' \
  'memcheck.clean = 0' 'memcheck.not_at_hand = 0' 'results[0].verdict = "ok"' 'results[0].pass = true' 'results[0].ranks = 4' \
  'results[0].precision = "f32"' 'results[0].limit = 2e-05' 'results[0].loss_difference = 1e-05' \
  'results[0].device_predicted_bytes[0] = 12288' 'results[0].device_used_bytes[0] = null' 'results[0].memcheck = "not asked"' \
  'results[1].verdict = "ok"' 'results[1].folder = "odd \"name"'
run 1 --json rows.json good wrong nan arena dead broken
says 'losses differ by more than 2e-5'
says 'the loss of step 1 is '
says 'rank 2 allocates 16640 bytes, planned are 8192, in units of 16384$'
says 'ended with status 11: braid: the loss is not finite$'
says 'does not build'
says '5 of 6 folders failed'
folder silent 5.5 8192 0
sed -i 's/^\[ \$RANK = 0 .*/exit 0/' silent/program
holds rows.json 6 'failed = 5' 'results[1].pass = false' 'results[2].arena_bytes = null' 'results[3].arena_bytes = 16640' 'results[5].steps = null'
run 1 silent
says 'no losses were written'
folder rankless 5.5 8192 0
sed -i '/"rank": /d' rankless/program
run 1 rankless
says 'the report lists no ranks'
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

# A loss may depart by as much as its precision rounds: within LIMIT, not beyond it.
# PRECISION-IN-THE-PLAN LIMIT LOSS-WITHIN LOSS-BEYOND [OPTION]
bound() {
  for loss in "$3" "$4"; do
    folder "bound-$loss" "$loss" 8192 0
    sed -i "s/\"f32\"/\"$1\"/" "bound-$loss/plan.json"
    [ -z "${5:-}" ] || { echo "$5" >>"bound-$loss/check/options" && sed -i 's/"$8"/"$9"/; s/"$6"/"$7"/' "bound-$loss/program"; }
  done
  run 0 "bound-$3"
  says "  $2  "
  run 1 "bound-$4"
  says "losses differ by more than $2"
  rm -r "bound-$3" "bound-$4"
}
bound f32 2e-5 5.50010 5.50012
bound f32 5e-4 5.50274 5.50276 --tf32
bound bf16 2e-3 5.5109 5.5111
bound f16 5e-4 5.50274 5.50276
bound f8 2e-3 5.5109 5.5111
folder unknown 5.5 8192 0
sed -i 's/"f32"/"f4"/' unknown/plan.json
for limit in abc 1e-3x 0,01 -1; do
  run 2 --tolerance "$limit" good
  says "--tolerance takes a number, as 1e-3, not '$limit'"
done
run 2 --seconds 1m good
says "--seconds takes a whole number, not '1m'"
run 2 unknown
says "no limit is known for the precision of 'unknown'; give --tolerance"
run 0 --tolerance 1e-3 unknown

# What NVML says is used of a GPU: at least the arenas of its ranks, here two on each GPU, at most 2 GiB a rank more.
folder used 5.5 8192 0 1012288
run 0 used
says '^used .* 8192  *0.00 GB  *not asked  *ok$'
says "compared with NVML's figure: 1 of 1 folders"
! grep -q 'not checked' log || fail 'NVML was there'
holds gpu-check.json 1 'nvml.checked = 1' 'nvml.not_at_hand = 0' 'results[0].device_predicted_bytes[1] = 12288' \
  'results[0].device_used_bytes[1] = 1012288'
folder brim 5.5 8192 0 4294979584
run 0 brim
says '^brim .*2.15 GB'
folder over 5.5 8192 0 4294979585
run 1 over
says 'of the GPU of rank 1 4294979585 bytes are used, the arenas there have 12288 (ranks: 2)'
holds gpu-check.json 1 'nvml.checked = 1' 'results[0].device_used_bytes[1] = 4294979585' 'results[0].pass = false'
folder under 5.5 8192 0 12287
run 1 under
says 'of the GPU of rank 1 12287 bytes are used, the arenas there have 12288'
folder part 5.5 8192 0 12288
sed -i '/"rank": 3/s/, "device_used_bytes": 12288//' part/program
run 0 part
says '^part .*not at hand'
says 'not checked: the memory that is used, as NVML gives no figure: folders: 1'
holds gpu-check.json 1 'nvml.not_at_hand = 1' 'results[0].device_used_bytes[2] = 12288' 'results[0].device_used_bytes[3] = null'

# What the driver says of an arena: the plan's bytes, or more up to the next multiple of its unit, and nothing else.
for bytes in 8193 16383; do
  folder arena-$bytes 5.5 $bytes 0
  run 0 arena-$bytes
done
for bytes in 8191 16385 32768; do
  folder arena-$bytes 5.5 $bytes 0
  run 1 arena-$bytes
  says "rank 2 allocates $bytes bytes, planned are 8192, in units of 16384$"
done
folder rounded 5.5 16384 0
run 0 rounded
says '^rounded .* 16384  *not at hand'
folder untold 5.5 8192 0
sed -i '/"rank": 1/s/"allocated_bytes": 4096, //' untold/program
run 1 untold
says 'the driver does not say what the arena of rank 1 has'

# Two ranks share a GPU here: its use may grow by 4 MiB after the third update, and shrink.
# NAME WARM END: what the second GPU has free.
grows() {
  folder "$1" 5.5 8192 0
  sed -i "/\"rank\": [13]/s/80000, 80000/$2, $3/" "$1/program"
}
grows lean 9000000 4805696
run 0 lean
holds gpu-check.json 1 'growth.checked = 1' 'growth.not_at_hand = 0' 'growth.limit_bytes = 2097152' \
  'results[0].device_grown_bytes[0] = 0' 'results[0].device_grown_bytes[1] = 4194304'
grows fat 9000000 4805695
run 1 fat
says 'of the GPU of rank 1 4194305 bytes more are used after the last step than after three updates (ranks: 2)'
holds gpu-check.json 1 'growth.checked = 1' 'results[0].device_grown_bytes[3] = 4194305' 'results[0].pass = false'
grows shrinking 4000000 9000000
run 0 shrinking
grows brief null 9000000
run 0 brief
says 'growth looked for: 0;'
says 'not checked: the memory that comes to be used, as no step follows the third update: folders: 1'
holds gpu-check.json 1 'growth.not_at_hand = 1' 'results[0].device_grown_bytes[1] = null' 'results[0].device_grown_bytes[2] = 0'

# Programs are built for the GPUs that are there, all of them before the first runs, and share the runtime's objects.
for name in early late; do
  folder $name 5.5 8192 0
  mkdir $name/runtime
  printf 'train: build/runtime/object\n\ttest "$(ARCHITECTURES)" = "80 90" && cp program train && chmod +x train\nbuild/runtime/object:\n\tmkdir -p build/runtime && echo %s >$@\n' \
    $name >$name/Makefile
done
sed -i "2i [ -x $work/late/train ] || exit 2" early/program
run 0 early late
[ "$(cat late/build/runtime/object)" = early ] || fail 'the same runtime is built twice'
folder chosen 5.5 8192 0
printf 'train:\n\ttest "$(ARCHITECTURES)" = 100 && cp program train && chmod +x train\n' >chosen/Makefile
(export ARCHITECTURES=100; run 0 chosen)
rm chosen/train
sed -i 's/echo 9.0/echo 10.3/' fake/nvidia-smi
printf 'train:\n\ttest -z "$(ARCHITECTURES)" && cp program train && chmod +x train\n' >chosen/Makefile
run 0 chosen

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

# A folder that asks for it runs a step under compute-sanitizer, which must say that it found nothing.
# SUMMARY STATUS: what it says and ends with.
sanitizer() {
  cat >toolkit/bin/compute-sanitizer <<END
#!/bin/sh
[ "\$1 \$2 \$3 \$4" = "--report-api-errors no --error-exitcode 99" ] || exit 3
shift 4
echo "\$*" >>$work/sanitized
printf '%s\n' '========= COMPUTE-SANITIZER' $1
exit $2
END
  chmod +x toolkit/bin/compute-sanitizer
}
folder watched 5.5 8192 0
: >watched/check/memcheck
run 0 good watched
says '^watched .* not at hand  *not at hand  *ok$'
says 'not checked: accesses, as compute-sanitizer is not at hand: folders: 1'
holds gpu-check.json 2 'memcheck.not_at_hand = 1' 'results[0].memcheck = "not asked"' 'results[1].memcheck = "not at hand"'
sanitizer "'========= ERROR SUMMARY: 0 errors'" 0
run 0 good watched
says '^watched .* clean  *ok$'
says 'clean under compute-sanitizer: 1'
holds gpu-check.json 2 'memcheck.clean = 1' 'memcheck.not_at_hand = 0' 'results[1].memcheck = "clean"'
[ "$(grep -c 'watched/train --data a file --metrics [^ ]* --report [^ ]* --steps 1$' sanitized)" = 4 ] || fail 'the sanitizer watches something else'
[ "$(wc -l <sanitized)" = 4 ] || fail 'the sanitizer watches a folder that does not ask for it'
sanitizer "'========= Invalid __global__ read' '========= ERROR SUMMARY: 1 error'" 99
run 1 watched
says '^watched .* failed  *compute-sanitizer: Invalid __global__ read$'
holds gpu-check.json 1 'memcheck.clean = 0' 'results[0].memcheck = "failed"' 'results[0].pass = false'
sanitizer "'the driver refuses'" 0
run 1 watched
says 'compute-sanitizer: the driver refuses$'
: >broken/check/memcheck
run 1 broken
says '^broken .* not run  *does not build'
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
rm toolkit/bin/ptxas
run 77 good
says 'there is no CUDA toolkit'
echo "all as it should be"
