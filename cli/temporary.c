#include "cli/temporary.h"
#include "cli/stop.h"
#include "ir/base/file.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

const char *bd_temporary_folder(void) {
  const char *named = getenv("TMPDIR");
  return named && *named ? named : "/tmp";
}

bd_status bd_temporary_make(bd_ctx *ctx, const char *what, const char **out_path) {
  const char *above = bd_temporary_folder();
  const char *pattern = bd_path_join(ctx, above, bd_intern_f(ctx, "braid-%s-XXXXXX", what));
  char *made = bd_arena_copy(ctx->arena, pattern, strlen(pattern) + 1, 1);
  *out_path = made;
  if (mkdtemp(made)) return BD_OK;
  return bd_fail(ctx, BD_EXTERNAL, bd_loc_file(above),
                 "cannot make a temporary folder there: %s; set TMPDIR to a folder that can be "
                 "written",
                 strerror(errno));
}

bd_status bd_temporary_check(bd_ctx *ctx, const char *user, int64_t bytes) {
  const char *folder = bd_temporary_folder(), *trial;
  struct statvfs about;
  sigset_t mask;
  bd_stop_hold(&mask);
  bd_status status = bd_temporary_make(ctx, "trial", &trial);
  bool known = status == BD_OK && statvfs(trial, &about) == 0;
  if (status == BD_OK) rmdir(trial);
  bd_stop_release(&mask);
  BD_TRY(status);
  int64_t free_bytes = known ? (int64_t)(about.f_bavail * about.f_frsize) : bytes;
  if (free_bytes >= bytes) return BD_OK;
  return bd_fail(ctx, BD_EXTERNAL, bd_loc_file(folder),
                 "the folder of temporary files has %lld KiB free, of %lld that %s needs; make "
                 "room there, or set TMPDIR to another folder",
                 (long long)free_bytes >> 10, (long long)bytes >> 10, user);
}
