#include "tests/record/spoil.h"

#include "tests/record/group.h"

#include <stdlib.h>
#include <string.h>

enum { SPOILED_HANDLE = 4000 };

typedef struct place { // what may be moved onto what
  int64_t from, to;
} place;

struct record_spoil {
  const record_sink *inner;
  record_sink sink;
  const struct rule *rule;
  const bd_rt *rt;
  bool done;
  record_group held; // an event that waits for another to overtake it
  int64_t last;      // where a value was written into the workspace; -1: nowhere
  bool read;         // somebody has read it
  place moved;       // to -1: nothing
};

// What becomes of an event.
typedef enum verdict {
  PASSES,
  DROPPED,
  HELD, // in the place of the one held before
  HELD_TOO
} verdict;

typedef struct rule {
  const char *name;
  verdict (*apply)(record_spoil *spoil, record_event *event);
  bool (*enter)(const bd_rt *rt); // before all events, or NULL
} rule;

static void pass_on(const record_spoil *s, record_event *event) {
  s->inner->take(s->inner->args, event);
}

static verdict drop(record_spoil *s, bool here) {
  if (!here || s->done) return PASSES;
  s->done = true;
  return DROPPED;
}

// Collectives of a group, which host sums are not.
static bool is_grouped(const record_event *e) {
  return record_is_collective(e->kind) && e->kind != RECORD_SUM_RANKS;
}

static bool at_first_collective(record_spoil *s, const record_event *e) {
  if (s->done || !is_grouped(e)) return false;
  s->done = true;
  return true;
}

static verdict collective_missing(record_spoil *s, record_event *e) {
  return drop(s, is_grouped(e));
}
static verdict collective_kind(record_spoil *s, record_event *e) {
  const bool other = e->kind == RECORD_ALL_GATHER;
  if (at_first_collective(s, e))
    e->kind = e->terms.kind = other ? RECORD_REDUCE_SCATTER : RECORD_ALL_GATHER;
  return PASSES;
}
static verdict collective_count(record_spoil *s, record_event *e) {
  if (at_first_collective(s, e)) e->terms.shape[0]++;
  return PASSES;
}
static verdict collective_type(record_spoil *s, record_event *e) {
  if (at_first_collective(s, e))
    e->terms.dtype = e->terms.dtype == BD_RT_F32 ? BD_RT_BF16 : BD_RT_F32;
  return PASSES;
}
static verdict collective_group(record_spoil *s, record_event *e) {
  if (at_first_collective(s, e)) e->mask ^= 3;
  return PASSES;
}
// Begun and never waited for.
static verdict collective_unawaited(record_spoil *s, record_event *e) {
  if (at_first_collective(s, e)) e->handle = SPOILED_HANDLE;
  return PASSES;
}
// Two of different groups change places.
static verdict collective_order(record_spoil *s, record_event *e) {
  if (s->done || !is_grouped(e) || e->instruction != BD_RT_MARK_UPDATE) return PASSES;
  if (s->held.count == 0) return HELD;
  s->done = s->held.events[0].mask != e->mask;
  return s->done ? PASSES : HELD;
}

static verdict send_missing(record_spoil *s, record_event *e) {
  return drop(s, e->kind == RECORD_SEND);
}
static verdict receive_missing(record_spoil *s, record_event *e) {
  return drop(s, e->kind == RECORD_RECEIVE);
}
static verdict message_size(record_spoil *s, record_event *e) {
  if (!s->done && e->kind == RECORD_RECEIVE) {
    e->terms.shape[0] -= 4;
    s->done = true;
  }
  return PASSES;
}
// Receives before it sends what the other side waits for.
static verdict send_late(record_spoil *s, record_event *e) {
  if (s->done || !record_is_message(e->kind)) return PASSES;
  if (e->kind == RECORD_SEND) return HELD_TOO;
  s->done = s->held.count > 0;
  return PASSES;
}
static verdict wait_missing(record_spoil *s, record_event *e) {
  return drop(s, e->kind == RECORD_WAIT);
}
static verdict wait_early(record_spoil *s, record_event *e) {
  if (!s->done && e->kind == RECORD_COPY) {
    record_event wait = {.kind = RECORD_WAIT, .handle = 0};
    s->done = true;
    pass_on(s, &wait);
  }
  return PASSES;
}

