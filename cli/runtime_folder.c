#include "cli/runtime_folder.h"
#include "ir/base/file.h"
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

static bool holds_runtime(bd_ctx *ctx, const char *folder) {
  return bd_file_exists(bd_path_join(ctx, folder, "braid_rt_abi.h"));
}

// PREFIX/share/braid/runtime for an executable PREFIX/bin/braid, or NULL.
static const char *installed_folder(bd_ctx *ctx) {
  char path[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0 || length == (ssize_t)sizeof path) return NULL;
  for (int names = 0; names < 2; names++) {
    while (length > 0 && path[length - 1] != '/')
      --length;
    if (length == 0) return NULL;
    --length;
  }
  return bd_path_join(ctx, bd_intern(ctx, path, (size_t)length), "share/braid/runtime");
}

bd_status bd_runtime_folder(bd_ctx *ctx, const char **out_folder) {
  const char *named = getenv("BRAID_RUNTIME");
  if (named && *named) {
    *out_folder = bd_intern_z(ctx, named);
    if (holds_runtime(ctx, named)) return BD_OK;
    return bd_fail(ctx, BD_INVALID, bd_loc_file(named),
                   "BRAID_RUNTIME names a folder without the runtime's sources");
  }
  const char *installed = installed_folder(ctx);
  *out_folder = installed && holds_runtime(ctx, installed) ? installed : BRAID_RUNTIME_FOLDER;
  if (holds_runtime(ctx, *out_folder)) return BD_OK;
  return bd_fail(ctx, BD_EXTERNAL, bd_loc_file(installed),
                 "the runtime's sources are not there; name their folder in BRAID_RUNTIME");
}
