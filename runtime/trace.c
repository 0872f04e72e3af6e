#include "runtime/trace.h"

#include "runtime/backend.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
  FIRST_SPANS = 1 << 10,
  MOST_SPANS = 1 << 20, // of a rank
  SPANS_AT_ONCE = 256,  // that travel to rank 0
  FIELDS = sizeof(bd_rt_span) / sizeof(int64_t),
};

void bd_rt_trace_add(bd_rt_trace *trace, const bd_rt_span *span) {
  if (trace->count == trace->capacity) {
    const int64_t wanted = trace->capacity ? 2 * trace->capacity : FIRST_SPANS;
    bd_rt_span *const more =
        wanted > MOST_SPANS ? NULL : realloc(trace->spans, (size_t)wanted * sizeof *more);
    if (!more) {
      trace->lost++;
      return;
    }
    trace->spans = more;
    trace->capacity = wanted;
  }
  trace->spans[trace->count++] = *span;
}

void bd_rt_trace_clear(bd_rt_trace *trace) {
  free(trace->spans);
  *trace = (bd_rt_trace){0};
}

static void name_thread(FILE *file, int stage, int thread, const char *name) {
  fprintf(file,
          ",\n{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": %d, \"tid\": %d, \"args\": "
          "{\"name\": \"%s\"}}",
          stage, thread, name);
  fprintf(file,
          ",\n{\"ph\": \"M\", \"name\": \"thread_sort_index\", \"pid\": %d, \"tid\": %d, "
          "\"args\": {\"sort_index\": %d}}",
          stage, thread, thread);
}

static void name_stages(const bd_rt *rt, FILE *file) {
  static const char *const threads[BD_RT_THREADS] = {"compute", "send", "receive", "sync",
                                                     "collectives"};
  const int count = rt->program->device_code ? BD_RT_THREADS : BD_RT_THREAD_COLLECTIVES;
  for (int s = 0; s < rt->program->stages; s++) {
    const int first = s * rt->devices;
    fprintf(file,
            "%s\n{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %d, \"args\": {\"name\": "
            "\"stage %d: ",
            s ? "," : "", s, s);
    if (rt->devices == 1)
      fprintf(file, "rank %d\"}}", first);
    else
      fprintf(file, "ranks %d to %d, one of them\"}}", first, first + rt->devices - 1);
    fprintf(file,
            ",\n{\"ph\": \"M\", \"name\": \"process_sort_index\", \"pid\": %d, \"args\": "
            "{\"sort_index\": %d}}",
            s, s);
    for (int thread = 0; thread < count; thread++)
      name_thread(file, s, thread, threads[thread]);
  }
}

static const char *pass_name(int64_t pass) {
  return pass == BD_RT_FORWARD ? "forward" : "backward";
}

static void write_name(const bd_rt_program *program, const bd_rt_span *span, FILE *file) {
  switch (span->what) {
  case BD_RT_FORWARD:
  case BD_RT_BACKWARD:
    fprintf(file, "%s %" PRId64, pass_name(span->what), span->number);
    return;
  case BD_RT_LAYER:
    fprintf(file, "layer %" PRId64, span->number);
    return;
  case BD_RT_REDUCE:
    fputs("reduce", file);
    return;
  case BD_RT_UPDATE:
    fputs("update", file);
    return;
  case BD_RT_SPAN_BESIDE:
    fputs(span->thread == BD_RT_THREAD_SYNC ? "beside" : program->instructions[span->number].what,
          file);
    return;
  case BD_RT_SPAN_INSTRUCTION:
    fputs(program->instructions[span->number].what, file);
    return;
  default:
    if (span->pass == BD_RT_STEP)
      fputs("tied gradients", file);
    else
      fprintf(file, "%s %" PRId64, pass_name(span->pass), span->micro_batch);
  }
}

static double micros(int64_t nanos) {
  return 1e-3 * (double)nanos;
}

// A flow leaves in the middle of a send and arrives at the end of its receive.
static void write_flow(const bd_rt_span *span, int stage, FILE *file) {
  const int sends = span->thread == BD_RT_THREAD_SEND;
  const int from = sends ? stage : (int)span->stage, to = sends ? (int)span->stage : stage;
  const int64_t at =
      sends ? span->start_nanos + (span->until_nanos - span->start_nanos) / 2 : span->until_nanos;
  fprintf(file,
          ",\n{\"ph\": \"%s\", \"cat\": \"message\", \"name\": \"message\", \"id\": "
          "\"%d.%d.%" PRId64 ".%" PRId64 "\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f}",
          sends ? "s" : "f\", \"bp\": \"e", from, to, span->tag, span->micro_batch, stage,
          (int)span->thread, micros(at));
}

