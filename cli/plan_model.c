#include "cli/plan_model.h"
#include "ir/pass.h"
#include "planner/told/breakdown.h"
#include <math.h>

#define TOLERANCE 1e-6

static bd_status check(bd_ctx *ctx, const char *path, const char *data, size_t bytes,
                       const bd_module *train) {
  bd_plan plan;
  double flops;
  BD_TRY(bd_plan_parse(ctx, path, data, bytes, train, &plan));
  BD_TRY(bd_plan_check(ctx, train, &plan));
  if (!plan.details) return BD_OK;
  BD_TRY(bd_plan_model_flops(ctx, train, &plan, &flops));
  double told = plan.details->model_flops;
  if (fabs(flops - told) <= TOLERANCE * told) return BD_OK;
  return bd_fail(ctx, BD_INVALID, bd_loc_file(path),
                 "the plan tells %.6g flops a step, and with the model that is given it takes %.6g",
                 told, flops);
}

bd_status bd_plan_train(bd_ctx *ctx, const bd_plan *plan, bd_module *graph, bd_module **out_train) {
  const char *passes =
      bd_training_passes(plan->precision, plan->masters, plan->gradients, plan->target);
  BD_TRY(bd_pass_run_list(ctx, "canonicalize,cse,dce", NULL, stderr, graph, &graph));
  return bd_pass_run_list(ctx, passes, NULL, stderr, graph, out_train);
}

bd_status bd_given_model_accept(bd_ctx *ctx, const char *path, const char *data, size_t bytes,
                                const char *named, const char *given, const bd_module *train) {
  bd_status status = check(ctx, path, data, bytes, train);
  if (status == BD_INVALID)
    bd_note(ctx, bd_loc_file(path),
            "the plan was made for the model '%s', and '%s' does not fit it; give its own with "
            "--model",
            named, given);
  return status;
}
