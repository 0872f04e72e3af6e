#include "cli/build_log.h"
#include "cli/temporary.h"
#include "ir/base/file.h"
#include <string.h>

typedef struct line {
  const char *text;
  size_t length;
} line;

static bool contains(line in, const char *word) {
  return memmem(in.text, in.length, word, strlen(word)) != NULL;
}

#define FULL "No space left on device"

// What a line of the log says when it holds `word`; earlier rows win.
static const struct {
  const char *word, *tool, *hint;
} complaints[] = {
    {"mpicc: No such file", "mpicc",
     "install an MPI compiler (Debian: libopenmpi-dev openmpi-bin)"},
    {"mpicc: not found", "mpicc", "install an MPI compiler (Debian: libopenmpi-dev openmpi-bin)"},
    {"mpicc: command not found", "mpicc",
     "install an MPI compiler (Debian: libopenmpi-dev openmpi-bin)"},
    {"cc: No such file", "cc", "install a C compiler (Debian: build-essential)"},
    {"cc: not found", "cc", "install a C compiler (Debian: build-essential)"},
    {"unable to find the specified compiler", "mpicc",
     "install the C compiler that mpicc wraps (Debian: gcc), or name another in OMPI_CC"},
    {"ptxas: No such file", "ptxas", "install the CUDA toolkit, and name its folder in CUDA_HOME"},
    {"ptxas: not found", "ptxas", "install the CUDA toolkit, and name its folder in CUDA_HOME"},
    {"fatbinary: No such file", "fatbinary",
     "install the CUDA toolkit, and name its folder in CUDA_HOME"},
    {"fatbinary: not found", "fatbinary",
     "install the CUDA toolkit, and name its folder in CUDA_HOME"},
    {"cuda_runtime_api.h: No such file", "the C compiler",
     "install the CUDA toolkit, and name its folder in CUDA_HOME"},
    {"nvrtc.h: No such file", "the C compiler",
     "install the CUDA toolkit with NVRTC, and name its folder in CUDA_HOME"},
    {"nccl.h: No such file", "the C compiler", "install NCCL (Debian: libnccl-dev)"},
    {"cblas.h: No such file", "mpicc", "install OpenBLAS (Debian: libopenblas-dev)"},
    {"cannot find -lopenblas", "the linker", "install OpenBLAS (Debian: libopenblas-dev)"},
    {"dnnl.h: No such file", "mpicc", "install oneDNN (Debian: libdnnl-dev)"},
    {"cannot find -ldnnl", "the linker", "install oneDNN (Debian: libdnnl-dev)"},
    {"cannot find -lnccl", "the linker", "install NCCL (Debian: libnccl-dev)"},
    {"cannot find -lcublasLt", "the linker", "install the CUDA toolkit's libraries"},
    {"cannot find -lnvrtc", "the linker", "install the CUDA toolkit's libraries, NVRTC among them"},
    {"cannot find -l", "the linker", "install the library that it names"},
    {FULL, "the C compiler", "the output folder's disk is full"},
    {"ptxas fatal", "ptxas", NULL},
    {"ptxas error", "ptxas", NULL},
    {"fatbinary fatal", "fatbinary", NULL},
    {"nvrtc: error: failed to open", "NVRTC", "install the CUDA toolkit's libraries"},
    {"compile_kernels: error: ", "NVRTC", NULL},
    {"undefined reference to", "the linker", NULL},
    {"fatal error:", "the C compiler", NULL},
    {" error:", "the C compiler", NULL},
    {"Error: ", "the assembler", NULL},
    {": No such file or directory", "make", "install the tool that is missing"},
    {": not found", "make", "install the tool that is missing"},
    {"Error ", "make", NULL},
};
enum { COMPLAINTS = sizeof complaints / sizeof complaints[0] };

static bool next_line(const char **at, const char *end, line *out) {
  if (*at == end) return false;
  const char *stop = memchr(*at, '\n', (size_t)(end - *at));
  *out = (line){*at, (size_t)((stop ? stop : end) - *at)};
  *at = stop ? stop + 1 : end;
  return true;
}

// Tools name files of the output folder from there on, and temporary ones by their whole path.
static bool is_of_temporary(bd_ctx *ctx, line in) {
  return contains(in, FULL) && contains(in, bd_path_join(ctx, bd_temporary_folder(), ""));
}

static const char *find_hint(bd_ctx *ctx, line in, int complaint) {
  if (!is_of_temporary(ctx, in)) return complaints[complaint].hint;
  return bd_intern_f(ctx, "the folder of temporary files, %s, is full; set TMPDIR to another",
                     bd_temporary_folder());
}

bd_build_failure bd_build_log_read(bd_ctx *ctx, const char *log, size_t bytes) {
  const char *end = log + bytes;
  line each, best = {"its output is empty", 19};
  int found = COMPLAINTS;
  for (const char *at = log; next_line(&at, end, &each);)
    for (int i = 0; i < found; i++)
      if (contains(each, complaints[i].word)) {
        found = i;
        best = each;
      }
  if (found < COMPLAINTS)
    return (bd_build_failure){complaints[found].tool, bd_intern(ctx, best.text, best.length),
                              find_hint(ctx, best, found)};
  for (const char *at = log; next_line(&at, end, &each);)
    if (each.length > 0) best = each;
  return (bd_build_failure){"make", bd_intern(ctx, best.text, best.length), NULL};
}