static verdict launch_missing(record_spoil *s, record_event *e) {
  return drop(s, e->kind == RECORD_LAUNCH);
}
static verdict launch_order(record_spoil *s, record_event *e) {
  if (s->done || e->kind != RECORD_LAUNCH) return PASSES;
  if (s->held.count == 0) return HELD;
  s->done = true;
  return PASSES;
}
static verdict beyond_arena(record_spoil *s, record_event *e) {
  if (!s->done && e->kind == RECORD_LAUNCH) {
    e->operands[e->operand_count - 1].start = s->rt->stage->arena_bytes;
    s->done = true;
  }
  return PASSES;
}
static verdict operand_place(record_spoil *s, record_event *e) {
  if (!s->done && e->kind == RECORD_LAUNCH) {
    e->operands[0].start += BD_RT_ALIGNMENT;
    s->done = true;
  }
  return PASSES;
}
static verdict operand_size(record_spoil *s, record_event *e) {
  if (!s->done && e->kind == RECORD_MATMUL) {
    e->operands[2].bytes += 4;
    s->done = true;
  }
  return PASSES;
}
static verdict sum_overwritten(record_spoil *s, record_event *e) {
  if (!s->done && e->kind == RECORD_MATMUL && e->operands[2].access == RECORD_UPDATE) {
    e->operands[2].access = RECORD_WRITE;
    s->done = true;
  }
  return PASSES;
}
static verdict sum_not_begun(record_spoil *s, record_event *e) {
  if (!s->done && e->kind == RECORD_MATMUL && e->operands[2].access == RECORD_WRITE) {
    e->operands[2].access = RECORD_UPDATE;
    s->done = true;
  }
  return PASSES;
}
static verdict clear_missing(record_spoil *s, record_event *e) {
  return drop(s, e->kind == RECORD_ZERO && e->instruction == BD_RT_MARK_CLEAR);
}
static verdict apply_missing(record_spoil *s, record_event *e) {
  return drop(s, e->kind == RECORD_APPLY);
}
static verdict gather_missing(record_spoil *s, record_event *e) {
  return drop(s, e->kind == RECORD_ALL_GATHER && e->instruction == BD_RT_MARK_UPDATE);
}

static bool sums(const record_event *e) {
  return e->instruction == BD_RT_MARK_UPDATE &&
         (e->kind == RECORD_ALL_REDUCE || e->kind == RECORD_REDUCE_SCATTER);
}
static verdict sum_missing(record_spoil *s, record_event *e) {
  return drop(s, sums(e));
}
static verdict sum_twice(record_spoil *s, record_event *e) {
  if (!s->done && sums(e)) {
    s->done = true;
    pass_on(s, e);
  }
  return PASSES;
}

static int64_t written_by(const record_event *e) {
  if (e->kind == RECORD_LAUNCH) return e->operands[e->operand_count - 1].start;
  for (int i = 0; i < e->operand_count; i++)
    if (e->operands[i].access == RECORD_WRITE) return e->operands[i].start;
  return -1;
}

static bool reads(const record_event *e, int64_t start) {
  for (int i = 0; i < e->operand_count; i++)
    if (e->operands[i].start == start) return true;
  return false;
}

static bool in_workspace(const record_spoil *s, int64_t start) {
  int64_t first = 0;
  for (int segment = 1; segment < 6;
       segment++) // those before the workspace, as bd_segment has them
    first += s->rt->stage->segment_bytes[segment];
  return start >= first && start < first + s->rt->stage->segment_bytes[6];
}

// Until the function is over, what lies at `from` lies where another value does.
static void move(record_spoil *s, record_event *e) {
  for (int i = 0; s->moved.to >= 0 && i < e->operand_count; i++)
    if (e->operands[i].start == s->moved.from) e->operands[i].start = s->moved.to;
}

// Between functions; what was moved stays so no longer.
static bool between(record_spoil *s, const record_event *e) {
  if (e->instruction >= BD_RT_MARKS) return e->kind == RECORD_MARK;
  s->last = -1;
  if (s->moved.to >= 0) s->done = true;
  s->moved.to = -1;
  return true;
}

// A value is placed where another one lies that nobody has read yet.
static verdict overlap(record_spoil *s, record_event *e) {
  if (between(s, e) || s->done) return PASSES;
  const int64_t written = written_by(e);
  const bool untouched = s->last >= 0 && !reads(e, s->last);
  if (s->moved.to < 0 && untouched && in_workspace(s, written))
    s->moved = (place){written, s->last};
  if (s->moved.to < 0 && !untouched)
    s->last = e->kind == RECORD_LAUNCH && in_workspace(s, written) ? written : -1;
  move(s, e);
  return PASSES;
}

