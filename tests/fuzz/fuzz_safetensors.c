// Any bytes as a safetensors file: either refused with a diagnostic, or tiled by its tensors.
#include "frontend/safetensors.h"
#include <stdlib.h>
#include <unistd.h>

typedef struct opening {
  const char *path;
  bd_safetensors file;
} opening;

static bd_status open_file(bd_ctx *ctx, void *argument) {
  opening *o = argument;
  return bd_safetensors_open(ctx, o->path, &o->file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[] = "/tmp/braid_fuzz_XXXXXX";
  int file = mkstemp(path);
  if (file < 0) return 0;
  bool written = write(file, data, size) == (ssize_t)size;
  close(file);
  bd_ctx *ctx = bd_ctx_create();
  opening o = {.path = path};
  if (written && ctx && bd_ctx_run(ctx, open_file, &o) == BD_OK) {
    size_t bytes = 0;
    for (int i = 0; i < o.file.count; ++i)
      bytes += o.file.tensors[i].end_bytes - o.file.tensors[i].begin_bytes;
    if (o.file.data + bytes != o.file.map.data + o.file.map.bytes) abort();
    bd_map_close(&o.file.map);
  }
  bd_ctx_destroy(ctx);
  unlink(path);
  return 0;
}
