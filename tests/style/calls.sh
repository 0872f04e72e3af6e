#!/bin/sh
# Calls that the sources do without: unbounded copies, shells, memory taken past the arenas.
#   calls.sh ROOT
set -eu
cd "$1"
bad=0
# WHAT PATTERN FILE...
refuse() {
  what=$1
  pattern=$2
  shift 2
  if grep -nE "(^|[^A-Za-z0-9_>.])($pattern)[ ]*\(" "$@"; then
    echo "$what"
    bad=1
  fi
}
sources() { find "$@" \( -name '*.c' -o -name '*.h' \) | sort; }
refuse 'is never called' 'sprintf|vsprintf|strcpy|strcat|gets|strtok|system|popen|alloca' \
  $(sources ir frontend planner codegen runtime cli)
refuse 'takes memory that no arena owns' 'malloc|calloc|realloc|strdup|strndup|asprintf|posix_memalign|aligned_alloc' \
  $(sources ir frontend planner codegen cli | grep -v -e '^ir/base/' -e '^planner/solver/glpk' -e '^codegen/kernel/')
refuse 'ends the process from a library' 'exit|_exit|abort' \
  $(sources frontend planner codegen; sources ir | grep -v '^ir/base/')
refuse 'reads the environment in a library' 'getenv|secure_getenv' $(sources ir frontend planner codegen)
exit $bad
