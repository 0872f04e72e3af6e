// Any bytes as the config.json of a Hugging Face folder: refused with one diagnostic, or a module
// that verifies, within stated memory.
#include "frontend/hf/hf.h"
#include "ir/base/file.h"
#include "ir/print.h"
#include <stdlib.h>
#include <unistd.h>

enum { MOST_BYTES = 128 << 20 };
static char folder[] = "/tmp/braid_fuzz_XXXXXX";

static void remove_folder(void) {
  char path[sizeof folder + 16];
  snprintf(path, sizeof path, "%s/config.json", folder);
  unlink(path);
  rmdir(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc, (void)argv;
  if (!mkdtemp(folder)) abort();
  atexit(remove_folder);
  return 0;
}

static bd_status load(bd_ctx *ctx, void *argument) {
  (void)argument;
  const bd_model_options options = {0};
  bd_module *graph = NULL;
  BD_TRY(bd_hf_load(ctx, folder, &options, &graph));
  if (bd_module_verify(ctx, graph) != BD_OK) abort();
  return BD_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[sizeof folder + 16];
  snprintf(path, sizeof path, "%s/config.json", folder);
  FILE *file = fopen(path, "w");
  if (!file) abort();
  if (fwrite(data, 1, size, file) != size || fclose(file) != 0) abort();
  bd_ctx *ctx = bd_ctx_create();
  if (!ctx) return 0;
  if (bd_ctx_run(ctx, load, NULL) != BD_OK && ctx->error_count != 1) abort();
  if (bd_arena_used_bytes(ctx->arena) > MOST_BYTES) abort();
  bd_ctx_destroy(ctx);
  return 0;
}
