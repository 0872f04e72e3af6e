#!/bin/sh
# Weights start a program whether their names carry the prefix that Hugging Face puts before a model's
# body or not, whichever the folder it was compiled from has.
#   init_names.sh BRAID
set -eu
braid=$(realpath "$1")
tool=$(dirname "$(dirname "$(realpath "$0")")")/support/safetensors.py
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() {
  echo "init_names.sh: $*" >&2
  exit 1
}
python3 "$tool" gpt2 plain
mkdir prefixed bare
cp plain/config.json prefixed/
cp plain/config.json bare/
python3 "$tool" rename plain/model.safetensors prefixed/model.safetensors '' transformer.
python3 "$tool" rename plain/model.safetensors wrapped.safetensors '' module.transformer.
python3 "$tool" rename plain/model.safetensors lacking.safetensors h.1.mlp.c_fc.bias h.1.mlp.c_fc.other
cp plain/model.safetensors twice.safetensors
python3 - "$tool" <<'END'
import os, sys
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import safetensors
tensors = safetensors.read("plain/model.safetensors")
safetensors.write("ambiguous.safetensors", {p + name: t for p in ("a.", "b.") for name, t in tensors.items()})
END

for folder in plain prefixed bare; do
  "$braid" compile $folder --devices 2 --stages 1 --mesh 2 --seq 16 --global-batch 4 -o $folder.out
  for file in plain/model.safetensors prefixed/model.safetensors wrapped.safetensors; do
    "$braid" run $folder.out --steps 0 --init $file --save saved.safetensors 2>log || fail "$folder from $file: $(cat log)"
    # What is saved has the names of the folder that was compiled, and the bytes of what was loaded.
    [ $folder = prefixed ] && like=prefixed || like=plain
    python3 - "$tool" saved.safetensors $like/model.safetensors <<'END' || fail "$folder from $file saves other weights"
import os, sys
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import safetensors
sys.exit(safetensors.read(sys.argv[2]) != safetensors.read(sys.argv[3]))
END
  done
  for file in lacking ambiguous; do
    status=0
    "$braid" run $folder.out --steps 0 --init $file.safetensors 2>log || status=$?
    [ "$status" = 12 ] || fail "$folder from $file ends in status $status"
    [ "$(wc -l <log)" = 1 ] || fail "$folder from $file says: $(cat log)"
    grep -q 'tensor ".*" is missing' log || fail "$folder from $file says: $(cat log)"
  done
done
