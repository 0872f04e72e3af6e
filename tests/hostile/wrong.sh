#!/bin/sh
# The test of hostile names sees each kind of wrong braid.
#   wrong.sh BRAID HOSTILE FOLDER
set -eu
braid=$(realpath "$1") hostile=$(realpath "$2") folder=$(realpath "$3")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# WORDS PART COMMANDS: a braid that does as COMMANDS say after the real one (its status is $status, what it was
# asked for "$*") is refused with WORDS.
wrong() {
  printf '#!/bin/sh\nstatus=0\n"%s" "$@" || status=$?\n%s\nexit $status\n' "$braid" "$3" >wrong-braid
  chmod +x wrong-braid
  ! TMPDIR=$work "$hostile" wrong-braid "$folder" "$2" >log 2>&1 || { echo "not seen: $3"; exit 1; }
  grep -q "$1" log || { echo "no '$1' for $3: $(cat log)"; exit 1; }
  [ -z "$(find . -name 'hostile.*')" ] || { echo "a folder is left for $3"; exit 1; }
}
wrong 'status 3' clusters '[ $status = 0 ] || status=3'
wrong 'not one diagnostic' clusters 'echo "error: more" >&2'
wrong 'not one diagnostic' clusters '[ ! -e ../../second ] || status=1; : >../../second'
wrong 'prints a control character' clusters "printf '\\033[2J' >&2"
wrong 'prints a control character' clusters "printf '\\302\\233'"
wrong 'prints a control character' clusters "printf '\\342\\200\\256'"
wrong 'prints what is not UTF-8' clusters "printf '\\377'"
wrong 'leaves a file: out' clusters '[ $status = 0 ] || : >out'
wrong 'leaves a file: out.tmp' clusters ': >out.tmp'
wrong 'something ran' clusters ': >../../pwned'
wrong 'by a signal' clusters 'kill -9 $$'
# Emitted sources that are not what they should be.
wrong 'outside of strings' graphs 'case $* in *"--emit c"*) echo "int pwned;" >>out/main.c ;; esac'
wrong 'outside of strings' graphs 'case $* in *"--emit c"*) echo "char *s = \"x\\\\\\\\\"; pwned(\"\");" >>out/main.c ;; esac'
wrong 'a trigraph' graphs 'case $* in *"--emit c"*) echo "// ?""?/" >>out/stage0.c ;; esac'
wrong 'unprintable source' graphs "case \$* in *'--emit c'*) printf '// \\302\\205\\n' >>out/main.c ;; esac"
wrong 'does not compile' graphs 'case $* in *"--emit c"*) echo "}" >>out/stage0.c ;; esac'
