#!/bin/sh
# Makes a suite's files of tests that are written as text in one file, and a list of their names:
#   unpack.sh MAKE_ONNX FILE FOLDER
# `#--- NAME/model`, `#--- NAME/input_0` or `#--- NAME/output_0` begin what make_onnx makes a file of.
set -eu
make_onnx=$1
file=$2
folder=$3
mkdir -p "$folder"
grep '^#--- .*/model$' "$file" | sed 's|^#--- \(.*\)/model$|\1|' >"$folder/list"
while read -r name; do
  mkdir -p "$folder/$name/test_data_set_0"
done <"$folder/list"
awk -v folder="$folder/" '/^#--- / { if (out) close(out); out = folder $2 ".txt"; next } out { print >out }' "$file"
while read -r name; do
  "$make_onnx" "$folder/$name/model.txt" "$folder/$name/model.onnx"
  for tensor in "$folder/$name"/*put_*.txt; do
    "$make_onnx" --tensor "$tensor" "$folder/$name/test_data_set_0/$(basename "$tensor" .txt).pb"
  done
done <"$folder/list"
