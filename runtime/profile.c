#include "runtime/profile.h"

#include "runtime/backend.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  FIELDS = 3, // of an instruction: calls, nanoseconds of all, nanoseconds of the shortest
  DEPTH = 8,  // of ranges in ranges: a step's passes' layers, and room
};

// Noted and not read yet, or (stamp: -1) read: nanoseconds since the step began.
typedef struct moment {
  int stamp;
  int64_t nanos;
} moment;

// A span whose times are not known yet.
typedef struct note {
  bd_rt_span span;
  moment start, until;
} note;

struct bd_rt_profile {
  int on, tracing, stamps; // stamp 0 is the step's start
  note current;            // the instruction
  note queued;             // of another queue than the rank's own
  int depth;
  note open[DEPTH];
  int note_count;
  note notes[BD_RT_STAMPS];
  double seconds[BD_RT_STAMPS];
  int64_t *rows; // [instruction][FIELDS]
  bd_rt_trace trace;
};

int bd_rt_profile_open(bd_rt *rt) {
  if (!rt->options.profile) return 0;
  rt->profile = calloc(1, sizeof *rt->profile);
  if (rt->profile)
    rt->profile->rows =
        calloc((size_t)rt->program->instruction_count * FIELDS, sizeof *rt->profile->rows);
  const int good = rt->profile && rt->profile->rows;
  const int status = bd_rt_agree(rt, good ? 0 : BD_RT_EXIT_EXTERNAL, "out of memory");
  return status ? status : bd_rt_agree(rt, bd_rt_stamps_open(rt), "cannot time the device");
}

void bd_rt_profile_close(bd_rt *rt) {
  if (rt->profile) {
    bd_rt_stamps_close(rt);
    bd_rt_trace_clear(&rt->profile->trace);
    free(rt->profile->rows);
  }
  free(rt->profile);
  rt->profile = NULL;
}

static void add_to_row(bd_rt_profile *p, int64_t instruction, int64_t nanos) {
  int64_t *const row = p->rows + (size_t)instruction * FIELDS;
  row[2] = row[0] == 0 || nanos < row[2] ? nanos : row[2];
  row[0]++;
  row[1] += nanos;
}

// The runtime's own instructions are traced as what they are made of.
static int is_traced(const bd_rt_span *span) {
  return span->what != BD_RT_STEP &&
         (span->what != BD_RT_SPAN_INSTRUCTION || span->number >= BD_RT_MARKS ||
          span->number == BD_RT_MARK_CLEAR);
}

static void resolve(const bd_rt_profile *p, moment *m) {
  if (m->stamp >= 0) *m = (moment){-1, (int64_t)(1e9 * p->seconds[m->stamp])};
}

// Waits for the device and reads what was noted.
static void read_notes(bd_rt *rt) {
  bd_rt_profile *const p = rt->profile;
  bd_rt_stamps_read(rt, p->stamps, p->seconds);
  for (int i = 0; i < p->note_count; i++) {
    note *const n = &p->notes[i];
    resolve(p, &n->start);
    resolve(p, &n->until);
    n->span.start_nanos = n->start.nanos;
    n->span.until_nanos = n->until.nanos;
    if (n->span.what == BD_RT_SPAN_INSTRUCTION)
      add_to_row(p, n->span.number, n->until.nanos - n->start.nanos);
    if (p->tracing && is_traced(&n->span)) bd_rt_trace_add(&p->trace, &n->span);
  }
  for (int i = 0; i < p->depth; i++)
    resolve(p, &p->open[i].start);
  resolve(p, &p->current.start);
  resolve(p, &p->queued.start);
  p->note_count = 0;
  p->stamps = 1;
}

// Between two calls at most three spans end.
static moment now(bd_rt *rt, void *queue) {
  bd_rt_profile *const p = rt->profile;
  if (p->stamps == BD_RT_STAMPS || p->note_count + 3 > BD_RT_STAMPS) read_notes(rt);
  bd_rt_stamp(rt, p->stamps, queue);
  return (moment){.stamp = p->stamps++};
}

static void end_note(bd_rt_profile *p, note *n, moment until) {
  n->until = until;
  p->notes[p->note_count++] = *n;
}

static note instruction(int number, moment start) {
  return (note){.span = {.what = BD_RT_SPAN_INSTRUCTION, .number = number}, .start = start};
}

void bd_rt_profile_start(bd_rt *rt) {
  bd_rt_profile *const p = rt->profile;
  if (!p || (rt->step == 0 && rt->options.steps > 1)) return;
  p->tracing = (int64_t)rt->step + 1 == rt->options.steps;
  bd_rt_settle(rt);
  bd_rt_agree(rt, 0, ""); // one time for all ranks, as far as they can tell
  p->on = 1;
  p->depth = p->note_count = p->stamps = 0;
  p->current = instruction(BD_RT_MARK_OTHER, now(rt, NULL));
}

void bd_rt_mark(bd_rt *rt, int number) {
  bd_rt_profile *const p = rt->profile;
  if (!p || !p->on) return;
  const moment at = now(rt, NULL);
  end_note(p, &p->current, at);
  p->current = instruction(number, at);
}

void bd_rt_begin(bd_rt *rt, int what, int64_t number) {
  bd_rt_profile *const p = rt->profile;
  bd_rt_annotate(rt, what, number);
  if (!p || !p->on) return;
  if (p->depth == DEPTH) bd_rt_fail(BD_RT_EXIT_INTERNAL, "ranges lie in each other too deep");
  const int sync = what == BD_RT_REDUCE || what == BD_RT_UPDATE;
  const moment at = now(rt, NULL);
  p->open[p->depth++] = (note){.span = {.thread = sync ? BD_RT_THREAD_SYNC : BD_RT_THREAD_COMPUTE,
                                        .what = what,
                                        .number = number},
                               .start = at};
}

