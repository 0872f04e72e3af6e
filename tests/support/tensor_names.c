#include "tests/support/tensor_names.h"

#include "frontend/safetensors_write.h"
#include <string.h>

static bool copy_piece(void *user, int index, int64_t first, int64_t count, float *out) {
  const bd_safetensors *file = user;
  const bd_stored_tensor *tensor = &file->tensors[index % file->count];
  memcpy(out, file->data + tensor->begin_bytes + (size_t)first * sizeof *out,
         (size_t)count * sizeof *out);
  return true;
}

bd_status bd_tensor_names_change(bd_ctx *ctx, const char *from, const char *to, const char *before,
                                 int count, const char *const *now) {
  bd_safetensors file;
  BD_TRY(bd_safetensors_open(ctx, from, &file));
  bd_status status = BD_OK;
  const int total = count * file.count;
  bd_stored_tensor *tensors = BD_NEW_ARRAY(ctx->arena, bd_stored_tensor, total);
  for (int i = 0; i < total; i++) {
    tensors[i] = file.tensors[i % file.count];
    const char *name = tensors[i].name;
    if (strncmp(name, before, strlen(before)) == 0)
      tensors[i].name = bd_intern_f(ctx, "%s%s", now[i / file.count], name + strlen(before));
    if (strcmp(tensors[i].dtype, "F32"))
      status = bd_fail(ctx, BD_INVALID, bd_loc_file(from), "tensor '%s' is not F32", name);
  }
  if (status == BD_OK) status = bd_safetensors_write(ctx, to, total, tensors, copy_piece, &file);
  bd_map_close(&file.map);
  return status;
}
