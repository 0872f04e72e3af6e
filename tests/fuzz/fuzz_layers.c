// Any bytes as a layer graph: refused with one diagnostic, or solved, in little time, to a plan
// that measures as it says.
#include "ir/base/file.h"
#include "planner/graph/read.h"
#include <math.h>
#include <stdlib.h>

typedef struct input {
  const char *data;
  size_t size;
} input;

// Larger graphs are read, not solved.
static bool is_small(const bd_layers_problem *problem) {
  return problem->layer_count <= 8 && problem->mode_count <= 4 && problem->max_stages <= 4 &&
         problem->micro_batch_count * problem->chunk_count <= 4;
}

static bd_status solve(bd_ctx *ctx, const bd_layers_problem *problem) {
  bd_layers_stage stages[BD_LAYERS_MAX_STAGES];
  bd_layers_answer answer;
  BD_TRY(bd_layers_solve(ctx, problem, (bd_deadline){bd_clock_seconds() + 0.01, NULL}, INFINITY,
                         true, &answer));
  if (!answer.found) return BD_OK;
  double seconds = bd_layers_measure(problem, &answer.plan, stages);
  if (isfinite(seconds) && fabs(seconds - answer.seconds) > 1e-6 * seconds) abort();
  return BD_OK;
}

static bd_status read_problem(bd_ctx *ctx, void *argument) {
  const input *in = argument;
  bd_layers_problem problem;
  bd_layers_names names;
  BD_TRY(bd_layers_read(ctx, "fuzz", in->data, in->size, 0, &problem, &names));
  return is_small(&problem) ? solve(ctx, &problem) : BD_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  input in = {(const char *)data, size};
  bd_ctx *ctx = bd_ctx_create();
  if (!ctx) return 0;
  if (bd_ctx_run(ctx, read_problem, &in) != BD_OK && ctx->error_count != 1) abort();
  bd_ctx_destroy(ctx);
  return 0;
}
