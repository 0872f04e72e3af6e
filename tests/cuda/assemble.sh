# For scripts that assemble the kernels of an emitted program: assemble NAME ARCHITECTURES, where its folder is out and
# `here` and `ptxas` are set. Kernels that differ in nothing but their numbers are assembled once.
assemble() {
  assembled=0
  awk -f "$here/attention_kernels.awk" out/stage*.c >attention
  awk -f "$here/unlike.awk" out/kernels.ptx >unlike.ptx
  for arch in $2; do
    "$ptxas" -arch="sm_$arch" --warn-on-spills -o cubin unlike.ptx 2>log || { cat log; exit 1; }
    awk -v what="$1, sm_$arch" -f "$here/spills.awk" attention log || assembled=1
  done
  return "$assembled"
}
