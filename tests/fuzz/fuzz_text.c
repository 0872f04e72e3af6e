// Any bytes: one diagnostic, or a module whose text reads back to the same bytes.
#include "ir/print.h"
#include <stdlib.h>
#include <string.h>

typedef struct input {
  const char *data;
  size_t bytes;
} input;

static bd_status round_trip(bd_ctx *ctx, void *arg) {
  const input *in = arg;
  bd_module *first, *second;
  bd_status status = bd_module_parse(ctx, "fuzz.braid", in->data, in->bytes, &first);
  if (status != BD_OK) {
    if (ctx->error_count != 1) abort();
    return BD_OK;
  }
  bd_text once = bd_text_init(ctx->arena), again = bd_text_init(ctx->arena);
  bd_module_print(first, &once);
  if (bd_module_parse(ctx, "again.braid", once.data, once.length, &second) != BD_OK) abort();
  bd_module_print(second, &again);
  if (strcmp(once.data, again.data) != 0) abort();
  return BD_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  bd_ctx *ctx = bd_ctx_create();
  if (!ctx) return 0;
  input in = {(const char *)data, bytes};
  bd_status status = bd_ctx_run(ctx, round_trip, &in);
  bd_ctx_destroy(ctx);
  return status == BD_OK || status == BD_EXHAUSTED ? 0 : -1;
}
