// The training loop.
#include "runtime/backend.h"
#include "runtime/deferred.h"
#include "runtime/master.h"
#include "runtime/outputs.h"
#include "runtime/overlap.h"
#include "runtime/profile.h"
#include "runtime/program.h"
#include "runtime/report.h"
#include "runtime/scale.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WARM_UPDATES = 3 };

// Valid targets of the step: all tokens have one; arrays may mark some as absent.
static float target_share(bd_rt *rt) {
  const bd_rt_program *const program = rt->program;
  int64_t count = program->global_batch * program->sequence;
  if (!program->vocabulary) {
    int32_t *const targets = (int32_t *)(void *)rt->scratch;
    count = 0;
    for (int64_t sample = 0; sample < program->global_batch; sample++) {
      const bd_rt_samples one = bd_rt_samples_of_sequences(rt, 0, sample, 1, 0);
      bd_rt_samples_read(rt, &one, targets);
      for (int64_t i = 0; i < program->sequence; i++)
        count += targets[i] >= 0;
    }
  }
  return count ? 1.0f / (float)count : 0;
}

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
  rt->target_share = target_share(rt);
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

static int train(bd_rt *rt, FILE *metrics) {
  double passed = 0;
  if (rt->rank == 0 && rt->options.steps > 0) bd_rt_define_mfu(rt);
  bd_rt_report_note(rt, BD_RT_MEMORY_READY);
  for (; (int64_t)rt->step < rt->options.steps; rt->step++) {
    bd_rt_measure measure = {0};
    const int status = run_step(rt, &measure);
    if (status) return status;
    passed += measure.step_seconds;
    const double done = (double)rt->step + 1;
    if (rt->updates == WARM_UPDATES && !measure.skipped && (int64_t)done < rt->options.steps)
      bd_rt_report_note(rt, BD_RT_MEMORY_WARM);
    measure.left_seconds = passed / done * ((double)rt->options.steps - done);
    if (rt->rank != 0) continue;
    bd_rt_progress(rt, &measure);
    if (metrics && bd_rt_metrics_write(rt, &measure, metrics))
      bd_rt_fail(BD_RT_EXIT_EXTERNAL, "%s: %s", rt->options.metrics, strerror(errno));
  }
  bd_rt_report_note(rt, BD_RT_MEMORY_END);
  return 0;
}

static int open_data(bd_rt *rt) {
  char message[1024] = "";
  const bd_rt_options *const o = &rt->options;
  rt->data = BD_RT_NO_DATA;
  if (o->steps == 0) return 0;
  const int status = bd_rt_data_open(rt->program, o->data, o->tokenizer, rt->rank == 0, &rt->data,
                                     message, sizeof message);
  return bd_rt_agree(rt, status, message);
}

static int open_metrics(bd_rt *rt, FILE **out_metrics) {
  char message[1024] = "";
  int status = 0;
  *out_metrics = NULL;
  if (rt->rank == 0 && rt->options.metrics && !(*out_metrics = fopen(rt->options.metrics, "w"))) {
    snprintf(message, sizeof message, "%s: %s", rt->options.metrics, strerror(errno));
    status = BD_RT_EXIT_EXTERNAL;
  }
  return bd_rt_agree(rt, status, message);
}

static int check_outputs(bd_rt *rt) {
  char message[1024] = "";
  const int status = rt->rank == 0 ? bd_rt_outputs_check(&rt->options, message, sizeof message) : 0;
  return bd_rt_agree(rt, status, message);
}

// What comes once the ranks stand.
static int run(bd_rt *rt) {
  FILE *metrics = NULL;
  int status = check_outputs(rt);
  if (!status) status = open_data(rt);
  if (!status) status = rt->options.init ? bd_rt_weights_load(rt) : bd_rt_weights_init(rt);
  if (!status) status = bd_rt_weights_save_check(rt);
  if (!status) status = open_metrics(rt, &metrics);
  if (!status) status = bd_rt_profile_open(rt);
  if (!status) status = train(rt, metrics);
  bd_rt_deferred_finish(rt);
  bd_rt_samples_end(rt);
  if (!status && rt->options.save) status = bd_rt_weights_save(rt);
  if (!status && rt->options.report) status = bd_rt_report_write(rt, rt->options.report);
  if (!status && rt->profile) status = bd_rt_profile_write(rt, rt->options.profile);
  bd_rt_profile_close(rt);
  if (metrics) fclose(metrics);
  bd_rt_data_close(&rt->data);
  bd_rt_source_close(&rt->source);
  return status;
}

static int parse(bd_rt *rt, int argc, char **argv) {
  char message[1024] = "";
  int status = bd_rt_options_parse(argc, argv, rt->program->optimizer, &rt->options, message,
                                   sizeof message);
  if (!status && !rt->options.help && !rt->options.data && rt->options.steps > 0) {
    snprintf(message, sizeof message, "--data FILE is needed to train");
    status = BD_RT_EXIT_USAGE;
  }
  if (!status && !rt->options.help) status = bd_rt_scale_start(rt, message, sizeof message);
  const char *const cuda_alone = rt->options.tf32        ? "--tf32"
                                 : rt->options.any_order ? "--any-order"
                                 : rt->options.tune      ? "--tune"
                                                         : NULL;
  if (!status && cuda_alone && !rt->program->device_code) {
    snprintf(message, sizeof message, "%s is for programs compiled with --target cuda", cuda_alone);
    status = BD_RT_EXIT_USAGE;
  }
  if (status && rt->rank == 0) bd_rt_say("%s", message);
  return status;
}

static int main_of_rank(bd_rt *rt, int argc, char **argv) {
  int status = bd_rt_start(rt, argc, argv);
  if (status) return status;
  status = parse(rt, argc, argv);
  if (!status && rt->options.help) {
    if (rt->rank == 0) fputs(bd_rt_options_help(), stdout);
  } else if (!status) {
    status = bd_rt_place_rank(rt);
    if (!status) status = bd_rt_open(rt);
    if (!status) {
      status = run(rt);
      bd_rt_close(rt);
    }
    bd_rt_overlap_close(rt);
  }
  bd_rt_stop(rt);
  return status;
}

int bd_rt_main(int argc, char **argv, const bd_rt_program *program) {
  bd_rt *const rt = calloc(1, sizeof *rt);
  bd_rt_program *const expanded = bd_rt_program_expand(program);
  int status = BD_RT_EXIT_EXTERNAL;
  if (rt && expanded) {
    rt->program = expanded;
    status = main_of_rank(rt, argc, argv);
  } else {
    bd_rt_say("out of memory");
  }
  free(expanded);
  free(rt);
  return status;
}
