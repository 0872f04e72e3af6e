// Any bytes as an ONNX model: refused with one diagnostic, or a graph that verifies, within stated
// memory. Its external data lies in a folder with one file.
#include "frontend/onnx/lower.h"
#include "frontend/onnx/summary.h"
#include "ir/print.h"
#include <stdlib.h>
#include <unistd.h>

enum { MOST_BYTES = 768 << 20 };
static char folder[] = "/tmp/braid_fuzz_XXXXXX";

static void remove_folder(void) {
  char path[sizeof folder + 16];
  snprintf(path, sizeof path, "%s/data.bin", folder);
  unlink(path);
  rmdir(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc, (void)argv;
  char path[sizeof folder + 16];
  if (!mkdtemp(folder)) abort();
  snprintf(path, sizeof path, "%s/data.bin", folder);
  FILE *file = fopen(path, "w");
  if (!file || fwrite(path, 1, sizeof path, file) != sizeof path || fclose(file) != 0) abort();
  atexit(remove_folder);
  return 0;
}

typedef struct input {
  const uint8_t *data;
  size_t size;
} input;

static bd_status import(bd_ctx *ctx, void *argument) {
  const input *in = argument;
  const bd_onnx_options options = {.sequence = 5};
  bd_onnx_model model;
  bd_onnx_fact *facts;
  bd_text text = bd_text_init(ctx->arena);
  BD_TRY(bd_onnx_read(ctx, "fuzz.onnx", folder, (bd_onnx_bytes){in->data, in->size}, &model));
  BD_TRY(bd_onnx_infer(ctx, &model, &options, &facts));
  bd_onnx_summarize(ctx, &model, facts, &text);
  bd_module *graph;
  BD_TRY(bd_onnx_lower(ctx, &model, facts, BD_ONNX_LOSS_CROSS_ENTROPY, &graph));
  if (bd_module_verify(ctx, graph) != BD_OK) abort();
  return BD_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  input in = {data, size};
  bd_ctx *ctx = bd_ctx_create();
  if (!ctx) return 0;
  if (bd_ctx_run(ctx, import, &in) != BD_OK && ctx->error_count != 1) abort();
  if (bd_arena_used_bytes(ctx->arena) > MOST_BYTES) abort();
  bd_ctx_destroy(ctx);
  return 0;
}
