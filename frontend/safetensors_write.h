// Writes safetensors files of f32 tensors piece by piece, so that their size is bounded by the
// disk.
#ifndef BD_FRONTEND_SAFETENSORS_WRITE_H
#define BD_FRONTEND_SAFETENSORS_WRITE_H
#include "frontend/safetensors.h"

// Fills `out` with elements `first` .. `first + count` of tensor `index`; false: nothing is to be
// written after all.
typedef bool (*bd_tensor_fill)(void *user, int index, int64_t first, int64_t count, float *out);

// Writes `count` tensors in the given order (of each, name, rank and dims are read). The file takes
// its place when it is whole. Errors: BD_INVALID and BD_EXTERNAL naming the path; the latter also,
// without a word, where `fill` wants no file: whoever wants none says why.
BD_NODISCARD bd_status bd_safetensors_write(bd_ctx *ctx, const char *path, int count,
                                            const bd_stored_tensor *tensors, bd_tensor_fill fill,
                                            void *user);
#endif
