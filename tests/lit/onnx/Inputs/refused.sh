#!/bin/sh
# Every part of a folder is the text of a model that must be refused: exit status 1, one diagnostic with the words
# after `# expect:` in it, and no graph or weights written. Words after `# options:` go to the command. A part without
# an ir_version is given a head.
#   refused.sh MAKE_ONNX FOLDER
set -eu
make_onnx=$1
cd "$2"
bad=0
rm -f graph.bin weights.bin
for part in *; do
  [ -f "$part" ] || continue
  case $part in *.bin | *.onnx) continue ;; esac
  expected=$(sed -n 's/^# expect: //p' "$part")
  options=$(sed -n 's/^# options: //p' "$part")
  [ -n "$expected" ] || { echo "$part: expects nothing"; exit 1; }
  if ! grep -q ir_version "$part"; then
    echo 'ir_version: 8 opset_import { domain: "" version: 17 }' >>"$part"
  fi
  case $options in *-o*) ;; *) options="$options -o graph.bin" ;; esac
  "$make_onnx" "$part" model.onnx
  status=0
  # shellcheck disable=SC2086
  braid import model.onnx --weights weights.bin $options >out.bin 2>&1 || status=$?
  grep -v "^\(ONNX\|input\|output\|parameters\|nodes\)" out.bin >said.bin || true
  if [ $status != 1 ] || [ "$(wc -l <said.bin)" != 1 ] || ! grep -qF -e "$expected" said.bin ||
    [ -e graph.bin ] || [ -e weights.bin ]; then
    echo "$part: status $status, wants: $expected"
    cat out.bin
    bad=1
  fi
done
exit $bad
