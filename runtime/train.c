#include "runtime/train.h"

#include "runtime/backend.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/held_out.h"
#include "runtime/master.h"
#include "runtime/metrics.h"
#include "runtime/overlap.h"
#include "runtime/profile.h"
#include "runtime/report.h"
#include "runtime/scale.h"
#include "runtime/stop.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>

enum { WARM_UPDATES = 3 };

static void clear_gradients(bd_rt *rt) {
  for (int i = 0; i < rt->stage->weight_count; i++) {
    const bd_rt_weight *const weight = &rt->stage->weights[i];
    const bd_rt_local local = bd_rt_gradient_local(rt, weight);
    for (int use = 0; use < weight->gradient_count; use++)
      bd_rt_clear_gradient(rt, rt->arena + weight->gradient_offsets[use],
                           local.elements * bd_rt_element_bytes(weight->gradient_dtype));
  }
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int run_step(bd_rt *rt, bd_rt_measure *measure) {
  const double start = seconds();
  bd_rt_profile_start(rt);
  bd_rt_begin(rt, BD_RT_STEP, (int64_t)rt->step + 1);
  bd_rt_overlap_new_step(rt);
  bd_rt_mark(rt, BD_RT_MARK_CLEAR);
  clear_gradients(rt);
  bd_rt_mark(rt, BD_RT_MARK_OTHER);
  rt->sums[0] = 0;
  rt->batch = (bd_rt_batch){.step = rt->step};
  const int64_t targets = bd_rt_batch_targets(rt);
  rt->target_share = targets ? 1.0f / (float)targets : 0;
  rt->stage->step(rt);
  bd_rt_settle(rt);
  bd_rt_sum_ranks(rt, rt->sums, 1);
  measure->loss = rt->sums[0] * (double)rt->target_share;
  const int finite_loss = isfinite(measure->loss);
  bd_rt_mark(rt, BD_RT_MARK_UPDATE);
  measure->norm = finite_loss ? bd_rt_update(rt) : NAN;
  bd_rt_end(rt);
  bd_rt_settle(rt);
  bd_rt_profile_stop(rt);
  measure->step_seconds = seconds() - start;
  measure->loss_scale = rt->loss_scale;
  measure->skipped = !isfinite(measure->norm);
  rt->updates += !measure->skipped;
  const int status = bd_rt_scale_next(rt, !measure->skipped);
  if (status && rt->rank == 0)
    bd_rt_say("the %s of step %lld is not finite", finite_loss ? "gradient" : "loss",
              (long long)rt->step + 1);
  return status;
}

// What rank 0 tells of a step that is done.
static void tell(const bd_rt *rt, const bd_rt_measure *measure, FILE *metrics) {
  bd_rt_progress(rt, measure);
  if (metrics && bd_rt_metrics_write(rt, measure, metrics))
    bd_rt_fail(BD_RT_EXIT_EXTERNAL, "%s: %s", rt->options.metrics, strerror(errno));
}

// Between two steps, or with no step at all. Returns the seconds that it took.
static double evaluate(bd_rt *rt, FILE *metrics) {
  const double start = seconds();
  bd_rt_evaluation_measure measure = {.loss = bd_rt_held_out_loss(rt)};
  measure.seconds = seconds() - start;
  if (rt->rank == 0) bd_rt_tell_evaluation(rt, &measure);
  if (metrics && bd_rt_metrics_write_evaluation(rt, &measure, metrics))
    bd_rt_fail(BD_RT_EXIT_EXTERNAL, "%s: %s", rt->options.metrics, strerror(errno));
  return measure.seconds;
}

// A checkpoint that training does not end with may fail: who failed has said why.
static void keep(bd_rt *rt) {
  if (bd_rt_checkpoint_write(rt) && rt->rank == 0)
    bd_rt_say("training goes on without a checkpoint of step %lld", (long long)rt->step);
}

// After a step. *out_status: that of a run that was told to stop; it has its checkpoint then.
static int stops(bd_rt *rt, int *out_status) {
  const int last = (int64_t)rt->step == rt->options.steps;
  if (!rt->options.checkpoint || last) return 0;
  if (bd_rt_stop_asked(rt)) {
    *out_status = bd_rt_checkpoint_write(rt);
    if (!*out_status && rt->rank == 0)
      bd_rt_say("stopped after step %lld; --resume %s goes on", (long long)rt->step,
                rt->options.checkpoint);
    if (!*out_status) *out_status = BD_RT_EXIT_STOPPED;
    return 1;
  }
  if (bd_rt_checkpoint_due(rt)) keep(rt);
  return 0;
}

static int run_steps(bd_rt *rt, FILE *metrics) {
  const int64_t first = (int64_t)rt->step;
  const uint64_t first_update = rt->updates;
  double passed = 0;
  int status = 0;
  if (rt->held_out_batches > 0) evaluate(rt, metrics);
  while ((int64_t)rt->step < rt->options.steps) {
    bd_rt_measure measure = {0};
    status = run_step(rt, &measure);
    if (status) return status;
    rt->step++;
    const int64_t left = rt->options.steps - (int64_t)rt->step;
    passed += measure.step_seconds;
    measure.left_seconds = passed / (double)((int64_t)rt->step - first) * (double)left;
    if (rt->updates - first_update == WARM_UPDATES && !measure.skipped && left > 0)
      bd_rt_report_note(rt, BD_RT_MEMORY_WARM);
    if (rt->rank == 0) tell(rt, &measure, metrics);
    if (stops(rt, &status)) return status;
    if (bd_rt_held_out_due(rt, (int64_t)rt->step)) passed += evaluate(rt, metrics);
  }
  return 0;
}

int bd_rt_train(bd_rt *rt, FILE *metrics) {
  if (rt->options.checkpoint) bd_rt_stop_watch();
  if (rt->rank == 0 && (int64_t)rt->step < rt->options.steps) bd_rt_define_mfu(rt);
  bd_rt_report_note(rt, BD_RT_MEMORY_READY);
  const int status = run_steps(rt, metrics);
  if (status) return status;
  bd_rt_report_note(rt, BD_RT_MEMORY_END);
  return rt->options.checkpoint ? bd_rt_checkpoint_write(rt) : 0;
}
