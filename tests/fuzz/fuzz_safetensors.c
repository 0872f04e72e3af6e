// Any bytes as a safetensors file: either refused with a diagnostic, or tiled by its tensors.
#include "frontend/safetensors.h"
#include "tests/fuzz/memory_file.h"
#include <stdlib.h>

typedef struct opening {
  const char *path;
  bd_safetensors file;
} opening;

static bd_status open_file(bd_ctx *ctx, void *argument) {
  opening *o = argument;
  return bd_safetensors_open(ctx, o->path, &o->file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  memory_file file;
  if (!memory_file_open(&file, data, size)) return 0;
  bd_ctx *ctx = bd_ctx_create();
  opening o = {.path = file.path};
  bd_status status = ctx ? bd_ctx_run(ctx, open_file, &o) : BD_EXHAUSTED;
  if (ctx && status != BD_OK && ctx->error_count != 1) abort();
  if (status == BD_OK) {
    size_t bytes = 0;
    for (int i = 0; i < o.file.count; ++i)
      bytes += o.file.tensors[i].end_bytes - o.file.tensors[i].begin_bytes;
    if (o.file.data + bytes != o.file.map.data + o.file.map.bytes) abort();
    bd_map_close(&o.file.map);
  }
  bd_ctx_destroy(ctx);
  memory_file_close(&file);
  return 0;
}
