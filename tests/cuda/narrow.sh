#!/bin/sh
# narrow.awk on kernels of a few words: which narrow loads and stores it tells, and which are of kinds that may have them.
#   narrow.sh
set -eu
here=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
count=0
: >kernels.ptx
: >stage0.c
: >expected

# ROW STEPS [PARTS]: the stage's program marks a step and launches its kernels.
step() {
  echo "  bd_rt_mark(rt, 1); // $2" >>stage0.c
  [ "${3:-1}" = 1 ] || echo "  for (int part = 0; part < $3; ++part)" >>stage0.c
  echo "    bd_rt_launch(rt, $count, 2, (char *[]){v0, v1}, 4, (int64_t[]){0, 8, 0, $1}, NULL);" >>stage0.c
}
# LOAD STORE [TOLD] [SHARED]: the next kernel, and in which of its ways it is told.
kernel() {
  printf '.visible .entry bdk_%s(\n' $count >>kernels.ptx
  [ -z "${4:-}" ] || printf '\t.shared .align 16 .b8 bdk_%s_%s[64];\n' $count "$4" >>kernels.ptx
  printf '\tld.global.%s %%r1, [%%rd1];\n\tst.global.u8 [%%rd2], %%r1;\n\tst.global.%s [%%rd2], %%r1;\n}\n' "$1" "$2" >>kernels.ptx
  for way in ${3:-}; do echo "$count $way" >>expected; done
  count=$((count + 1))
}

step 768 'add, gelu'
kernel v4.u32 v4.u32
step 768 'add, gelu'
kernel nc.v4.f32 f32 stores
step 768 'add, gelu'
kernel u16 v2.b64 loads
step 768 add
kernel v2.u32 v2.u32 'loads stores'
# Of any kind, rows that are few numbers or no multiple of 8; those that are cut are as long as the whole.
step 12 add
kernel u32 u32
step 30522 add
kernel u16 u16
echo 'static struct { int64_t start, count; } part0; // of 3072, axes 0x1' >>stage0.c
step part0.count 'contract, reduce_sum'
kernel f32 f32 'loads stores' sums
# Both ways, one of them, and of a step's kernels some.
step 768 permute
kernel u16 u16
step 768 broadcast
kernel u16 v4.u32
step 768 broadcast
kernel v4.u32 u16 stores
step 768 'constant, constant, select'
kernel u32 v4.u32
step 768 'constant, eq'
kernel v4.u32 u32
step 768 lse
kernel v4.u32 f32
step 768 lse
kernel u16 f32 loads
step 768 'lse, xent' 2
kernel v4.u32 f32 stores
kernel f32 f32
step 64 attention_grad 3
kernel v4.u32 f32
kernel v4.u32 f32 stores
kernel f32 v4.u32 loads
# A sum along a row makes a number, one over rows a row.
step 768 reduce_sum
kernel v4.u32 u16 '' warps
step 768 reduce_sum
kernel v4.u32 u16 stores sums

status=0
awk -v what=these -f "$here/narrow.awk" kernels.ptx stage0.c >told || status=$?
sed -E 's/these: kernel ([0-9]+) \(.*\) (loads|stores) [0-9]+ bytes at once/\1 \2/' told | sort >got
sort expected | diff - got || { echo 'expected is on the left'; exit 1; }
[ "$status" = 1 ] || { echo "status $status"; exit 1; }
