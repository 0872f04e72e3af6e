// Any bytes as a native JSON graph: either refused with a diagnostic, or a module that verifies or
// is refused by the verifier.
#include "frontend/json/model_json.h"
#include "ir/print.h"
#include <stdlib.h>

typedef struct input {
  const uint8_t *data;
  size_t size;
} input;

static bd_status build(bd_ctx *ctx, void *argument) {
  const input *in = argument;
  const bd_json *json = NULL;
  bd_module *graph = NULL;
  BD_TRY(bd_json_parse(ctx, "fuzz", (const char *)in->data, in->size, &json));
  BD_TRY(bd_model_json_build(ctx, json, &graph));
  return bd_module_verify(ctx, graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  bd_ctx *ctx = bd_ctx_create();
  if (!ctx) return 0;
  input in = {data, size};
  if (bd_ctx_run(ctx, build, &in) != BD_OK && ctx->error_count == 0) abort();
  bd_ctx_destroy(ctx);
  return 0;
}
