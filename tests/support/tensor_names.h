// safetensors files with other names, for tests of what names do.
#ifndef BD_TESTS_SUPPORT_TENSOR_NAMES_H
#define BD_TESTS_SUPPORT_TENSOR_NAMES_H
#include "ir/base/context.h"

// Writes the tensors of `from` (f32) to `to`. Those whose names begin with `before` are written for
// each of the `count` words of `now`, with which their names begin instead. Errors: BD_INVALID,
// BD_EXTERNAL.
BD_NODISCARD bd_status bd_tensor_names_change(bd_ctx *ctx, const char *from, const char *to,
                                              const char *before, int count,
                                              const char *const *now);
#endif
