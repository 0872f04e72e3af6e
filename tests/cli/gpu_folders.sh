#!/bin/sh
# scripts/gpu-folders.sh: what lies in the folders that it makes, and that it leaves out no plan without a word.
#   gpu_folders.sh ROOT BRAID
set -eu
folders=$1/scripts/gpu-folders.sh
plans=$1/tests/road/same_model.txt
braid=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "FAIL: $*"; exit 1; }

# STATUS WORDS...: runs the script and compares its status; its words are in log.
run() {
  wanted=$1 got=0
  shift
  BRAID=$braid STEPS=2 bash "$folders" "$@" >log 2>&1 || got=$?
  [ $got -eq "$wanted" ] || { cat log; fail "gpu-folders.sh $*: status $got instead of $wanted"; }
}

run 0 out gpt2 gpt2-rounded-2 llama-tf32-both mlp-2
for name in gpt2 gpt2-rounded-2 llama-tf32-both mlp-2; do
  grep -qxF "$work/out/$name" log || fail "$name is not told"
  grep -q '"target": "cuda"' out/$name/plan.json || fail "$name is not for GPUs"
  [ "$(grep -c '"loss": [0-9]' out/$name/check/expected.jsonl)" = 2 ] || fail "$name does not expect two losses"
  tr '\n' ' ' <out/$name/check/options | grep -q -e '--steps 2 ' || fail "$name has other options"
done
[ "$(ls out | wc -l)" = 4 ] || fail 'there are other folders'
grep -q '"mesh": \[2, 2\]' out/llama-tf32-both/plan.json || fail 'the mesh is another'
grep -q '"optimizer": "adamw"' out/gpt2-rounded-2/plan.json && grep -q '"masters": "none"' out/gpt2-rounded-2/plan.json ||
  fail 'no AdamW rounds stochastically'
[ "$(tail -n 1 out/llama-tf32-both/check/options)" = --tf32 ] || fail 'TF32 is not asked for'
! grep -q -e --tf32 out/gpt2/check/options || fail 'TF32 is asked for in fp32'
[ -e out/gpt2/check/data.txt ] && [ -e out/mlp-2/check/data.safetensors ] || fail 'data is not there'
[ -e out/gpt2/check/memcheck ] && [ ! -e out/mlp-2/check/memcheck ] || fail 'other folders are watched'

# The plans of the test of one model are those of the folders.
count=$(grep -cE '^[a-z]' "$plans")
[ "$count" -gt 40 ] || fail "$plans lists $count plans"
run 2 all $(awk '/^[a-z]/ { print $1 }' "$plans") no-such-plan
grep -q "there is no plan 'no-such-plan'" log || fail 'another plan is not known'
[ ! -e all ] || fail 'a wrong word leaves a folder'

# A plan that is refused ends it.
printf '#!/bin/sh\ncase $* in *"--emit c"*) echo "x.json: error: no such kernel" >&2; exit 2 ;; esac\nexec "%s" "$@"\n' "$braid" >refusing
chmod +x refusing
braid=$work/refusing
run 2 refused gpt2
grep -q 'x.json: error: no such kernel' log || fail 'a refused plan is left out without a word'
run 2
