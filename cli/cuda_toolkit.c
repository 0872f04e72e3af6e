#include "cli/cuda_toolkit.h"
#include "ir/base/file.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char default_folder[] = "/usr/local/cuda";

// What programs are built with; the first is what a toolkit is known by.
static const char *const parts[] = {"bin/ptxas", "bin/fatbinary", "include/nvrtc.h",
                                    "include/cuda_runtime_api.h"};
enum { PARTS = sizeof parts / sizeof *parts };

// The first part that a folder is without, or NULL.
static const char *find_lack(bd_ctx *ctx, const char *folder) {
  for (int i = 0; i < PARTS; i++) {
    const int kind = strncmp(parts[i], "bin/", 4) == 0 ? X_OK : R_OK;
    if (access(bd_path_join(ctx, folder, parts[i]), kind) != 0) return parts[i];
  }
  return NULL;
}

// The next folder on PATH named bin that holds ptxas, links resolved: its parent; NULL when there
// is none.
static const char *find_on_path(bd_ctx *ctx, const char **at) {
  while (*at && **at) {
    size_t length = strcspn(*at, ":");
    const char *ptxas = bd_path_join(ctx, bd_intern(ctx, *at, length), "ptxas");
    *at += length + ((*at)[length] == ':');
    if (length == 0 || access(ptxas, X_OK) != 0) continue;
    char *real = realpath(ptxas, NULL);
    const char *end = real ? strstr(real, "/bin/ptxas") : NULL;
    const char *folder = end ? bd_intern(ctx, real, (size_t)(end - real)) : NULL;
    free(real);
    if (folder) return folder;
  }
  return NULL;
}

bd_status bd_cuda_toolkit_find(bd_ctx *ctx, const char **out_folder) {
  const char *named = getenv("CUDA_HOME"), *path = getenv("PATH"), *lacking = NULL;
  const char *folder = named && *named ? bd_intern_z(ctx, named) : default_folder;
  const char *lack;
  for (; folder && (lack = find_lack(ctx, folder)); folder = find_on_path(ctx, &path)) {
    if (named && *named)
      return bd_fail(ctx, BD_EXTERNAL, bd_loc_file(folder),
                     "CUDA_HOME names a folder without %s; install the CUDA toolkit there, or stop "
                     "at the sources with --emit c",
                     lack);
    if (!lacking && lack != parts[0]) lacking = bd_path_join(ctx, folder, lack);
  }
  *out_folder = folder;
  if (folder) return BD_OK;
  if (lacking)
    return bd_fail(ctx, BD_EXTERNAL, bd_loc_file(lacking),
                   "the CUDA toolkit is without this file; install all of it (or name another's "
                   "folder in CUDA_HOME), or stop at the sources with --emit c");
  return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE,
                 "programs for GPUs are built with the CUDA toolkit, and there is no ptxas in "
                 "%s/bin or on PATH; install it (and name its folder in CUDA_HOME), or stop at the "
                 "sources with --emit c",
                 default_folder);
}