static const char *kind_of(const bd_rt_span *span) {
  static const char *const kinds[] = {"compute", "send", "receive", "sync"};
  if (span->what == BD_RT_LAYER) return "layer";
  if (span->what == BD_RT_SPAN_BESIDE) return "beside";
  return span->what == BD_RT_SPAN_INSTRUCTION ? "instruction" : kinds[span->thread];
}

static void write_span(const bd_rt_program *program, const bd_rt_span *span, int stage,
                       FILE *file) {
  fputs(",\n{\"ph\": \"X\", \"name\": \"", file);
  write_name(program, span, file);
  fprintf(file, "\", \"cat\": \"%s\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f",
          kind_of(span), stage, (int)span->thread, micros(span->start_nanos),
          micros(span->until_nanos - span->start_nanos));
  if (span->what == BD_RT_SPAN_MESSAGE) {
    const int sends = span->thread == BD_RT_THREAD_SEND;
    fprintf(file, ", \"args\": {\"from\": %d, \"to\": %d, \"bytes\": %" PRId64 "}}",
            sends ? stage : (int)span->stage, sends ? (int)span->stage : stage, span->bytes);
    if (span->pass != BD_RT_STEP) write_flow(span, stage, file);
    return;
  }
  if (span->what == BD_RT_SPAN_INSTRUCTION) {
    const bd_rt_instruction *const at = &program->instructions[span->number];
    fprintf(file, ", \"args\": {\"function\": %d, \"step\": %d}", at->function, at->step);
  }
  fputs("}", file);
}

// Spans [from, from + SPANS_AT_ONCE) of the first rank of every stage.
static void write_piece(bd_rt *rt, const bd_rt_trace *trace, int64_t from, const double *counts,
                        int64_t *all, FILE *file) {
  bd_rt_span piece[SPANS_AT_ONCE];
  const int64_t here = rt->mesh_rank == 0 ? bd_rt_least(trace->count - from, SPANS_AT_ONCE) : 0;
  memset(piece, 0, sizeof piece);
  if (here > 0) memcpy(piece, trace->spans + from, (size_t)here * sizeof *piece);
  bd_rt_gather_rows(rt, (const int64_t *)piece, SPANS_AT_ONCE * FIELDS, all);
  if (!file) return;
  for (int s = 0; s < rt->program->stages; s++) {
    const bd_rt_span *const spans =
        (const bd_rt_span *)(all + (size_t)s * (size_t)rt->devices * SPANS_AT_ONCE * FIELDS);
    for (int64_t i = 0; i < SPANS_AT_ONCE && from + i < (int64_t)counts[s]; i++)
      write_span(rt->program, &spans[i], s, file);
  }
}

void bd_rt_trace_write(bd_rt *rt, const bd_rt_trace *trace, FILE *file) {
  const int stages = rt->program->stages;
  const size_t ranks = rt->rank == 0 ? (size_t)rt->ranks : 1;
  int64_t *const all = bd_rt_allocate(ranks * SPANS_AT_ONCE, sizeof(bd_rt_span));
  double *const counts = bd_rt_allocate((size_t)stages + 1, sizeof *counts),
                most = 0; // the last: lost
  if (rt->mesh_rank == 0) {
    counts[rt->stage_index] = (double)trace->count;
    counts[stages] = (double)trace->lost;
  }
  bd_rt_sum_ranks(rt, counts, stages + 1);
  for (int s = 0; s < stages; s++)
    if (counts[s] > most) most = counts[s];
  if (file) {
    fprintf(file, "\"displayTimeUnit\": \"ms\", \"lost_events\": %.0f, \"traceEvents\": [",
            counts[stages]);
    name_stages(rt, file);
  }
  for (int64_t from = 0; from < (int64_t)most; from += SPANS_AT_ONCE)
    write_piece(rt, trace, from, counts, all, file);
  if (file) fputs("\n]", file);
  free(all);
  free(counts);
}