void bd_rt_end(bd_rt *rt) {
  bd_rt_profile *const p = rt->profile;
  bd_rt_annotate_end(rt);
  if (!p || !p->on || p->depth == 0) return;
  const moment at = now(rt, NULL);
  end_note(p, &p->open[--p->depth], at);
}

// The pass around what begins now.
static void set_pass(const bd_rt_profile *p, bd_rt_span *span) {
  span->pass = BD_RT_STEP;
  for (int i = 0; i < p->depth; i++)
    if (p->open[i].span.what == BD_RT_FORWARD || p->open[i].span.what == BD_RT_BACKWARD) {
      span->pass = p->open[i].span.what;
      span->micro_batch = p->open[i].span.number;
    }
}

static void begin_queued(bd_rt *rt, bd_rt_span span, void *queue) {
  bd_rt_profile *const p = rt->profile;
  if (!p || !p->on) return;
  set_pass(p, &span);
  const moment at = now(rt, queue);
  p->queued = (note){.span = span, .start = at};
}

void bd_rt_profile_message(bd_rt *rt, bd_rt_thread thread, int stage, int tag, int64_t bytes,
                           void *queue) {
  const bd_rt_span span = {
      .thread = thread, .what = BD_RT_SPAN_MESSAGE, .stage = stage, .tag = tag, .bytes = bytes};
  begin_queued(rt, span, queue);
}

void bd_rt_profile_aside(bd_rt *rt, void *queue) {
  begin_queued(rt, (bd_rt_span){.thread = BD_RT_THREAD_SYNC, .what = BD_RT_SPAN_BESIDE}, queue);
}

void bd_rt_profile_collective(bd_rt *rt, void *queue) {
  if (!rt->profile) return;
  const bd_rt_span span = {.thread = BD_RT_THREAD_COLLECTIVES,
                           .what = BD_RT_SPAN_BESIDE,
                           .number = rt->profile->current.span.number};
  begin_queued(rt, span, queue);
}

void bd_rt_profile_queued_end(bd_rt *rt, void *queue) {
  bd_rt_profile *const p = rt->profile;
  if (!p || !p->on) return;
  const moment at = now(rt, queue);
  end_note(p, &p->queued, at);
}

void bd_rt_profile_stop(bd_rt *rt) {
  bd_rt_mark(rt, BD_RT_MARK_OTHER);
  if (!rt->profile || !rt->profile->on) return;
  read_notes(rt);
  rt->profile->on = 0;
}

static void write_rank(const bd_rt_program *program, int rank, const int64_t *rows, FILE *file) {
  const int devices = program->mesh[0] * program->mesh[1] * program->mesh[2] * program->mesh[3];
  fprintf(file, "%s\n  {\"rank\": %d, \"stage\": %d, \"times\": [", rank ? "," : "", rank,
          rank / devices);
  const char *comma = "";
  for (int i = 0; i < program->instruction_count; i++) {
    const int64_t *const row = rows + (size_t)i * FIELDS;
    if (row[0] == 0) continue;
    fprintf(file, "%s\n    [%d, %lld, %.9f, %.9f]", comma, i, (long long)row[0],
            1e-9 * (double)row[1], 1e-9 * (double)row[2]);
    comma = ",";
  }
  fputs("]}", file);
}

static void write_times(const bd_rt *rt, const int64_t *rows, FILE *file) {
  const bd_rt_program *const program = rt->program;
  const long long steps = rt->options.steps > 1 ? (long long)rt->options.steps - 1 : 1;
  fprintf(file, "\"braid_profile\": 1, \"steps\": %lld, \"instructions\": [", steps);
  for (int i = 0; i < program->instruction_count; i++) {
    const bd_rt_instruction *const at = &program->instructions[i];
    fprintf(file, "%s\n  {\"function\": %d, \"step\": %d, \"what\": \"%s\"}", i ? "," : "",
            at->function, at->step, at->what);
  }
  fputs("], \"ranks\": [", file);
  for (int rank = 0; rank < rt->ranks; rank++)
    write_rank(program, rank, rows + (size_t)rank * (size_t)program->instruction_count * FIELDS,
               file);
  fputs("], ", file);
}

// Whether every rank may go on writing; `path` is rank 0's.
static int agree_file(bd_rt *rt, const char *path, int failed) {
  char message[1024] = "";
  if (failed) snprintf(message, sizeof message, "%s: %s", path, strerror(errno));
  return bd_rt_agree(rt, failed ? BD_RT_EXIT_EXTERNAL : 0, message);
}

int bd_rt_profile_write(bd_rt *rt, const char *path) {
  const size_t fields = (size_t)rt->program->instruction_count * FIELDS;
  const size_t ranks = rt->rank == 0 ? (size_t)rt->ranks : 1;
  FILE *const file = rt->rank == 0 ? fopen(path, "w") : NULL;
  const int status = agree_file(rt, path, rt->rank == 0 && !file);
  if (status) return status;
  int64_t *const rows = bd_rt_allocate(ranks * fields, sizeof *rows);
  bd_rt_gather_rows(rt, rt->profile->rows, (int)fields, rows);
  if (file) {
    fputs("{", file);
    write_times(rt, rows, file);
  }
  bd_rt_trace_write(rt, &rt->profile->trace, file);
  free(rows);
  int failed = 0;
  if (file) {
    fputs("}\n", file);
    failed = ferror(file);
    failed |= fclose(file) != 0;
  }
  return agree_file(rt, path, failed);
}
