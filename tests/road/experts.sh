#!/bin/bash
# Layers of experts from ONNX to training, as two exporters write them: the losses are PyTorch's on one rank, and of
# experts on ranks of their own, which tokens reach by an all-to-all.
#   experts.sh BRAID MAKE_ONNX [FOLDER]
set -euo pipefail
braid=$(realpath "$1")
make_onnx=$(realpath "$2")
here=$(dirname "$(realpath "$0")")
tests=$(dirname "$here")
. "$here/road.sh"
open_folder "${3:-}"

for form in selected returned; do
  awk -v form=$form -f "$tests/support/experts.awk" >$form.txt
  "$make_onnx" $form.txt $form.onnx
  "$braid" import $form.onnx --loss cross-entropy -o $form.braid --weights $form.safetensors >summary
done

# What the first op of this kind makes whose line has this in it: of the first layer of experts.
result_of() { awk -v kind="= $1(" -v what="$2" 'index($0, kind) && $0 ~ what { print substr($1, 2); exit }' selected.braid; }

# Tokens are cut by samples, and experts by number between the two.
cat >partial.json <<END
{"braid_plan": 1, "stages": 1, "mesh": [4], "micro_batch": 4,
 "strategies": [{"name": "apart", "function": "model.1",
                 "ops": [{"result": "$(result_of route 'B,[0-9]*,[0-9]*,[0-9]*]')", "split": "b"},
                         {"result": "$(result_of contract 'bepf,efg->bepg')", "split": "e"},
                         {"result": "$(result_of route inverse)", "split": "b"}]}]}
END
"$braid" compile selected.braid --devices 4 --global-batch 8 --partial partial.json --emit plan -o apart.json
"$braid" compile selected.braid --devices 4 --plan apart.json --emit spmd -o apart.braid
grep -q all_to_all apart.braid || fail 'tokens reach their experts in another way'

# FORM OPTION..
train_form() {
  "$braid" compile "$1.braid" --global-batch 8 "${@:2}" -o "$1" >/dev/null
  "$braid" run "$1" --init "$1.safetensors" --data "$tests/oracle/text.txt" --seed 1 --steps 10 --lr 1e-3 --beta1 0.9 \
    --beta2 0.95 --eps 1e-8 --weight-decay 0.1 --clip 1 --metrics "$1/metrics.jsonl" --save "$1/weights.safetensors" \
    >"$1/log" 2>&1 || { tail -5 "$1/log"; fail "$1 does not train"; }
  awk -f "$tests/oracle/losses.awk" "$tests/data/experts.txt" "$1/metrics.jsonl" || fail "$1 departs from PyTorch"
}
train_form returned --devices 1 --micro-batch 8
train_form selected --devices 4 --plan apart.json
# What is saved has the names and shapes that the model's file has.
tensors_of() { grep -ao '"[^"]*":{"dtype":"F32","shape":[^]]*' "$1" | sort; }
[ "$(tensors_of selected.safetensors | grep -c 'onnx::MatMul')" = 24 ] || fail 'the matrices of experts have other names'
diff <(tensors_of selected.safetensors) <(tensors_of selected/weights.safetensors) || fail 'other tensors are saved'
finish
