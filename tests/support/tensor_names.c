#include "tests/support/tensor_names.h"

#include "frontend/safetensors_write.h"
#include <string.h>

typedef struct copying {
  const bd_safetensors *file;
  const bd_stored_tensor **sources; // of what is written
} copying;

static bool copy_piece(void *user, int index, int64_t first, int64_t count, float *out) {
  const copying *c = user;
  memcpy(out, c->file->data + c->sources[index]->begin_bytes + (size_t)first * sizeof *out,
         (size_t)count * sizeof *out);
  return true;
}

bd_status bd_tensor_names_change(bd_ctx *ctx, const char *from, const char *to, const char *before,
                                 int count, const char *const *now) {
  bd_safetensors file;
  BD_TRY(bd_safetensors_open(ctx, from, &file));
  bd_status status = BD_OK;
  const size_t length = strlen(before);
  const int64_t most = (int64_t)count * file.count;
  bd_stored_tensor *tensors = BD_NEW_ARRAY(ctx->arena, bd_stored_tensor, most);
  copying c = {&file, BD_NEW_ARRAY(ctx->arena, const bd_stored_tensor *, most)};
  int total = 0;
  for (int word = 0; word < count; word++)
    for (int i = 0; i < file.count; i++) {
      const char *name = file.tensors[i].name;
      const bool begins = strncmp(name, before, length) == 0;
      if (word > 0 && !begins) continue;
      c.sources[total] = &file.tensors[i];
      tensors[total] = file.tensors[i];
      if (begins) tensors[total].name = bd_intern_f(ctx, "%s%s", now[word], name + length);
      if (strcmp(tensors[total].dtype, "F32"))
        status = bd_fail(ctx, BD_INVALID, bd_loc_file(from), "tensor '%s' is not F32", name);
      total++;
    }
  if (status == BD_OK) status = bd_safetensors_write(ctx, to, total, tensors, copy_piece, &c);
  bd_map_close(&file.map);
  return status;
}
