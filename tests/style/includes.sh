#!/bin/sh
# Holds every #include of a tree to the architecture: who may include whom (docs/architecture.md), and
# which folder alone may know a foreign library. Prints what breaks it; the exit status is not 0 then.
#   includes.sh ROOT
set -eu
cd "$1"
find ir frontend planner codegen runtime cli tests \( -name '*.c' -o -name '*.h' -o -name '*.def' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' \) \
  2>/dev/null | sort | xargs awk '
  BEGIN {
    # Folder: what it may include besides its own files. The longest matching folder counts.
    may["ir/base"] = ""
    may["ir"] = "ir/base/"
    may["frontend"] = "ir/"
    may["planner"] = "ir/"
    may["codegen"] = "ir/ runtime/braid_rt_abi.h"
    may["runtime"] = ""
    may["runtime/cpu"] = "runtime/"
    may["runtime/checkpoint"] = "runtime/"
    may["runtime/cuda"] = "runtime/"
    may["cli"] = "ir/ frontend/ planner/ codegen/ runtime/braid_rt_abi.h"
    may["tests"] = "ir/ frontend/ planner/ codegen/ runtime/"
    may["tests/unit/cli"] = "ir/ frontend/ planner/ codegen/ cli/ tests/"
    # Files of a folder that the others of it may not know.
    hidden["ir/base"] = ""
    hidden["ir"] = ""
    hidden["runtime"] = "runtime/cpu/ runtime/cuda/"
    hidden["runtime/cpu"] = "runtime/cuda/"
    hidden["runtime/checkpoint"] = "runtime/cpu/ runtime/cuda/"
    hidden["runtime/cuda"] = "runtime/cpu/"
    # Foreign headers, by how they begin: the folders that may know them.
    confined["cjson/"] = "ir/base/"
    confined["glpk"] = "planner/"
    confined["coin/"] = "planner/"
    confined["zlib"] = "ir/base/"
    confined["llvm"] = "codegen/"
    confined["mpi"] = "runtime/cpu/"
    confined["cblas"] = "runtime/cpu/"
    confined["openblas"] = "runtime/cpu/"
    confined["f77blas"] = "runtime/cpu/"
    confined["dnnl"] = "runtime/cpu/"
    confined["omp.h"] = "runtime/cpu/"
    confined["cuda"] = "runtime/cuda/"
    confined["cublas"] = "runtime/cuda/"
    confined["cudnn"] = "runtime/cuda/"
    confined["nccl"] = "runtime/cuda/"
    confined["nvrtc"] = "runtime/cuda/"
    confined["nvml"] = "runtime/cuda/"
    confined["nvtx3/"] = "runtime/cuda/"
    confined["immintrin.h"] = "runtime/"
    confined["cpuid.h"] = "runtime/"
    confined["sanitizer/"] = "ir/base/"
    confined["cmocka"] = "tests/"
    split("assert ctype dirent dlfcn errno fcntl fenv float ftw glob inttypes limits locale malloc math netdb poll pthread" \
          " sched semaphore setjmp signal spawn stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib" \
          " stdnoreturn string strings termios time unistd wchar", names, " ")
    for (i in names) library[names[i] ".h"] = 1
    split("tuple type_traits utility", names, " ")
    for (i in names) confined[names[i]] = "tests/device/" # C++ in place of device code
  }
  function starts(text, list,   words, n, i) {
    n = split(list, words, " ")
    for (i = 1; i <= n; i++) if (index(text, words[i]) == 1) return 1
    return 0
  }
  function complain(why) {
    printf "%s:%d: %s: %s\n", FILENAME, FNR, $0, why
    bad++
  }
  function folder_of(path,   folder) {
    folder = path
    while (sub(/\/[^\/]*$/, "", folder)) if (folder in may) return folder
    return ""
  }
  FNR == 1 { files++; folder = folder_of(FILENAME) }
  !/^[ \t]*#[ \t]*include/ { next }
  {
    name = $0
    sub(/^[ \t]*#[ \t]*include[ \t]*/, "", name)
    quote = substr(name, 1, 1)
    name = substr(name, 2)
    sub(/[">].*/, "", name)
    seen++
    if (quote != "\"" && quote != "<") { complain("names no file"); next }
    if (FILENAME == "runtime/braid_rt_abi.h" && name != "stdint.h") { complain("the contract depends on nothing"); next }
  }
  quote == "\"" {
    if (name ~ /\.c$/) complain("a source file is included")
    if (name ~ /(^|\/)\.\.?\//) complain("a path is not from the root")
    else if (index(name, folder "/") == 1 && !starts(name, hidden[folder])) next
    else if (!starts(name, may[folder]) || starts(name, hidden[folder])) complain(folder " may not include it")
    next
  }
  {
    for (prefix in confined)
      if (index(tolower(name), prefix) == 1) {
        if (!starts(FILENAME, confined[prefix] " tests/")) complain("only " confined[prefix] " may know it")
        next
      }
    if (!(name in library) && name !~ /^(sys|linux|arpa|netinet)\//) complain("an unknown library")
  }
  END {
    if (seen == 0) { print "nothing was found to check"; exit 1 }
    printf "%d includes in %d files, %d against the architecture\n", seen, files, bad
    exit bad > 0
  }'
