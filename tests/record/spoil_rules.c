#include "tests/record/spoil_rules.h"

#include <string.h>

enum { SPOILED_HANDLE = 4000 };

static record_verdict drop(record_spoil *s, bool here) {
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

static record_verdict collective_missing(record_spoil *s, record_event *e) {
  return drop(s, is_grouped(e));
}
static record_verdict collective_kind(record_spoil *s, record_event *e) {
  const bool other = e->kind == RECORD_ALL_GATHER;
  if (at_first_collective(s, e))
    e->kind = e->terms.kind = other ? RECORD_REDUCE_SCATTER : RECORD_ALL_GATHER;
  return PASSES;
}
static record_verdict collective_count(record_spoil *s, record_event *e) {
  if (at_first_collective(s, e)) e->terms.shape[0]++;
  return PASSES;
}
static record_verdict collective_type(record_spoil *s, record_event *e) {
  if (at_first_collective(s, e))
    e->terms.dtype = e->terms.dtype == BD_RT_F32 ? BD_RT_BF16 : BD_RT_F32;
  return PASSES;
}
static record_verdict collective_group(record_spoil *s, record_event *e) {
  if (at_first_collective(s, e)) e->mask ^= 3;
  return PASSES;
}
// Begun and never waited for.
static record_verdict collective_unawaited(record_spoil *s, record_event *e) {
  if (at_first_collective(s, e)) e->handle = SPOILED_HANDLE;
  return PASSES;
}
// Two of different groups change places.
static record_verdict collective_order(record_spoil *s, record_event *e) {
  if (s->done || !is_grouped(e) || e->instruction != BD_RT_MARK_UPDATE) return PASSES;
  if (s->held.count == 0) return HELD;
  s->done = s->held.events[0].mask != e->mask;
  return s->done ? PASSES : HELD;
}

static record_verdict send_missing(record_spoil *s, record_event *e) {
  return drop(s, e->kind == RECORD_SEND);
}
static record_verdict receive_missing(record_spoil *s, record_event *e) {
  return drop(s, e->kind == RECORD_RECEIVE);
}
static record_verdict message_size(record_spoil *s, record_event *e) {
  if (!s->done && e->kind == RECORD_RECEIVE) {
    e->terms.shape[0] -= 4;
    s->done = true;
  }
  return PASSES;
}
// Receives before it sends what the other side waits for.
static record_verdict send_late(record_spoil *s, record_event *e) {
  if (s->done || !record_is_message(e->kind)) return PASSES;
  if (e->kind == RECORD_SEND) return HELD_TOO;
  s->done = s->held.count > 0;
  return PASSES;
}
// What a pass sends leaves one by one.
static record_verdict messages_alone(record_spoil *s, record_event *e) {
  s->done |= e->kind == RECORD_SEND && !e->alone;
  e->alone = true;
  return PASSES;
}
// What passes over stages has one line, as if it went to the next.
static record_verdict messages_in_line(record_spoil *s, record_event *e) {
  s->done |= record_is_message(e->kind) && e->terms.line > 0;
  e->terms.line = 0;
  return PASSES;
}
static record_verdict wait_missing(record_spoil *s, record_event *e) {
  return drop(s, e->kind == RECORD_WAIT && e->handle < RECORD_MOST_SLOTS);
}
static record_verdict wait_early(record_spoil *s, record_event *e) {
  if (!s->done && e->kind == RECORD_COPY) {
    record_event wait = {.kind = RECORD_WAIT, .handle = 0};
    s->done = true;
    record_spoil_pass(s, &wait);
  }
  return PASSES;
}

static record_verdict launch_missing(record_spoil *s, record_event *e) {
  return drop(s, e->kind == RECORD_LAUNCH);
}
static record_verdict launch_order(record_spoil *s, record_event *e) {
  if (s->done || e->kind != RECORD_LAUNCH) return PASSES;
  if (s->held.count == 0) return HELD;
  s->done = true;
  return PASSES;
}
static record_verdict beyond_arena(record_spoil *s, record_event *e) {
  if (!s->done && e->kind == RECORD_LAUNCH) {
    e->operands[e->operand_count - 1].start = s->rt->stage->arena_bytes;
    s->done = true;
  }
  return PASSES;
}
static record_verdict operand_place(record_spoil *s, record_event *e) {
  if (!s->done && e->kind == RECORD_LAUNCH) {
    e->operands[0].start += BD_RT_ALIGNMENT;
    s->done = true;
  }
  return PASSES;
}
static record_verdict operand_size(record_spoil *s, record_event *e) {
  if (!s->done && e->kind == RECORD_MATMUL) {
    e->operands[2].bytes += 4;
    s->done = true;
  }
  return PASSES;
}
static record_verdict sum_overwritten(record_spoil *s, record_event *e) {
  if (!s->done && e->kind == RECORD_MATMUL && e->operands[2].access == RECORD_UPDATE) {
    e->operands[2].access = RECORD_WRITE;
    s->done = true;
  }
  return PASSES;
}
static record_verdict sum_not_begun(record_spoil *s, record_event *e) {
  if (!s->done && e->kind == RECORD_MATMUL && e->operands[2].access == RECORD_WRITE) {
    e->operands[2].access = RECORD_UPDATE;
    s->done = true;
  }
  return PASSES;
}
static record_verdict clear_missing(record_spoil *s, record_event *e) {
  return drop(s, e->kind == RECORD_ZERO && e->instruction == BD_RT_MARK_CLEAR);
}
static record_verdict apply_missing(record_spoil *s, record_event *e) {
  return drop(s, e->kind == RECORD_APPLY);
}
static record_verdict gather_missing(record_spoil *s, record_event *e) {
  return drop(s, e->kind == RECORD_ALL_GATHER && e->instruction == BD_RT_MARK_UPDATE);
}

static bool sums(const record_event *e) {
  return (e->instruction == BD_RT_MARK_UPDATE || e->handle == RECORD_ASIDE) &&
         (e->kind == RECORD_ALL_REDUCE || e->kind == RECORD_REDUCE_SCATTER);
}
static record_verdict sum_missing(record_spoil *s, record_event *e) {
  return drop(s, sums(e));
}
// The first that matches comes twice.
static record_verdict repeat(record_spoil *s, record_event *e, bool matches) {
  if (!s->done && matches) {
    s->done = true;
    record_spoil_pass(s, e);
  }
  return PASSES;
}
static record_verdict sum_twice(record_spoil *s, record_event *e) {
  return repeat(s, e, sums(e));
}

// What goes on beside is not waited for; it begins before its last term is there.
static record_verdict aside_unawaited(record_spoil *s, record_event *e) {
  return drop(s, e->kind == RECORD_WAIT && e->handle == RECORD_ASIDE);
}
static record_verdict aside_early(record_spoil *s, record_event *e) {
  if (!s->done && e->kind == RECORD_MATMUL && e->operands[2].access == RECORD_UPDATE) {
    record_operand sum = e->operands[2];
    record_event early = {.kind = RECORD_CLEAR_PADDING,
                          .instruction = e->instruction,
                          .handle = RECORD_ASIDE,
                          .operand_count = 1,
                          .operands = &sum};
    s->done = true;
    record_spoil_pass(s, &early);
  }
  return PASSES;
}

// A collective beside other steps is not waited for; what it reads is written meanwhile.
static record_verdict beside_unawaited(record_spoil *s, record_event *e) {
  return drop(s, e->kind == RECORD_WAIT && e->handle >= RECORD_PREFETCH);
}
static record_verdict beside_overwritten(record_spoil *s, record_event *e) {
  if (s->done || e->kind != RECORD_ALL_REDUCE || e->handle < RECORD_PREFETCH) return PASSES;
  record_operand operand = e->operands[0];
  operand.access = RECORD_WRITE;
  record_event write = {.kind = RECORD_CLEAR_PADDING,
                        .instruction = e->instruction,
                        .handle = RECORD_ASIDE,
                        .operand_count = 1,
                        .operands = &operand};
  s->done = true;
  record_spoil_pass(s, e);
  record_spoil_pass(s, &write);
  return DROPPED;
}

static bool is_deferred(const record_event *e) {
  return e->handle >= RECORD_DEFERRED && e->handle < RECORD_HANDLES;
}
static bool is_deferred_gather(const record_event *e) {
  return is_deferred(e) && e->kind == RECORD_ALL_GATHER;
}

// A deferred gather is not waited for, nor is any, or late; nobody asks for any; one is asked for
// twice, at once or when it is over.
static record_verdict deferred_unawaited(record_spoil *s, record_event *e) {
  return drop(s, is_deferred(e) && e->kind == RECORD_WAIT);
}
static record_verdict deferred_left(record_spoil *s, record_event *e) {
  if (!is_deferred(e) || e->kind != RECORD_WAIT) return PASSES;
  s->done = true;
  return DROPPED;
}
static record_verdict deferred_late(record_spoil *s, record_event *e) {
  if (s->done) return PASSES;
  if (s->held.count == 0) return is_deferred(e) && e->kind == RECORD_WAIT ? HELD : PASSES;
  s->done = e->kind == RECORD_LAUNCH;
  return PASSES;
}
static record_verdict deferred_missing(record_spoil *s, record_event *e) {
  (void)s;
  if (!is_deferred_gather(e)) return PASSES;
  s->done = true;
  return DROPPED;
}
static record_verdict deferred_twice(record_spoil *s, record_event *e) {
  return repeat(s, e, is_deferred_gather(e));
}
static record_verdict deferred_again(record_spoil *s, record_event *e) {
  if (s->done) return PASSES;
  if (s->held.count == 0 && is_deferred_gather(e)) {
    record_spoil_pass(s, e);
    return HELD;
  }
  s->done = s->held.count > 0 && is_deferred(e) && e->kind == RECORD_WAIT;
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
static record_verdict overlap(record_spoil *s, record_event *e) {
  if (between(s, e) || s->done) return PASSES;
  const int64_t written = written_by(e);
  const bool untouched = s->last >= 0 && !reads(e, s->last);
  if (s->moved.to < 0 && untouched && in_workspace(s, written))
    s->moved = (record_move){written, s->last};
  if (s->moved.to < 0 && !untouched)
    s->last = e->kind == RECORD_LAUNCH && in_workspace(s, written) ? written : -1;
  move(s, e);
  return PASSES;
}

// The same where the other one has been read once, in every function; some read it again.
static record_verdict overlap_late(record_spoil *s, record_event *e) {
  if (between(s, e)) return PASSES;
  const int64_t written = written_by(e);
  const bool reader = s->last >= 0 && reads(e, s->last);
  if (e->kind == RECORD_ALL_GATHER && in_workspace(s, written)) {
    s->last = written;
    s->read = false;
  } else if (s->moved.to < 0 && s->read && !reader && written != s->last &&
             in_workspace(s, written)) {
    s->moved = (record_move){written, s->last};
  }
  s->read |= reader;
  move(s, e);
  return PASSES;
}

static record_verdict nothing(record_spoil *s, record_event *e) {
  (void)s, (void)e;
  return PASSES;
}
// Two weights have one place; the program's tables are the run's own.
static bool same_place(const bd_rt *rt) {
  bd_rt_weight *const weights = (bd_rt_weight *)(uintptr_t)rt->stage->weights;
  weights[1].weight_offset = weights[0].weight_offset;
  return true;
}

static const record_rule rules[] = {
    {.name = "collective-missing", .apply = collective_missing},
    {.name = "collective-kind", .apply = collective_kind},
    {.name = "collective-count", .apply = collective_count},
    {.name = "collective-type", .apply = collective_type},
    {.name = "collective-group", .apply = collective_group},
    {.name = "collective-order", .apply = collective_order},
    {.name = "collective-unawaited", .apply = collective_unawaited},
    {.name = "send-missing", .apply = send_missing},
    {.name = "send-late", .apply = send_late},
    {.name = "receive-missing", .apply = receive_missing},
    {.name = "message-size", .apply = message_size},
    {.name = "messages-alone", .apply = messages_alone, .of_all = true},
    {.name = "messages-in-line", .apply = messages_in_line, .of_all = true},
    {.name = "wait-missing", .apply = wait_missing},
    {.name = "wait-early", .apply = wait_early},
    {.name = "launch-missing", .apply = launch_missing},
    {.name = "launch-order", .apply = launch_order},
    {.name = "beyond-arena", .apply = beyond_arena},
    {.name = "operand-place", .apply = operand_place},
    {.name = "operand-size", .apply = operand_size},
    {.name = "sum-overwritten", .apply = sum_overwritten},
    {.name = "sum-not-begun", .apply = sum_not_begun},
    {.name = "clear-missing", .apply = clear_missing},
    {.name = "apply-missing", .apply = apply_missing},
    {.name = "sum-missing", .apply = sum_missing},
    {.name = "sum-twice", .apply = sum_twice},
    {.name = "gather-missing", .apply = gather_missing},
    {.name = "aside-unawaited", .apply = aside_unawaited},
    {.name = "aside-early", .apply = aside_early},
    {.name = "beside-unawaited", .apply = beside_unawaited},
    {.name = "beside-overwritten", .apply = beside_overwritten},
    {.name = "deferred-unawaited", .apply = deferred_unawaited},
    {.name = "deferred-left", .apply = deferred_left, .of_all = true},
    {.name = "deferred-late", .apply = deferred_late},
    {.name = "deferred-missing", .apply = deferred_missing, .of_all = true},
    {.name = "deferred-twice", .apply = deferred_twice, .of_all = true},
    {.name = "deferred-again", .apply = deferred_again, .of_all = true},
    {.name = "buffers-overlap", .apply = nothing, .enter = same_place},
    {.name = "overlap", .apply = overlap},
    {.name = "overlap-late", .apply = overlap_late},
};
const record_rule *record_rule_find(const char *name) {
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (strcmp(rules[i].name, name) == 0) return &rules[i];
  return NULL;
}
