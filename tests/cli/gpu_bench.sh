#!/bin/sh
# scripts/gpu-bench.sh on a machine that only looks as if it had a GPU: which figures it takes, and what it makes of them.
#   gpu_bench.sh ROOT JSON_LINES
set -eu
bench=$1/scripts/gpu-bench.sh
json_lines=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "FAIL: $*"; exit 1; }

mkdir -p fake toolkit/bin toolkit/include
printf '#!/bin/sh\ncase $1 in -L) echo "GPU 0: Fake" ;; *) echo Fake ;; esac\n' >fake/nvidia-smi
printf '#!/bin/sh\necho "Cuda compilation tools, release 13.0, V13.0"\n' >toolkit/bin/ptxas
: >toolkit/include/nccl.h
# Copies 1000 bytes a second.
cat >fake/cc <<'END'
#!/bin/sh
case $* in *gpu-copy.c*) ;; *) exit 0 ;; esac
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\necho 1e3\n' >"$2"
chmod +x "$2"
END
chmod +x fake/nvidia-smi fake/cc toolkit/bin/ptxas

# NAME WORK MICRO-BATCH SECONDS STATUS: a folder whose steps take as long; the first two are slower. Further lines of
# check/work come from standard input.
folder() {
  mkdir -p "$1/check"
  printf '{\n  "target": "cuda",\n  "stages": 1,\n  "mesh": [1],\n  "predicted": {}\n}\n' >"$1/plan.json"
  printf '    .model_flops = 1, .flops_per_second = 1000,\n' >"$1/main.c"
  { printf 'name %s\nmicro_batch %s\n' "$2" "$3"; cat; } >"$1/check/work"
  printf '%s\n' --data 'a file' >"$1/check/options"
  cat >"$1/program" <<END
#!/bin/sh
[ "\$1 \$2" = '--data a file' ] || exit 2
while [ \$# -gt 0 ]; do
  case \$1 in --save) : >"\$2" ;; --init) [ -e "\$2" ] || exit 2; init=\$2 ;; --metrics) metrics=\$2 ;; --report) report=\$2 ;; --profile) profile=\$2 ;; --tune) tune=\$2 ;; --steps) steps=\$2 ;; esac
  shift 2
done
[ "\$steps" = 10 ] || [ "\$steps" = 0 ] || exit 2
# What is measured is tuned, without a file of another folder.
if [ -z "\${init:-}" ] && [ "\$steps" = 10 ]; then
  [ -n "\${tune:-}" ] && [ ! -e "\$tune" ] || exit 2
  : >"\$tune"
fi
awk 'BEGIN { for (i = 1; i <= 10; i++) { s = $4 * (i <= 2 ? 9 : i % 3 ? 1 : 1.5)
  printf "{\\"step\\": %d, \\"loss\\": 5, \\"tokens_per_second\\": %g, \\"step_seconds\\": %g, \\"mfu\\": 0.25, \\"power_watts\\": 600}\\n", i, 8 / s, s } }' >"\$metrics"
printf '{"ranks": [\n  {"rank": 0, "stage": 0, "arena_bytes": 4096, "segments": [0], "device_used_bytes": 5000}\n]}\n' >"\$report"
[ -z "\${profile:-}" ] || cat >"\$profile" <<PROFILE
{"braid_profile": 1, "steps": 9, "instructions": [
  {"function": -1, "step": -1, "what": "other"},
  {"function": 0, "step": 0, "what": "add, gelu"},
  {"function": 0, "step": 1, "what": "layernorm"}], "ranks": [
  {"rank": 0, "stage": 0, "times": [
    [0, 9, 1.0, 0.1],
    [1, 9, 9.5, 1.0],
    [2, 9, 9.5, 1.0]]}], "displayTimeUnit": "ms", "traceEvents": []}
PROFILE
exit $5
END
  printf 'train: program\n\tcp program train && chmod +x train\n' >"$1/Makefile"
}

# STATUS WORDS...: runs the script and compares its status; its words are in log.
run() {
  wanted=$1 got=0
  shift
  PATH=$work/fake:$PATH CUDA_HOME=$work/toolkit sh "$bench" --steps 10 "$@" >log 2>&1 || got=$?
  [ $got -eq "$wanted" ] || { cat log; fail "gpu-bench.sh $*: status $got instead of $wanted"; }
}
says() { grep -qE -- "$1" log || { cat log; fail "no '$1' was said"; }; }
holds() {
  "$json_lines" gpu-bench.json >lines || fail 'gpu-bench.json is not JSON'
  for line in "$@"; do
    grep -qxF -- "$line" lines || { cat lines; fail "gpu-bench.json has no '$line'"; }
  done
}

printf 'reach 1.10\nreach_mfu 0.5\nflops_per_token 80\n' | folder small gpt 2 1 0
printf 'reach 1.10\nreach_mfu 0.5\nflops_per_token 80\n' | folder large gpt 8 0.8 0
printf 'reach_copy 0.85\nbytes layernorm 900\nbytes add, gelu 850\nbytes gone 1\n' | folder kernels kernels 32 1 0
folder dead other 1 1 11 </dev/null

