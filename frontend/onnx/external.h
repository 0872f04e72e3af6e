// The one way to data that lies outside of a model's file: beneath the model's folder, through no
// link of any kind, and only where the file holds every byte that is asked for.
#ifndef BD_FRONTEND_ONNX_EXTERNAL_H
#define BD_FRONTEND_ONNX_EXTERNAL_H
#include "ir/base/context.h"

// Opens `location`, a relative path, beneath `folder` (openat2 with RESOLVE_BENEATH and
// RESOLVE_NO_SYMLINKS; where the kernel has no openat2, part by part, none of which may be a link).
// Regular files with one name only. `path` and `name`, the model and its tensor, are for
// diagnostics. The caller closes the descriptor. Errors: BD_INVALID, BD_EXTERNAL.
BD_NODISCARD bd_status bd_onnx_external_open(bd_ctx *ctx, const char *path, const char *name,
                                             const char *folder, const char *location,
                                             int *out_file, int64_t *out_bytes);

// Reads `bytes` at `offset` of such a file into `out`.
BD_NODISCARD bd_status bd_onnx_external_read(bd_ctx *ctx, const char *path, const char *name,
                                             const char *folder, const char *location,
                                             int64_t offset, size_t bytes, void *out);
#endif
