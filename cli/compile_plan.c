#include "cli/advice.h"
#include "cli/compile.h"
#include "cli/constraints.h"
#include "cli/given_plan.h"
#include "cli/planning.h"
#include "ir/base/clock.h"
#include "ir/base/file.h"
#include "ir/plan_notes.h"
#include "planner/full/full.h"
#include "planner/told/breakdown.h"
#include <math.h>
#include <string.h>

enum { LEAST_SHARE = 8 }; // of the time limit, for what is told beside the plan

#define PLAN_LIMIT_BYTES ((size_t)64 << 20)

bd_status bd_compile_read_plan(bd_ctx *ctx, bd_compilation *job) {
  const char *path = bd_argument(job->arguments, "--plan");
  if (!path || job->emit <= BD_EMIT_TRAIN) return BD_OK;
  bd_plan plan;
  BD_TRY(bd_file_read(ctx, path, PLAN_LIMIT_BYTES, &job->plan_data, &job->plan_bytes));
  BD_TRY(bd_plan_parse(ctx, path, job->plan_data, job->plan_bytes, NULL, &plan));
  const char *wanted = bd_argument(job->arguments, "--precision");
  if (wanted && plan.precision != job->request.precision)
    return bd_fail(ctx, BD_INVALID, bd_loc_file(path),
                   "the plan is for %s; leave --precision %s out", bd_dtype_name(plan.precision),
                   wanted);
  if (job->target && strcmp(job->target, plan.target) != 0)
    return bd_fail(ctx, BD_INVALID, bd_loc_file(path), "the plan is for %s; leave --target %s out",
                   plan.target, job->target);
  if (bd_argument(job->arguments, "--masters") && plan.masters != job->request.masters)
    return bd_fail(ctx, BD_INVALID, bd_loc_file(path),
                   "the plan says otherwise; leave --masters %s out",
                   bd_argument(job->arguments, "--masters"));
  if (bd_argument(job->arguments, "--gradients") && plan.gradients != job->request.gradients)
    return bd_fail(ctx, BD_INVALID, bd_loc_file(path),
                   "the plan says otherwise; leave --gradients %s out",
                   bd_argument(job->arguments, "--gradients"));
  if (job->model.sequence == 0) job->model.sequence = plan.sequence;
  job->request.precision = plan.precision;
  job->request.masters = plan.masters;
  job->request.gradients = plan.gradients;
  job->request.target = plan.target;
  return BD_OK;
}

// What the search has left of its time.
static double seconds_left(const bd_compilation *job, double begun_seconds) {
  return job->request.limit_seconds - (bd_clock_seconds() - begun_seconds);
}

// Within that.
static void advise(bd_ctx *ctx, const bd_compilation *job, double begun_seconds) {
  bd_plan_request request = job->request;
  request.limit_seconds = seconds_left(job, begun_seconds);
  if (request.limit_seconds > 0)
    bd_advise(ctx, job->arguments->operand, &job->model, &job->cluster, &request);
}

// Within that as well, or a part of all the time. `plan` NULL: there is none.
static bd_status tell_groups(bd_ctx *ctx, const bd_compilation *job, const bd_module *train,
                             double begun_seconds, bd_plan *plan) {
  if (!bd_cluster_is_mixed(&job->cluster) || job->request.full) return BD_OK;
  double limit = fmax(seconds_left(job, begun_seconds), job->request.limit_seconds / LEAST_SHARE);
  return bd_planning_tell_groups(ctx, train, &job->cluster, &job->request, limit, plan);
}

bd_status bd_compile_read_constraints(bd_ctx *ctx, bd_compilation *job, const bd_module *train) {
  BD_TRY(bd_constraints_options(ctx, job->arguments, train, &job->request, &job->constraints));
  if (!job->request.global_batch)
    return bd_usage_fail(ctx, job->arguments,
                         "--global-batch is missing, and the partial plan does not say it");
  return bd_compile_check_schedule(ctx, job);
}

static bd_status search_plan(bd_ctx *ctx, bd_compilation *job, const bd_module *train,
                             bd_plan *out) {
  BD_TRY(bd_compile_read_constraints(ctx, job, train));
  if (job->request.full && bd_plan_check_full(ctx, &job->request) != BD_OK) {
    *job->arguments->exit_code = BD_EXIT_USAGE;
    return BD_INVALID;
  }
  double begun = bd_clock_seconds();
  bd_status status =
      bd_planning_search(ctx, job->arguments, train, &job->cluster, &job->request, out);
  bool open = !job->constraints.strategy_count; // of another module's ops else
  if (status == BD_OK) return tell_groups(ctx, job, train, begun, out);
  if (status == BD_INFEASIBLE) BD_TRY(tell_groups(ctx, job, train, begun, NULL));
  if (status == BD_INFEASIBLE && open) advise(ctx, job, begun);
  return status;
}

bd_status bd_compile_make_plan(bd_ctx *ctx, bd_compilation *job, const bd_module *train,
                               bd_plan *out) {
  const char *path = bd_argument(job->arguments, "--plan");
  if (!path) return search_plan(ctx, job, train, out);
  BD_TRY(bd_plan_parse(ctx, path, job->plan_data, job->plan_bytes, train, out));
  BD_TRY(bd_plan_check(ctx, train, out));
  BD_TRY(bd_plan_check_ranks(ctx, &job->cluster, out));
  BD_TRY(bd_plan_predict(ctx, train, &job->cluster, out));
  return bd_given_plan_accept(ctx, path, job->arguments, &job->cluster, &job->request, out);
}

bd_status bd_compile_describe_plan(bd_ctx *ctx, const bd_compilation *job, const bd_module *train,
                                   bd_plan *plan) {
  const char *spec = bd_argument(job->arguments, "--cluster");
  bd_familiar_list familiar = {0};
  if (!bd_argument(job->arguments, "--plan"))
    BD_TRY(bd_planning_compare(ctx, train, &job->cluster, &job->request, plan, &familiar));
  plan->cluster =
      spec ? spec : bd_intern_f(ctx, "machine:%s", bd_argument(job->arguments, "--devices"));
  BD_TRY(bd_plan_note(ctx, train, plan));
  BD_TRY(bd_plan_break_down(ctx, train, &job->cluster, plan));
  plan->details->familiar_count = familiar.count;
  plan->details->familiar = familiar.items;
  const char *given = bd_argument(job->arguments, "--plan");
  return given ? bd_given_plan_keep_record(ctx, given, job->plan_data, job->plan_bytes, train, plan)
               : BD_OK;
}