# The median of the steps behind the first fifth; each work at its best micro-batch, the baseline at its own.
printf '#!/bin/sh\ncase "$1 $2 $3" in "gpt 2 10") echo tokens_per_second 9 ;; "gpt 8 10") echo no such thing >&2; exit 1 ;; esac\necho peak_bytes 8192\n' >base
chmod +x base
run 0 --baseline "$work/base" small large
says '^small  *2  *8  *0.6400  *4096  *5000  *9  *0.889  ok$'
says '^large  *8  *10  *0.8000  *4096  *5000  *null  *null  ok$'
says '^gpt  *10  *9  *1.111  *0.8000  ok$'
holds 'works[0].ratio = 1.111' 'folders[0].baseline_peak_bytes = 8192' 'folders[0].power_watts = 600' 'copy_bytes_per_second = 1000'
says 'the baseline of gpt at 8 samples ends with status 1: no such thing$'
run 1 --baseline "$work/base" small
says '^gpt .* below 1.10 of the baseline$'

# Without a figure of the baseline's MFU alone counts, and where it has no bound nothing is shown.
printf '#!/bin/sh\nexit 1\n' >none
chmod +x none
run 0 --baseline "$work/none" small
says '^gpt  *8  *null  *null  *0.6400  measured$'
cp -r small unbound
sed -i '/^reach_mfu/d' unbound/check/work
run 1 --baseline "$work/none" unbound
says '^gpt .* the baseline gives no figure$'
rm -r unbound

# A work and micro-batch of the baseline is measured once, and what changes of the programs' libraries is said.
sed -i '/^exit/i echo "braid: attention by generated kernels: libcudnn.so.9 is not found"' small/program
cp -r small again
sed "2i echo measured >>'$work/measured'" base >counting
chmod +x counting
run 1 --baseline "$work/counting" small again
[ "$(wc -l <measured)" = 1 ] || fail 'the baseline was measured twice'
says '^again  *2  *8  *0.6400  *4096  *5000  *9  *0.889  ok$'
[ "$(grep -c 'attention by generated kernels' log)" = 1 ] || fail 'what attention is done by is not said once'
rm -r again
echo most_bytes 0.4 >>small/check/work
run 1 --baseline "$work/base" small
says '^small .* does not count: arena above 0.4 of the baseline.s peak$'
says '^gpt  *null  *9  *null  *null  no folder counts$'
run 0 --baseline "$work/base" small large
says '^gpt  *10  *9  *1.111  *0.8000  ok$'
sed -i 's/^flops_per_token .*/flops_per_token 40/' large/check/work
run 1 large
says '^gpt .* MFU is below 0.5$'
echo peak_flops 500 >>large/check/work
run 0 large
says '^gpt .* 0.8000  '
sed -i /peak_flops/d large/check/work
# Losses of 5 against the baseline's with the same seed, and that with the next.
cat >curves <<'END'
#!/bin/sh
[ "$1 $2 $3 $4 $5 $6" = 'gpt 2 10 --batch 4 --curve' ] || exit 1
[ -e "$7" ] && [ -e "$8" ] || exit 1
awk -v seed="$9" 'BEGIN { for (i = 1; i <= 10; i++) print "loss " 5.01 + 0.03 * (seed - 3) }'
END
chmod +x curves
: >small/check/data.txt
printf '%s\n' --seed 3 >>small/check/options
printf '%s\n' 'curve 10' 'batch 4' >>small/check/work
run 0 --baseline "$work/curves" small
says '^small  *10  *0.01  *0.03  ok$'
holds 'curves[0].noise = 0.03'
sed -i 's/5.01/5.05/' curves
run 1 --baseline "$work/curves" small
says 'further from the baseline than its seeds are'
run 1 kernels
says '^add, gelu  *0.85  ok$'
says '^layernorm  *0.9  ok$'
says '^gone  *null  was not run$'
sed -i '/gone/d' kernels/check/work
run 0 kernels
sed -i 's/900/800/' kernels/check/work
run 1 kernels
says '^layernorm  *0.8  below 0.85$'
run 1 dead
says 'ended with status 11'
run 2
run 2 --no-such-option small
run 2 --steps 0 small
sed -i 's/echo 1e3/echo gpu-copy: copying 1 GiB: out of memory >\&2; exit 1/' fake/cc
run 1 kernels
says 'the rate of copies is not known: gpu-copy: copying 1 GiB: out of memory$'
sed -i 's/^printf .*/exit 1/' fake/cc
run 1 kernels
says 'the rate of copies is not known: gpu-copy.c does not build, and nothing says why$'
rm small/check/work
run 2 small
says 'has no check/work'
printf '#!/bin/sh\nexit 1\n' >fake/nvidia-smi
run 77 large
says 'nothing was measured'
echo "all as it should be"
