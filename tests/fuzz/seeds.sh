#!/bin/bash
# Gathers what the fuzzers start from: the models, configs, plans, layer graphs and modules of the tests, and small
# files of weights.
#   seeds.sh BRAID FOLDER MAKE_ONNX: fills FOLDER/TARGET for every target.
set -euo pipefail
braid=$(realpath "$1")
out=$2
make_onnx=$(realpath "$3")
root=$(cd "$(dirname "$0")/../.." && pwd)
rm -rf "$out"
mkdir -p "$out"/{text,json,safetensors,rt_safetensors,plan,config,index,layers,onnx,external,npy,megatron,tune,manifest}
out=$(realpath "$out")

# The parts of the lit tests by the name that split-file gives them.
find "$root/tests/lit" -name '*.test' | sort | xargs awk -v out="$out" '
  FNR == 1 { close(file); file = ""; n = split(FILENAME, path, "/"); test = path[n]; sub(/\.test$/, "", test) }
  /^#--- / {
    close(file)
    file = $2 == "config.json" ? out "/config/" test : $2 == "model.json" ? out "/json/" test : ""
    next
  }
  file { print > file }'
cp "$root"/examples/*.json "$out/json/"
sed -n 's/ => .*//p' "$root/tests/lit/frontend/hf-refused.test" | split -l 1 - "$out/config/refused-"
for config in "$root"/tests/oracle/*/config.json; do
  cp "$config" "$out/config/oracle-$(basename "$(dirname "$config")")"
done

find "$root/tests/lit" -name '*.braid' -exec cp {} "$out/text/" \;
for stage in graph train sharded spmd exec; do
  for model in "$root/examples/mlp.json" gpt2-tiny; do
    "$braid" compile "$model" --cluster cpu:1x2 --global-batch 4 --emit "$stage" -o "$out/text/$(basename "$model")-$stage"
  done
done

compile_plan() {
  "$braid" compile gpt2-tiny --seq 16 --global-batch 8 --cluster "cpu:1x$1" "${@:3}" --emit plan -o "$out/plan/$2"
}
compile_plan 1 one
compile_plan 2 two --mesh 2
compile_plan 4 square --mesh 2x2 --recompute full
compile_plan 4 deep --stages 2 --mesh 2 --micro-batch 2 --zero 1

# A tensor's header is what is read; a few bytes of data will do.
write_weights() {
  printf "\\x$(printf %02x ${#2})\0\0\0\0\0\0\0%s%s" "$2" "$3" >"$out/safetensors/$1"
}
write_weights empty '{}' ''
write_weights one '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}' 'abcdefgh'
write_weights two '{"a.w":{"dtype":"F16","shape":[1,2],"data_offsets":[0,4]},"b":{"dtype":"I64","shape":[],"data_offsets":[4,12]}}' 'abcdefghijkl'
write_weights about '{"__metadata__":{"format":"pt"},"h.0":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}    ' 'abcd'
write_weights names '{"\u00e9\n\"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"b":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[0,3]}}' 'abc'
cp "$out"/safetensors/* "$out/rt_safetensors/"

# Layer graphs: one schedule, all of them, values out of range.
graph=$root/tests/lit/layers/Inputs/small.txt
cp "$graph" "$out/layers/small"
sed 's/\["1f1b"\]/["gpipe", "interleaved", "zero-bubble"]/' "$graph" >"$out/layers/schedules"
sed 's/"forward_seconds": [0-9.]*/"forward_seconds": 1e300/' "$graph" >"$out/layers/long"
sed 's/"repeat": 2/"repeat": 4000/' "$graph" >"$out/layers/deep"

# Indexes of the two shards that the fuzzer has: whole, with metadata, wrong in one way each.
write_index() {
  printf '%s' "$2" >"$out/index/$1"
}
write_index whole '{"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}'
write_index about '{"metadata": {"total_size": 8, "n": [1.5e3, null, {"a": true}]}, "weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}'
write_index moved '{"weight_map": {"x": "b.safetensors", "y": "b.safetensors"}}'
write_index part '{"weight_map": {"x": "a.safetensors"}}'
write_index twice '{"weight_map": {"x": "a.safetensors", "y": "b.safetensors", "x": "a.safetensors"}}'
write_index outside '{"weight_map": {"x": "../a.safetensors", "y": "b.safetensors"}}'
write_index escaped '{"weight_map": {"\u0078": "a.safetensors", "y": "b\u002esafetensors"}}'
write_index nul '{"weight_map": {"x": "a.safetensors\u0000", "y": "b.safetensors"}}'
write_index marked "$(printf '\357\273\277')"'{"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}'
write_index none '{"weight_map": {}}'

# ONNX models: the parts of the lit tests, and some of the ONNX test suite's.
awk -v out="$out/onnx" '
  FNR == 1 { n = split(FILENAME, path, "/"); test = path[n]; sub(/\.test$/, "", test) }
  /^#--- / { close(file); name = $2; gsub("/", "-", name); file = out "/" test "-" name ".text"; next }
  FNR == 1 { file = "" }
  file { print > file }' "$root"/tests/lit/onnx/*.test
