// A run from its command line to its outputs.
#include "runtime/backend.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/deferred.h"
#include "runtime/held_out.h"
#include "runtime/metrics.h"
#include "runtime/outputs.h"
#include "runtime/overlap.h"
#include "runtime/profile.h"
#include "runtime/program.h"
#include "runtime/report.h"
#include "runtime/scale.h"
#include "runtime/train.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int open_data(bd_rt *rt) {
  char message[1024] = "";
  const bd_rt_options *const o = &rt->options;
  if (o->steps == 0) return 0;
  const int status = bd_rt_data_open(rt->program, o->data, o->tokenizer, rt->rank == 0, &rt->data,
                                     message, sizeof message);
  return bd_rt_agree(rt, status, message);
}

static int open_metrics(bd_rt *rt, FILE **out_metrics) {
  char message[1024] = "";
  int status = 0;
  *out_metrics = NULL;
  if (rt->rank == 0 && rt->options.metrics)
    status = bd_rt_metrics_open(rt->options.metrics, (int64_t)rt->step, out_metrics, message,
                                sizeof message);
  return bd_rt_agree(rt, status, message);
}

// From a checkpoint, or where the seed or --init has it begin.
static int take_weights(bd_rt *rt) {
  int resumed = 0;
  int status = bd_rt_checkpoint_resume(rt, &resumed);
  if (status) return status;
  if (resumed)
    status = rt->options.init ? bd_rt_weights_look(rt) : 0;
  else
    status = rt->options.init ? bd_rt_weights_load(rt) : bd_rt_weights_init(rt);
  return status ? status : bd_rt_checkpoint_check(rt, resumed);
}

static int check_outputs(bd_rt *rt) {
  char message[1024] = "";
  const int status = rt->rank == 0 ? bd_rt_outputs_check(&rt->options, message, sizeof message) : 0;
  return bd_rt_agree(rt, status, message);
}

// What comes once the ranks stand.
static int run(bd_rt *rt) {
  FILE *metrics = NULL;
  rt->data = rt->held_out = BD_RT_NO_DATA;
  int status = check_outputs(rt);
  if (!status) status = open_data(rt);
  if (!status) status = bd_rt_held_out_open(rt);
  if (!status) status = take_weights(rt);
  if (!status) status = bd_rt_weights_save_check(rt);
  if (!status) status = open_metrics(rt, &metrics);
  if (!status) status = bd_rt_profile_open(rt);
  if (!status) status = bd_rt_train(rt, metrics);
  bd_rt_deferred_finish(rt);
  bd_rt_samples_end(rt);
  if (!status && rt->options.save) status = bd_rt_weights_save(rt);
  if (!status && rt->options.report) status = bd_rt_report_write(rt, rt->options.report);
  if (!status && rt->profile) status = bd_rt_profile_write(rt, rt->options.profile);
  bd_rt_profile_close(rt);
  if (metrics) fclose(metrics);
  bd_rt_data_close(&rt->data);
  bd_rt_data_close(&rt->held_out);
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
