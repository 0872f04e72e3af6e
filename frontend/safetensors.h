// safetensors files, read strictly and written canonically.
#ifndef BD_FRONTEND_SAFETENSORS_H
#define BD_FRONTEND_SAFETENSORS_H
#include "ir/base/file.h"
#include "ir/type.h"

typedef struct bd_stored_tensor {
  const char *name;
  const char *dtype; // as written in the file: "F32"
  int rank;
  int64_t dims[BD_MAX_RANK];
  size_t begin_bytes, end_bytes; // within the data section
} bd_stored_tensor;

typedef struct bd_safetensors {
  bd_map map;                // the caller closes it
  const unsigned char *data; // the data section
  int count;
  bd_stored_tensor *tensors; // by name
} bd_safetensors;

// Checks everything reference implementations check: header bounds, dtypes, sizes, no holes, no
// overlap, no duplicate names, exact file size. Errors: BD_INVALID naming file and tensor.
BD_NODISCARD bd_status bd_safetensors_open(bd_ctx *ctx, const char *path, bd_safetensors *out_file);
const bd_stored_tensor *bd_safetensors_find(const bd_safetensors *file, const char *name);
#endif
