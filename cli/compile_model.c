#include "cli/compile.h"
#include "ir/pass.h"

// What the passes are told of --print-after.
static const char *printed_pass(const bd_compilation *job) {
  return bd_compile_is_step(job->print_after) ? NULL : job->print_after;
}

bd_status bd_compile_load_graph(bd_ctx *ctx, bd_compilation *job, bd_module **out) {
  BD_TRY(bd_model_load(ctx, job->arguments->operand, &job->model, out));
  BD_TRY(bd_pass_run_list(ctx, "canonicalize,cse,dce", printed_pass(job), stderr, *out, out));
  job->request.sequence = bd_module_sequence(*out);
  return BD_OK;
}

bd_status bd_compile_make_train(bd_ctx *ctx, const bd_compilation *job, bd_module *graph,
                                bd_module **out) {
  const char *passes = bd_training_passes(job->request.precision, job->request.masters,
                                          job->request.gradients, job->request.target);
  return bd_pass_run_list(ctx, passes, printed_pass(job), stderr, graph, out);
}