for text in "$out"/onnx/*.text; do
  grep -q ir_version "$text" || echo 'ir_version: 8 opset_import { version: 17 }' >>"$text"
  "$make_onnx" "$text" "${text%.text}" && rm "$text"
done
rm "$out"/onnx/functions-bad-bomb # takes its time: what is made of it would keep the fuzzer busy
# One of each kind of node will do: what differs between its tests is their data.
for model in /usr/share/libonnx-testdata/data/{simple,pytorch-converted,pytorch-operator}/*/model.onnx \
  /usr/share/libonnx-testdata/data/node/test_*_{example,default,axis_0,same_upper,2d_pads}*/model.onnx; do
  test=${model%/model.onnx}
  cp "$model" "$out/onnx/${test##*/}"
done

# Tensors of those tests, in the model's file and in others.
sed -n 's/^graph { initializer { \(.*\) } }$/\1/p' "$root"/tests/lit/onnx/{external,tensors}.test |
  split -l 1 - "$out/external/text-"
for text in "$out"/external/text-*; do
  "$make_onnx" --tensor "$text" "${text/text-/}" && rm "$text"
done

# Arrays of NumPy.
write_array() {
  local header="{'descr': '$2', 'fortran_order': False, 'shape': $3, }"
  printf "\\x93NUMPY\\x1\\x0\\x$(printf %02x ${#header})\\x0%s" "$header" >"$out/npy/$1"
  head -c "$4" /dev/zero >>"$out/npy/$1"
}
write_array images '|u1' '(2, 3, 4)' 24
write_array classes '<i8' '(2,)' 16
write_array one '<f4' '()' 4

# Descriptions of checkpoints. MESH STAGES FILES WEIGHTS
write_manifest() {
  printf '{"format": 1, "model": "m", "step": 2, "updates": 2, "seed": "1f", "loss_scale_bits": 1065353216, "finite_steps": 0,
    "data_count": 9, "global_batch": 4, "sequence": 8, "optimizer": 4, "stages": %s, "mesh": [%s], "zero_axes": 1, "weights": [%s], "files": [%s]}' \
    "$3" "$2" "$5" "$4" >"$out/manifest/$1"
}
file='{"bytes": 80, "digest": "00000000000000ff"}'
weight() {
  echo "{\"number\": $1, \"name\": \"w$1\", \"stage\": $2, \"dtype\": $3, \"dims\": [$4], \"at\": [$5], \"cut_axis\": $6, \"cut_dim\": 0,
    \"rounded\": $7, \"trained\": 1, \"factor_dim\": 1}"
}
write_manifest one '' 1 "$file" "$(weight 0 0 0 '3, 5' '' 0 0)"
write_manifest four 2 2 "$file, $file, $file, $file" "$(weight 0 0 0 '3, 5' 2 0 0), $(weight 3 1 1 7 0 1 1)"
write_manifest cut_twice 2 1 "$file, $file" "$(weight 0 0 0 '3, 5' 1 1 0)"
write_manifest large 1024 1024 "$file" "$(weight 0 0 0 '4611686018427387903, 4' 0 0 0)"
write_manifest order '' 1 "$file" "$(weight 1 0 0 3 '' 0 0), $(weight 0 0 0 3 '' 0 0)"

# Algorithms of --tune; the sum of the last is wrong.
write_algorithms() {
  printf '{"braid_tune": 1, "device": "Fake A", "cublaslt": 1, "products": [%s], "sum": "%s"}' "$2" "$3" >"$out/tune/$1"
}
algorithm=$(printf '%0128d' 0)
write_algorithms none '' b3eeb7044c0ea325
write_algorithms one "{\"product\": \"a\", \"algorithm\": \"$algorithm\", \"seconds\": 1e-3, \"first_seconds\": 1e-3}" 9322820417a7220f
write_algorithms changed '' 0000000000000000

# Megatron's indexes of 64 bytes: numbers are given by their first bytes.
write_megatron() {
  local text='MMIDIDX\0\0' number zeros
  for number in 1:8 "$2:1" "$3:8" "$4:8" "${@:5}"; do
    printf -v zeros '%*s' $((${number#*:} - 1)) ''
    printf -v text '%s\\x%02x%s' "$text" "${number%:*}" "${zeros// /\\0}"
  done
  # shellcheck disable=SC2059
  printf "$text" >"$out/megatron/$1"
}
write_megatron words 8 2 3 20:4 12:4 0:8 40:8 0:8 1:8 2:8
write_megatron integers 4 1 2 16:4 0:8 0:8 1:8
write_megatron longs 5 3 1 4:4 0:4 4:4 0:8 32:8 32:8 0:8
write_megatron bytes 1 1 2 64:4 0:8 0:8 1:8
write_megatron short 8 1 2 31:4 0:8 0:8 1:8
write_megatron none 8 0 0
