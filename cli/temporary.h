// Temporary files: in the folder TMPDIR, or /tmp.
#ifndef BD_CLI_TEMPORARY_H
#define BD_CLI_TEMPORARY_H
#include "ir/base/context.h"

const char *bd_temporary_folder(void);
// Makes an empty folder in it for work on the way; the caller removes it. Errors: BD_EXTERNAL.
BD_NODISCARD bd_status bd_temporary_make(bd_ctx *ctx, const char *what, const char **out_path);
// Whether folders can be made in it and `bytes`, which `user` needs, are free. Errors: BD_EXTERNAL.
BD_NODISCARD bd_status bd_temporary_check(bd_ctx *ctx, const char *user, int64_t bytes);
#endif
