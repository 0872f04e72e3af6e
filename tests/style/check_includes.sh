#!/bin/sh
# The tree keeps to the architecture, and the check sees every kind of breach in a tree that does not.
#   check_includes.sh ROOT
set -eu
here=$(cd "$(dirname "$0")" && pwd)
sh "$here/includes.sh" "$1"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
breaches=0
# FILE INCLUDE: a breach.
breach() {
  mkdir -p "$work/bad/$(dirname "$1")"
  printf '#include %s\n' "$2" >>"$work/bad/$1"
  breaches=$((breaches + 1))
}
breach ir/base/a.c '"ir/module.h"'
breach ir/a.c '"planner/planner.h"'
breach ir/b.c '<glpk.h>'
breach ir/c.c '<cjson/cJSON.h>'
breach frontend/a.c '"codegen/codegen.h"'
breach frontend/hf/a.c '"cli/command.h"'
breach planner/a.c '"codegen/codegen.h"'
breach planner/b.c '"runtime/braid_rt_abi.h"'
breach planner/c.c '<llvm-c/Core.h>'
breach codegen/a.c '"planner/planner.h"'
breach codegen/kernel/a.c '"runtime/braid_rt.h"'
breach codegen/b.c '<mpi.h>'
breach cli/a.c '"runtime/cpu/rt.h"'
breach cli/b.c '<LLVM-c/Core.h>'
breach runtime/a.c '"ir/type.h"'
breach runtime/b.c '"runtime/cpu/rt.h"'
breach runtime/c.c '<cuda_runtime.h>'
breach runtime/cpu/a.c '"runtime/cuda/rt.h"'
breach runtime/cpu/b.c '<nccl.h>'
breach runtime/cuda/a.c '<cblas.h>'
breach runtime/d.c '<nvrtc.h>'
breach runtime/braid_rt_abi.h '<stdio.h>'
breach ir/d.h '"../base/text.h"'
breach ir/e.c '"ir/verify.c"'
breach ir/f.c '<boost/any.h>'
breach cli/c.c '<cublasLt.h>'
mkdir -p "$work/bad/tests" && printf '#include <cmocka.h>\n#  include "runtime/cpu/rt.h"\n' >"$work/bad/tests/good.c"
status=0
sh "$here/includes.sh" "$work/bad" >"$work/found" || status=$?
[ "$status" != 0 ] || { echo "the check passes a bad tree"; exit 1; }
found=$(($(wc -l <"$work/found") - 1))
[ "$found" = "$breaches" ] || { echo "$breaches breaches, $found found:"; cat "$work/found"; exit 1; }

mkdir -p "$work/empty"
! sh "$here/includes.sh" "$work/empty" >"$work/found" 2>&1 || { echo "the check passes an empty tree"; exit 1; }
