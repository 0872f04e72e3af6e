#!/bin/sh
# An interrupt while `braid import --check` compares results ends it with a word and leaves nothing.
#   check_stop.sh BRAID MAKE_ONNX
set -eu
braid=$(realpath "$1")
make_onnx=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
  echo "check_stop.sh: $*" >&2
  exit 1
}

# What precedes the comparisons of so many outputs fits in the buffer of a stream (4096 bytes), and they do not.
awk 'BEGIN {
    print "ir_version: 8 opset_import { version: 17 }\ngraph {"
    print "  input { name: \"x\" type { tensor_type { elem_type: FLOAT shape { dim { dim_param: \"N\" } dim { dim_value: 3 } } } } }"
    name = "x"
    for (i = 0; i < 80; i++) {
      next_name = "y" i
      printf "  node { op_type: \"Neg\" input: \"%s\" output: \"%s\" }\n  output { name: \"%s\" }\n", name, next_name, next_name
      name = next_name
    }
    print "}"
  }' >model.txt
"$make_onnx" model.txt model.onnx

# The program tells who it is, so that its end is seen.
mkdir bin temporary
cat >bin/mpicc <<END
#!/bin/sh
PATH=$PATH
mpicc "\$@" || exit
for word; do
  [ "\$word" = evaluate ] || continue
  mv evaluate evaluated
  printf '#!/bin/sh\necho \$\$ >$work/child\nexec "\${0%%/*}/evaluated" "\$@"\n' >evaluate
  chmod +x evaluate
done
END
chmod +x bin/mpicc

# A full pipe halts braid at the first word that it writes, which is one of a comparison.
mkfifo pipe
exec 3<>pipe
exec 4<pipe
dd if=/dev/zero of=pipe oflag=nonblock bs=4096 count=4096 2>/dev/null && fail "the pipe has no end"
TMPDIR=$work/temporary PATH=$work/bin:$PATH env --default-signal=INT "$braid" import model.onnx --check >pipe 2>log 3<&- 4<&- &
pid=$!
exec 3<&-
tries=6000
until [ -s child ] && ! kill -0 "$(cat child)" 2>/dev/null; do
  kill -0 "$pid" 2>/dev/null || fail "braid ended by itself: $(cat log)"
  tries=$((tries - 1))
  [ "$tries" -gt 0 ] || fail "the model is not run: $(cat log)"
  sleep 0.01
done
kill -INT "$pid"
tr -d '\0' <&4 >page
status=0
wait "$pid" || status=$?
[ "$status" = 130 ] || fail "a stopped comparison ends in status $status: $(cat log page)"
[ "$(cat log)" = "model.onnx: error: comparing the results was stopped by an interrupt" ] || fail "it says: $(cat log)"
[ -z "$(ls temporary)" ] || fail "it leaves $(ls temporary)"
