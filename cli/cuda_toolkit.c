#include "cli/cuda_toolkit.h"
#include "ir/base/file.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char default_folder[] = "/usr/local/cuda";

static bool holds_compiler(bd_ctx *ctx, const char *folder) {
  return access(bd_path_join(ctx, folder, "bin/nvcc"), X_OK) == 0;
}

// The parent of a folder on PATH named bin that holds nvcc, links resolved; NULL when there is
// none.
static const char *find_on_path(bd_ctx *ctx) {
  const char *at = getenv("PATH");
  while (at && *at) {
    size_t length = strcspn(at, ":");
    const char *nvcc = bd_path_join(ctx, bd_intern(ctx, at, length), "nvcc");
    at += length + (at[length] == ':');
    if (length == 0 || access(nvcc, X_OK) != 0) continue;
    char *real = realpath(nvcc, NULL);
    const char *end = real ? strstr(real, "/bin/nvcc") : NULL;
    const char *folder = end ? bd_intern(ctx, real, (size_t)(end - real)) : NULL;
    free(real);
    if (folder) return folder;
  }
  return NULL;
}

bd_status bd_cuda_toolkit_find(bd_ctx *ctx, const char **out_folder) {
  const char *named = getenv("CUDA_HOME");
  if (named && *named) {
    *out_folder = bd_intern_z(ctx, named);
    if (holds_compiler(ctx, *out_folder)) return BD_OK;
    return bd_fail(ctx, BD_EXTERNAL, bd_loc_file(*out_folder),
                   "CUDA_HOME names a folder without bin/nvcc; install the CUDA toolkit there, or "
                   "stop at the sources with --emit c");
  }
  *out_folder = holds_compiler(ctx, default_folder) ? default_folder : find_on_path(ctx);
  if (*out_folder) return BD_OK;
  return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE,
                 "programs for GPUs are built with the CUDA toolkit, and there is no nvcc in %s or "
                 "on PATH; install it (and name its folder in CUDA_HOME), or stop at the sources "
                 "with --emit c",
                 default_folder);
}
