// Any bytes as a plan for a small GPT-2: refused with one diagnostic, or a plan that can be
// applied, partitioned, and printed to a plan that reads back as the same bytes.
#include "frontend/frontend.h"
#include "ir/partition.h"
#include "ir/pass.h"
#include "ir/plan_notes.h"
#include <stdlib.h>
#include <string.h>

static bd_ctx *keeper; // of the model
static bd_module *train;

static bd_status make_model(bd_ctx *ctx, void *argument) {
  (void)argument;
  const bd_model_options options = {.sequence = 16};
  bd_module *graph = NULL;
  BD_TRY(bd_model_load(ctx, "gpt2-tiny", &options, &graph));
  return bd_pass_run_list(ctx, "canonicalize,cse,dce,autodiff", NULL, stderr, graph, &train);
}

static void forget_model(void) {
  bd_ctx_destroy(keeper);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc, (void)argv;
  keeper = bd_ctx_create();
  if (!keeper || bd_ctx_run(keeper, make_model, NULL) != BD_OK || atexit(forget_model)) abort();
  return 0;
}

typedef struct input {
  const char *data;
  size_t bytes;
} input;

static void expect_same_text(bd_ctx *ctx, const bd_plan *plan) {
  bd_text once = bd_text_init(ctx->arena), again = bd_text_init(ctx->arena);
  bd_plan reread;
  bd_plan_print(plan, train, &once);
  if (bd_plan_parse(ctx, "again.json", once.data, once.length, train, &reread) != BD_OK) abort();
  bd_plan_print(&reread, train, &again);
  if (strcmp(once.data, again.data) != 0) abort();
}

static bd_status use(bd_ctx *ctx, void *argument) {
  const input *in = argument;
  bd_plan plan;
  bd_module *sharded, *spmd;
  BD_TRY(bd_plan_parse(ctx, "fuzz.json", in->data, in->bytes, train, &plan));
  expect_same_text(ctx, &plan);
  BD_TRY(bd_plan_check(ctx, train, &plan));
  BD_TRY(bd_plan_note(ctx, train, &plan));
  BD_TRY(bd_apply_plan(ctx, train, &plan, &sharded));
  if (bd_module_verify(ctx, sharded) != BD_OK) abort();
  BD_TRY(bd_partition(ctx, sharded, &spmd));
  if (bd_module_verify(ctx, spmd) != BD_OK) abort();
  return BD_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  bd_ctx *ctx = bd_ctx_create();
  if (!ctx) return 0;
  input in = {(const char *)data, bytes};
  bd_status status = bd_ctx_run(ctx, use, &in);
  if (status != BD_OK && ctx->error_count != 1) abort();
  bd_ctx_destroy(ctx);
  return 0;
}
