#!/bin/sh
# Weights start a program whether their names carry the prefix that Hugging Face puts before a model's
# body or not, whichever the folder it was compiled from has.
#   init_names.sh BRAID RENAME_TENSORS COMPARE_WEIGHTS
set -eu
braid=$(realpath "$1") rename=$(realpath "$2") compare=$(realpath "$3")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() {
  echo "init_names.sh: $*" >&2
  exit 1
}
mkdir plain prefixed bare
cat >bare/config.json <<'END'
{"model_type": "gpt2", "vocab_size": 256, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}
END
cp bare/config.json plain/
cp bare/config.json prefixed/
# Not the weights that a program makes by itself.
"$braid" init bare --seed 99 -o plain/model.safetensors
head -c 4096 plain/model.safetensors | tr , '\n' | grep -qF '"h.1.mlp.c_fc.bias":' || fail "names have a prefix"
"$rename" plain/model.safetensors prefixed/model.safetensors '' transformer.
"$rename" plain/model.safetensors wrapped.safetensors '' module.transformer.
"$rename" plain/model.safetensors lacking.safetensors h.1.mlp.c_fc.bias h.1.mlp.c_fc.other
"$rename" plain/model.safetensors ambiguous.safetensors '' a. b.

for folder in plain prefixed bare; do
  "$braid" compile $folder --devices 2 --stages 1 --mesh 2 --seq 16 --global-batch 4 -o $folder.out
  for file in plain/model.safetensors prefixed/model.safetensors wrapped.safetensors; do
    "$braid" run $folder.out --steps 0 --init $file --save saved.safetensors 2>log || fail "$folder from $file: $(cat log)"
    # What is saved has the names of the folder that was compiled, and the bytes of what was loaded.
    [ $folder = prefixed ] && like=prefixed || like=plain
    "$compare" $like/model.safetensors saved.safetensors 0 0 >log ||
      fail "$folder from $file saves other weights: $(cat log)"
  done
  for file in lacking ambiguous; do
    status=0
    "$braid" run $folder.out --steps 0 --init $file.safetensors 2>log || status=$?
    [ "$status" = 12 ] || fail "$folder from $file ends in status $status"
    [ "$(wc -l <log)" = 1 ] || fail "$folder from $file says: $(cat log)"
    grep -q 'tensor ".*" is missing' log || fail "$folder from $file says: $(cat log)"
  done
done
