#!/bin/sh
# What a program says of samples and folders that do not fit its model, before it trains.
#   folders.sh BRAID
set -eu
export LC_ALL=C
braid=$(realpath "$1")
oracle=$(realpath "$(dirname "$0")/../oracle")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# STATUS PATTERN ARGUMENT...: a run ends in this status, with one line that has the pattern.
expect() {
  wanted=$1 pattern=$2 status=0
  shift 2
  "$braid" run out --steps 1 "$@" 2>log || status=$?
  [ "$status" = "$wanted" ] && [ "$(wc -l <log)" = 1 ] && grep -qF "$pattern" log && return
  echo "folders.sh: $*: status $status, not $wanted with '$pattern':"
  cat log
  exit 1
}

# Samples: tokens of the test's files are below 96.
mkdir small
sed 's/"vocab_size": 96/"vocab_size": 60/' "$oracle/bert/config.json" >small/config.json
"$braid" compile small --devices 1 --global-batch 8 -o out
cp "$oracle/bert/samples.safetensors" good
sed 's/"token_types"/"token_kinds"/' good >unnamed
sed 's/"targets"/"answers"/' good >aimless
sed 's/"tokens":{"dtype":"I32"/"tokens":{"dtype":"F32"/' good >real
expect 12 'is not below 60' --data good --save new/
[ ! -e new ] || { echo "folders.sh: a run that did not train leaves a folder"; exit 1; }
expect 12 'needs the tensor `token_types`, integers, of as many samples as `targets` and 24 per sample' --data unnamed
expect 12 'needs the tensors `inputs` and `targets`' --data aimless
expect 12 'needs the tensor `tokens`, integers' --data real
"$braid" compile "$oracle/bert" --seq 8 --devices 1 --global-batch 8 -o out
expect 12 '`targets` has another number of targets per sample than the model' --data good

# Folders: shards and their index.
"$braid" compile "$oracle/qwen2" --devices 1 --global-batch 8 -o out
data=$oracle/text.txt index=model.safetensors.index.json second=model-00002-of-00003.safetensors
folder() {
  rm -rf "$1"
  cp -r "$oracle/qwen2" "$1"
}
folder moved && sed "s/\"$second\"/\"model-00001-of-00003.safetensors\"/" "$oracle/qwen2/$index" >moved/$index
folder outside && sed "s/\"$second\"/\"..\/$second\"/" "$oracle/qwen2/$index" >outside/$index
folder lacking && rm lacking/$second
folder linked && mv linked/$second away && ln -s ../away linked/$second
folder part && grep -v 'model.norm.weight' "$oracle/qwen2/$index" >part/$index
folder none && rm none/$index
expect 12 'a tensor is not in the file it is said to be in' --data "$data" --init moved
expect 12 'is no plain file name' --data "$data" --init outside
expect 12 "lacking/$second: No such file" --data "$data" --init lacking
expect 12 "linked/$second: is a link to no file of its folder" --data "$data" --init linked
expect 12 "part/$index" --data "$data" --init part
expect 12 'none/model.safetensors: is not there, nor an index of shards' --data "$data" --init none
mkdir -p taken && cp "$oracle/gpt2/model.safetensors" taken/
expect 4 'taken/: its model.safetensors would be read in place of the shards to save' --data "$data" --init "$oracle/qwen2" \
  --save taken/
expect 4 'nowhere/new/: cannot be written' --data "$data" --save nowhere/new/

# A link to a file beside it is followed; a folder is made where there is none, and one file written from no folder.
folder beside && mv beside/$second beside/real && ln -s real beside/$second
"$braid" run out --steps 0 --init beside --save new/ 2>log || { cat log; exit 1; }
[ -f new/$second ] && [ ! -L new/$second ] && cmp "$oracle/qwen2/config.json" new/config.json
"$braid" run out --steps 0 --save bare/ 2>log || { cat log; exit 1; }
[ "$(ls bare)" = model.safetensors ]
