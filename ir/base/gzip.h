// Inflation of gzip files (RFC 1952) with a bound on what comes out. Confines zlib.
#ifndef BD_IR_BASE_GZIP_H
#define BD_IR_BASE_GZIP_H
#include "ir/base/context.h"

// Whether the bytes begin as a gzip file does.
bool bd_gzip_recognize(const char *data, size_t bytes);

// Inflates all members of a gzip file into ctx->arena, with a NUL after the last byte. The size is
// measured by a first pass that stores nothing, so a file that would exceed `max_bytes` costs no
// memory. `file` is for diagnostics.
// Errors: BD_INVALID when the file is damaged, cut short, followed by other bytes, or too large.
BD_NODISCARD bd_status bd_gzip_inflate(bd_ctx *ctx, const char *file, const char *data,
                                       size_t bytes, size_t max_bytes, char **out_data,
                                       size_t *out_bytes);
#endif
