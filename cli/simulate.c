// `braid simulate`: replays a step of a plan, event by event.
#include "cli/simulate.h"
#include "cli/answer.h"
#include "cli/machine.h"
#include "cli/outputs.h"
#include "cli/plan_model.h"
#include "frontend/frontend.h"
#include "ir/base/file.h"
#include "ir/base/json.h"
#include "planner/planner.h"
#include "planner/simulate/source.h"
#include "planner/simulate/trace.h"
#include <stdlib.h>
#include <string.h>

#define PLAN_LIMIT_BYTES ((size_t)64 << 20)
#define MOST_SECONDS 1e12

typedef struct simulation {
  const bd_arguments *arguments;
  const char *path;
  char *data;
  size_t bytes;
  bd_plan plan;
  bool predicted; // the plan says what it takes
  bd_sim_problem problem;
  const char *cluster;
} simulation;

static bd_status read_plan(bd_ctx *ctx, simulation *s) {
  s->path = s->arguments->operand;
  if (bd_is_folder(s->path)) s->path = bd_path_join(ctx, s->path, "plan.json");
  BD_TRY(bd_file_read(ctx, s->path, PLAN_LIMIT_BYTES, &s->data, &s->bytes));
  const bd_json *root;
  BD_TRY(bd_plan_parse(ctx, s->path, s->data, s->bytes, NULL, &s->plan));
  if (s->plan.cluster) s->plan.cluster = bd_machine_beside(ctx, s->path, s->plan.cluster);
  BD_TRY(bd_json_parse(ctx, s->path, s->data, s->bytes, &root));
  s->predicted = bd_json_find(root, "predicted") != NULL;
  return BD_OK;
}

static bd_status read_cluster(bd_ctx *ctx, simulation *s, bd_cluster *out) {
  const char *spec = bd_argument(s->arguments, "--cluster");
  int64_t devices = 0;
  BD_TRY(bd_argument_int(ctx, s->arguments, "--devices", 1, 256, &devices));
  if (spec && devices)
    return bd_usage_fail(ctx, s->arguments,
                         "give --cluster or --devices, not both; see 'braid simulate --help'");
  if (!spec && !devices) spec = s->plan.cluster;
  if (!spec && !devices)
    return bd_usage_fail(ctx, s->arguments,
                         "the plan does not say for which cluster it is; give --cluster or "
                         "--devices, or leave --model out");
  BD_TRY(devices ? bd_machine_probe(ctx, (int)devices, out)
                 : bd_machine_load(ctx, spec, bd_loc_file(s->path), out));
  s->cluster = out->name;
  return bd_plan_check_ranks(ctx, out, &s->plan);
}

static bd_status load_train(bd_ctx *ctx, const simulation *s, bd_module **out) {
  const char *given = bd_argument(s->arguments, "--model");
  bd_model_options options = {.sequence = s->plan.sequence};
  bd_module *graph;
  BD_TRY(bd_model_load(ctx, given ? given : s->plan.model, &options, &graph));
  BD_TRY(bd_plan_train(ctx, &s->plan, graph, out));
  if (!given) return BD_OK;
  return bd_given_model_accept(ctx, s->path, s->data, s->bytes, s->plan.model, given, *out);
}

// The plan's program, on a cluster.
static bd_status lower(bd_ctx *ctx, simulation *s) {
  bd_cluster cluster;
  bd_module *train;
  BD_TRY(bd_plan_emitted(ctx, &s->plan));
  BD_TRY(read_cluster(ctx, s, &cluster));
  BD_TRY(load_train(ctx, s, &train));
  BD_TRY(bd_plan_parse(ctx, s->path, s->data, s->bytes, train, &s->plan));
  BD_TRY(bd_plan_check(ctx, train, &s->plan));
  BD_TRY(bd_plan_predict(ctx, train, &cluster, &s->plan));
  BD_TRY(bd_plan_check_bytes(ctx, &cluster, 0, &s->plan));
  return bd_sim_lower(ctx, train, &cluster, &s->plan, &s->problem);
}