// The same where the other one has been read once, in every function; some read it again.
static verdict overlap_late(record_spoil *s, record_event *e) {
  if (between(s, e)) return PASSES;
  const int64_t written = written_by(e);
  const bool reader = s->last >= 0 && reads(e, s->last);
  if (e->kind == RECORD_ALL_GATHER && in_workspace(s, written)) {
    s->last = written;
    s->read = false;
  } else if (s->moved.to < 0 && s->read && !reader && written != s->last &&
             in_workspace(s, written)) {
    s->moved = (place){written, s->last};
  }
  s->read |= reader;
  move(s, e);
  return PASSES;
}

static verdict nothing(record_spoil *s, record_event *e) {
  (void)s, (void)e;
  return PASSES;
}
// Two weights have one place; the program's tables are the run's own.
static bool same_place(const bd_rt *rt) {
  bd_rt_weight *const weights = (bd_rt_weight *)(uintptr_t)rt->stage->weights;
  weights[1].weight_offset = weights[0].weight_offset;
  return true;
}

static const rule rules[] = {
    {"collective-missing", collective_missing, NULL},
    {"collective-kind", collective_kind, NULL},
    {"collective-count", collective_count, NULL},
    {"collective-type", collective_type, NULL},
    {"collective-group", collective_group, NULL},
    {"collective-order", collective_order, NULL},
    {"collective-unawaited", collective_unawaited, NULL},
    {"send-missing", send_missing, NULL},
    {"send-late", send_late, NULL},
    {"receive-missing", receive_missing, NULL},
    {"message-size", message_size, NULL},
    {"wait-missing", wait_missing, NULL},
    {"wait-early", wait_early, NULL},
    {"launch-missing", launch_missing, NULL},
    {"launch-order", launch_order, NULL},
    {"beyond-arena", beyond_arena, NULL},
    {"operand-place", operand_place, NULL},
    {"operand-size", operand_size, NULL},
    {"sum-overwritten", sum_overwritten, NULL},
    {"sum-not-begun", sum_not_begun, NULL},
    {"clear-missing", clear_missing, NULL},
    {"apply-missing", apply_missing, NULL},
    {"sum-missing", sum_missing, NULL},
    {"sum-twice", sum_twice, NULL},
    {"gather-missing", gather_missing, NULL},
    {"buffers-overlap", nothing, same_place},
    {"overlap", overlap, NULL},
    {"overlap-late", overlap_late, NULL},
};
enum { RULES = sizeof rules / sizeof *rules };

static void begin(void *args, const bd_rt *rt) {
  record_spoil *const s = args;
  s->rt = rt;
  s->last = s->moved.to = -1;
  if (rt->rank == 0 && s->rule->enter) s->done = s->rule->enter(rt);
  s->inner->begin(s->inner->args, rt);
}

static void release(record_spoil *s) {
  record_group_close(&s->held);
  for (int i = 0; i < s->held.count; i++)
    pass_on(s, &s->held.events[i]);
  record_group_clear(&s->held);
}

static void take(void *args, record_event *event) {
  record_spoil *const s = args;
  const bool was_done = s->done;
  const verdict verdict = s->rt->rank == 0 ? s->rule->apply(s, event) : PASSES;
  if (verdict == HELD || verdict == HELD_TOO) {
    if (verdict == HELD) release(s);
    record_group_add(&s->held, event);
    return;
  }
  if (verdict == PASSES) pass_on(s, event);
  if (s->done && !was_done) release(s);
}

static void end(void *args) {
  record_spoil *const s = args;
  release(s);
  s->inner->end(s->inner->args);
}

record_spoil *record_spoil_create(const char *what, const record_sink *sink,
                                  const record_sink **out_sink) {
  for (int i = 0; i < RULES; i++) {
    if (strcmp(rules[i].name, what) != 0) continue;
    record_spoil *const s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->inner = sink;
    s->rule = &rules[i];
    s->sink = (record_sink){begin, take, end, s};
    *out_sink = &s->sink;
    return s;
  }
  return NULL;
}

bool record_spoil_done(const record_spoil *spoil) {
  return spoil->done;
}

void record_spoil_destroy(record_spoil *s) {
  if (s) record_group_deinit(&s->held);
  free(s);
}
