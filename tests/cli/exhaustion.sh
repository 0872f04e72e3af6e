#!/bin/sh
# Memory runs out at one allocation of a whole compilation, at each of a fixed sample of them: one
# diagnostic, exit status 5, and no file or folder is left. Sanitizers, where built in, see leaks.
#   exhaustion.sh BRAID-THAT-EXHAUSTS [POINTS]
set -eu
braid=$(realpath "$1")
points=${2:-48}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() {
  echo "exhaustion.sh: $*" >&2
  exit 1
}
mkdir bin results
# The C compiler is not what is tested: what it would write is enough for make.
cat >bin/mpicc <<'END'
#!/bin/sh
while [ "$1" != -o ]; do shift; done
: >"$2"
END
chmod +x bin/mpicc
compile() {
  PATH=$work/bin:$PATH "$braid" compile gpt2-tiny --cluster cpu:1x2 --seq 16 --global-batch 4 --stages 1 --mesh 2 \
    --schedule 1f1b --micro-batch 4 -o results/out
}

BRAID_EXHAUST_COUNT=$work/counts compile || fail "it does not compile with memory to spare"
rm -rf results/out

# KIND NUMBER
check() {
  status=0
  BRAID_EXHAUST=$1:$2 compile >log 2>&1 || status=$?
  [ "$status" = 5 ] || fail "$1 allocation $2 of $3 ends in status $status: $(cat log)"
  # Without memory for a context nothing can be said.
  said=$(grep -c . log || true)
  [ "$said" = 1 ] || { [ "$said" = 0 ] && [ "$1" = heap ] && [ "$2" -le 8 ]; } ||
    fail "$1 allocation $2 of $3 says: $(cat log)"
  [ "$said" = 0 ] || grep -q '^error: out of memory' log || fail "$1 allocation $2 of $3 says: $(cat log)"
  left=$(ls -A results)
  [ -z "$left" ] || fail "$1 allocation $2 of $3 leaves $left"
  checked=$((checked + 1))
}

checked=0
for kind in heap arena; do
  total=$(awk -v kind=$kind '$1 == kind { print $2 }' counts)
  [ "$total" -gt 10 ] || fail "only $total $kind allocations: they are not seen"
  # The first ones, then ever wider steps, then the last ones: half of the points are beyond a sixteenth of the way.
  for number in $(awk -v total="$total" -v points="$points" 'BEGIN {
    for (i = 0; i < points; i++) {
      share = i / (points - 1)
      n = 1 + int((total - 1) * share ^ 4 + 0.5)
      if (!(n in seen)) print n
      seen[n] = 1
    }
    for (i = 1; i < 4; i++) if (!((total - i * 7) in seen) && total > 30) print total - i * 7
  }'); do
    check $kind "$number" "$total"
  done
done
echo "$checked allocations failed, one at a time"