// Seconds of a plan that a person wrote may be any number.
static bd_status check_seconds(bd_ctx *ctx, const simulation *s) {
  for (int i = 0; i < s->plan.stages; i++) {
    const bd_stage_prediction *p = &s->plan.predicted[i];
    double most = p->forward_seconds + p->backward_seconds + p->sync_seconds + p->send_seconds;
    for (int m = 0; m < p->message_count; m++)
      most += p->messages[m].copy_seconds + p->messages[m].latency_seconds +
              p->messages[m].move_seconds;
    if (most > MOST_SECONDS)
      return bd_fail(ctx, BD_INVALID, bd_loc_file(s->path),
                     "the seconds of stage %d are too many to add up", i);
  }
  return BD_OK;
}

// The same of bytes, however many passes hold a slot at once.
static bd_status check_bytes(bd_ctx *ctx, const simulation *s) {
  int64_t passes = (int64_t)s->problem.micro_batches * s->problem.chunks;
  for (int i = 0; i < s->problem.stages; i++) {
    const bd_sim_stage *stage = &s->problem.stage[i];
    int64_t most, sum;
    bool large = __builtin_mul_overflow(passes, stage->weight_input_bytes, &sum);
    for (int segment = 0; segment < BD_SEGMENT_COUNT; segment++) {
      large |= __builtin_mul_overflow(passes, stage->slot_bytes[segment], &most);
      large |= __builtin_add_overflow(sum, most, &sum);
      large |= __builtin_add_overflow(sum, stage->fixed_bytes[segment], &sum);
    }
    if (large)
      return bd_fail(ctx, BD_INVALID, bd_loc_file(s->path),
                     "the bytes of stage %d are too many to add up", i);
  }
  return BD_OK;
}

static bd_status tell(bd_ctx *ctx, simulation *s) {
  if (!s->predicted)
    return bd_fail(ctx, BD_INVALID, bd_loc_file(s->path),
                   "the plan holds no predictions; give --cluster to replay its program");
  BD_TRY(check_seconds(ctx, s));
  BD_TRY(bd_sim_tell(ctx, &s->plan, &s->problem));
  return check_bytes(ctx, s);
}

static bd_status run(bd_ctx *ctx, const bd_arguments *arguments) {
  simulation s = {.arguments = arguments};
  const char *trace = bd_argument(arguments, "--trace");
  bd_sim_record record = {0};
  bd_sim_result result;
  bd_text text = bd_text_init(ctx->arena);
  BD_TRY(read_plan(ctx, &s));
  BD_TRY(bd_outputs_check_plan(ctx, arguments, &s.plan));
  bool program = bd_argument(arguments, "--cluster") || bd_argument(arguments, "--devices") ||
                 bd_argument(arguments, "--model");
  BD_TRY(program ? lower(ctx, &s) : tell(ctx, &s));
  BD_TRY(bd_sim_run(ctx, &s.problem, trace ? &record : NULL, &result));
  if (trace) {
    bd_text events = bd_text_init(ctx->arena);
    BD_TRY(bd_sim_trace(ctx, &s.problem, &record, &events));
    BD_TRY(bd_answer_write(ctx, &events, trace));
  }
  const bd_told_replay replay = {&s.plan, &s.problem, &result, s.cluster};
  if (bd_argument_flag(arguments, "--json"))
    bd_simulate_json(&replay, &text);
  else
    bd_simulate_page(&replay, &text);
  return bd_answer_write(ctx, &text, NULL);
}

static const bd_option options[] = {
    {"--cluster", "SPEC", "replay the plan's program on a cluster (as 'braid compile' takes it)"},
    {"--devices", "N", "replay the plan's program on N ranks of this machine"},
    {"--model", "MODEL", "of the program (default: the one that the plan names)"},
    {"--trace", "FILE", "write a trace for Perfetto or chrome://tracing"},
    {"--json", NULL, "as JSON, for programs (docs/simulate.md)"},
    {0},
};
const bd_command bd_command_simulate = {
    .name = "simulate",
    .summary = "replay a step of a plan event by event",
    .operand = "PLAN",
    .options = options,
    .reads = (const char *const[]){"--cluster", "--model", NULL},
    .writes = (const char *const[]){"--trace", NULL},
    .details = "PLAN is a plan file, or the output folder of 'braid compile'. Without --cluster, "
               "--devices\nor --model the seconds and bytes that the plan predicts are replayed; "
               "with one of them, the\nprogram that it describes, op by op.\n\n"
               "example: braid simulate out --trace step.json\n",
    .run = run,
};
