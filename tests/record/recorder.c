// Start and end of a recorded rank, and what training asks for that is no work of a device.
#include "tests/record/recorder.h"

#include "runtime/backend.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/metrics.h"
#include "runtime/outputs.h"
#include "runtime/overlap.h"
#include "runtime/profile.h"
#include "runtime/report.h"
#include "tests/record/back_end.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SCRATCH_BYTES = BD_RT_SCRATCH_FLOATS * sizeof(float) };

static const record_sink *current_sink;
static record_ways current_ways;
static int current_rank;

int record_rank(int (*program)(int argc, char **argv), int rank, int steps, const record_ways *ways,
                const record_sink *sink) {
  char count[16];
  snprintf(count, sizeof count, "%d", steps);
  char *arguments[] = {"record", "--data",       "none", "--steps",      count, "--eval",
                       "none",   "--eval-every", "1",    "--eval-steps", "2",   NULL};
  current_sink = sink;
  current_ways = *ways;
  current_rank = rank;
  return program(ways->evaluates ? 11 : 5, arguments);
}

static record_operand operand(const bd_rt *rt, record_access access, const void *data,
                              int64_t bytes) {
  return (record_operand){access, (int64_t)((uintptr_t)data - (uintptr_t)rt->arena), bytes};
}
record_operand record_reads(const bd_rt *rt, const void *data, int64_t bytes) {
  return operand(rt, RECORD_READ, data, bytes);
}
record_operand record_writes(const bd_rt *rt, const void *data, int64_t bytes) {
  return operand(rt, RECORD_WRITE, data, bytes);
}
record_operand record_updates(const bd_rt *rt, const void *data, int64_t bytes) {
  return operand(rt, RECORD_UPDATE, data, bytes);
}
record_operand record_uses(const bd_rt *rt, const void *data, int64_t bytes) {
  return operand(rt, RECORD_SCRATCH, data, bytes);
}
record_operand record_library(const bd_rt *rt) {
  return (record_operand){RECORD_SCRATCH, rt->stage->library_offset, rt->stage->library_bytes};
}
record_operand record_room(const bd_rt *rt) {
  record_operand room = record_library(rt);
  room.start += RECORD_WORKSPACE_BYTES;
  room.bytes -= RECORD_WORKSPACE_BYTES;
  return room;
}

void record_tell(const bd_rt *rt, record_event event) {
  if (!rt->device->sink) return;
  event.instruction = rt->device->instruction;
  if (rt->device->aside) event.handle = RECORD_ASIDE;
  if (rt->device->prefetch) event.handle = rt->device->prefetch;
  rt->device->sink->take(rt->device->sink->args, &event);
}

void record_work(const bd_rt *rt, record_kind kind, int count, record_operand *operands) {
  record_tell(rt, (record_event){.kind = kind,
                                 .handle = RECORD_NO_HANDLE,
                                 .operand_count = count,
                                 .operands = operands});
}

void bd_rt_mark(bd_rt *rt, int instruction) {
  rt->device->instruction = instruction;
  record_work(rt, RECORD_MARK, 0, NULL);
}

int bd_rt_runs_aside(const bd_rt *rt) {
  return rt->ranks > 1 && rt->device->keeps_order;
}

void bd_rt_aside(bd_rt *rt, int slot) {
  if (slot != BD_RT_NO_SLOT)
    rt->device->prefetch = RECORD_PREFETCH + slot;
  else
    rt->device->aside = rt->device->unjoined = true;
}

void bd_rt_back(bd_rt *rt) {
  rt->device->aside = false;
  rt->device->prefetch = 0;
}

void bd_rt_join(bd_rt *rt) {
  if (rt->device->unjoined)
    record_tell(rt, (record_event){.kind = RECORD_WAIT, .handle = RECORD_ASIDE});
  rt->device->unjoined = false;
}

