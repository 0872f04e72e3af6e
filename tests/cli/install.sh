#!/bin/sh
# An installed braid works from wherever its prefix is moved, with the runtime that lies beside it.
#   install.sh CMAKE BUILD-FOLDER
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" --install "$2" --prefix "$work/prefix" >"$work/log"
mkdir "$work/else where"
mv "$work/prefix" "$work/else where/moved"
prefix="$work/else where/moved"
braid=$prefix/bin/braid
echo '// of the moved prefix' >>"$prefix/share/braid/runtime/options.c"
cd "$work"

"$braid" compile gpt2-tiny --devices 1 --seq 16 --global-batch 4 -o out
grep -q 'of the moved prefix' out/runtime/options.c
yes 'sixteen and more bytes of text' | head -50 >text.txt
"$braid" run out --steps 2 --data text.txt --metrics metrics.jsonl 2>>log
[ "$(wc -l <metrics.jsonl)" = 2 ]

# A link to the executable leads to its own prefix; BRAID_RUNTIME wins over it.
ln -s "$braid" linked
./linked compile gpt2-tiny --devices 1 --seq 16 --global-batch 4 --emit c -o from-link
grep -q 'of the moved prefix' from-link/runtime/options.c
cp -r "$prefix/share/braid/runtime" other
echo '// of BRAID_RUNTIME' >>other/options.c
BRAID_RUNTIME=$work/other "$braid" compile gpt2-tiny --devices 1 --seq 16 --global-batch 4 --emit c -o from-other
grep -q 'of BRAID_RUNTIME' from-other/runtime/options.c

status=0
BRAID_RUNTIME=$work/none "$braid" compile gpt2-tiny --devices 1 --seq 16 --global-batch 4 --emit c -o none 2>log || status=$?
[ "$status" = 1 ]
grep -q 'BRAID_RUNTIME names a folder without' log
[ ! -e none ]