void bd_rt_begin(bd_rt *rt, int what, int64_t number) {
  (void)number;
  if (what != BD_RT_EVALUATION) return;
  bd_rt_mark(rt, RECORD_EVALUATES);
  rt->device->instruction = BD_RT_MARK_OTHER;
}
void bd_rt_end(bd_rt *rt) {
  (void)rt;
}

int bd_rt_start(bd_rt *rt, int argc, char **argv) {
  (void)argc, (void)argv;
  rt->rank = current_rank;
  rt->ranks = rt->program->stages;
  for (int a = 0; a < rt->program->axes; a++)
    rt->ranks *= rt->program->mesh[a];
  rt->device = calloc(1, sizeof *rt->device);
  return rt->device ? 0 : BD_RT_EXIT_EXTERNAL;
}

void bd_rt_stop(bd_rt *rt) {
  free(rt->device);
}

int bd_rt_open(bd_rt *rt) {
  void *const arena = mmap(NULL, (size_t)rt->stage->arena_bytes, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  rt->sums = calloc((size_t)rt->program->tensors + 1, sizeof *rt->sums);
  void *const scratch =
      mmap(NULL, SCRATCH_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (arena == MAP_FAILED || scratch == MAP_FAILED || !rt->sums) return BD_RT_EXIT_EXTERNAL;
  rt->arena = arena;
  rt->scratch = scratch;
  bd_rt_overlap_open(rt);
  *rt->device =
      (bd_rt_device){.sink = current_sink,
                     .ways = current_ways,
                     .keeps_order = !current_ways.alone,
                     .sources = calloc((size_t)rt->program->stages, sizeof(record_source)),
                     .ends = calloc((size_t)rt->stage->most_ends + 1, sizeof(int32_t)),
                     .ends_from = calloc((size_t)rt->stage->most_ends + 1, sizeof(int32_t *))};
  if (!rt->device->sources || !rt->device->ends || !rt->device->ends_from)
    return BD_RT_EXIT_EXTERNAL;
  current_sink->begin(current_sink->args, rt);
  return 0;
}

void bd_rt_close(bd_rt *rt) {
  current_sink->end(current_sink->args);
  munmap(rt->arena, (size_t)rt->stage->arena_bytes);
  free(rt->device->sources);
  free(rt->device->ends);
  free(rt->device->ends_from);
  free(rt->sums);
  munmap(rt->scratch, SCRATCH_BYTES);
}

void bd_rt_claim(int status) {
  (void)status;
}

void bd_rt_abort(int status) {
  exit(status);
}

int bd_rt_agree(bd_rt *rt, int status, const char *message) {
  (void)rt;
  if (status) bd_rt_say("%s", message);
  return status;
}

void bd_rt_sum_ranks(bd_rt *rt, double *values, int count) {
  (void)values;
  if (rt->ranks == 1 || count == 0) return;
  record_tell(rt, (record_event){.kind = RECORD_SUM_RANKS,
                                 .handle = RECORD_NO_HANDLE,
                                 .terms = {.kind = RECORD_SUM_RANKS, .shape = {count}}});
}

void bd_rt_settle(bd_rt *rt) {
  (void)rt;
}
void bd_rt_samples_end(bd_rt *rt) {
  (void)rt;
}

// Weights are what they are, samples are whatever: nothing is computed.
int bd_rt_weights_init(bd_rt *rt) {
  (void)rt;
  return 0;
}
int bd_rt_weights_load(bd_rt *rt) {
  (void)rt;
  return 0;
}
int bd_rt_weights_look(bd_rt *rt) {
  (void)rt;
  return 0;
}
int bd_rt_checkpoint_resume(bd_rt *rt, int *out_resumed) {
  (void)rt;
  *out_resumed = 0;
  return 0;
}
int bd_rt_checkpoint_check(bd_rt *rt, int resumed) {
  (void)rt, (void)resumed;
  return 0;
}
int bd_rt_checkpoint_due(const bd_rt *rt) {
  (void)rt;
  return 0;
}
int bd_rt_checkpoint_write(bd_rt *rt) {
  (void)rt;
  return 0;
}
int bd_rt_weights_save_check(bd_rt *rt) {
  (void)rt;
  return 0;
}
int bd_rt_weights_save(bd_rt *rt) {
  (void)rt;
  return 0;
}
int bd_rt_data_open(const bd_rt_program *program, const char *path, int tokenizer, int check,
                    bd_rt_data *out_data, char *message, size_t message_bytes) {
  (void)program, (void)path, (void)tokenizer, (void)check, (void)message, (void)message_bytes;
  *out_data = (bd_rt_data){.count = INT64_C(1) << 40};
  return 0;
}
void bd_rt_source_close(bd_rt_source *source) {
  (void)source;
}
void bd_rt_data_close(bd_rt_data *data) {
  (void)data;
}
int64_t bd_rt_data_position(const bd_rt_program *program, const bd_rt_data *data, uint64_t seed,
                            uint64_t step, int64_t sample) {
  (void)program, (void)data, (void)seed, (void)step;
  return sample;
}
int bd_rt_data_tokens(const bd_rt_data *data, int64_t at, int64_t count, int32_t *out) {
  (void)data, (void)at;
  memset(out, 0, (size_t)count * sizeof *out);
  return 0;
}
int bd_rt_data_ids(const bd_rt_data *data, int input, int64_t at, int64_t elements, int32_t *out) {
  (void)data, (void)input, (void)at, (void)elements, (void)out;
  return 0;
}
int bd_rt_data_targets(const bd_rt_data *data, int64_t at, int64_t elements, int32_t *out) {
  return bd_rt_data_tokens(data, at, elements, out);
}
int bd_rt_data_inputs(const bd_rt_data *data, int64_t at, int64_t elements, int64_t first,
                      int64_t count, float *out) {
  (void)data, (void)at, (void)elements, (void)first;
  memset(out, 0, (size_t)count * sizeof *out);
  return 0;
}

// Nothing is written and nothing timed.
int bd_rt_outputs_check(const bd_rt_options *options, char *message, size_t size) {
  (void)options, (void)message, (void)size;
  return 0;
}
void bd_rt_define_mfu(const bd_rt *rt) {
  (void)rt;
}
void bd_rt_progress(const bd_rt *rt, const bd_rt_measure *measure) {
  (void)rt, (void)measure;
}
void bd_rt_tell_evaluation(const bd_rt *rt, const bd_rt_evaluation_measure *measure) {
  (void)rt, (void)measure;
}
int bd_rt_metrics_open(const char *path, int64_t step, FILE **out, char *message, size_t bytes) {
  (void)path, (void)step, (void)message, (void)bytes;
  *out = NULL;
  return 0;
}
int bd_rt_metrics_write(const bd_rt *rt, const bd_rt_measure *measure, FILE *metrics) {
  (void)rt, (void)measure, (void)metrics;
  return 0;
}
int bd_rt_metrics_write_evaluation(const bd_rt *rt, const bd_rt_evaluation_measure *measure,
                                   FILE *metrics) {
  (void)rt, (void)measure, (void)metrics;
  return 0;
}
void bd_rt_report_note(bd_rt *rt, int moment) {
  (void)rt, (void)moment;
}

int bd_rt_report_write(bd_rt *rt, const char *path) {
  (void)rt, (void)path;
  return 0;
}
int bd_rt_profile_open(bd_rt *rt) {
  (void)rt;
  return 0;
}
void bd_rt_profile_close(bd_rt *rt) {
  (void)rt;
}
void bd_rt_profile_start(bd_rt *rt) {
  (void)rt;
}
void bd_rt_profile_stop(bd_rt *rt) {
  bd_rt_mark(rt, BD_RT_MARK_OTHER);
}
int bd_rt_profile_write(bd_rt *rt, const char *path) {
  (void)rt, (void)path;
  return 0;
}
