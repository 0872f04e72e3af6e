#include "tests/record/check.h"

#include "runtime/braid_rt_abi.h"
#include "tests/record/ends.h"
#include "tests/record/match.h"

#include <stdlib.h>

struct record_check {
  record_holding h;
  const record_next *next;
  int instruction;    // the last mark
  int step, pass, at; // training step; place in the expectation
  int first, end;     // its passes that are gone through
  bool in_step;       // between clearing and update, or in an evaluation
  bool lost;          // the record has left the expectation: values are followed no longer
  record_group group;
  record_ends ends;
};

static const record_pass *pass_at(const record_check *c) {
  const bd_stage_pass *const pass = &c->h.e->passes[c->pass];
  return pass->kind == BD_PASS_FORWARD ? &c->h.e->forward : &c->h.e->backward;
}

static const record_instruction *expected(const record_check *c) {
  return c->pass < c->end ? &pass_at(c)->instructions[c->at] : NULL;
}

// Passes without instructions are none.
static void enter_pass(record_check *c, int pass) {
  c->pass = pass;
  c->at = 0;
  while (c->pass < c->end && pass_at(c)->count == 0)
    c->pass++;
  c->next->phase(c->next->args, c->pass < c->end ? c->pass : RECORD_END);
}

static bool evaluates(const record_check *c) {
  return c->in_step && c->first > 0;
}

// An evaluation goes through its passes once for each batch.
static void advance(record_check *c) {
  if (++c->at == pass_at(c)->count) enter_pass(c, c->pass + 1);
  if (c->pass == c->end && evaluates(c)) enter_pass(c, c->first);
}

static void set_place(record_check *c, const char *name) {
  const bool inside = c->in_step && c->pass < c->end;
  c->h.place = (record_place){c->step, inside ? c->pass : -1, c->instruction, name};
}

record_check *record_check_begin(const record_expectation *e, const bd_rt *rt,
                                 record_faults *faults, const record_next *next) {
  record_check *const c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->next = next;
  c->step = -1;
  if (record_holding_init(&c->h, e, rt, faults) || record_ends_init(&c->ends, &c->h)) return NULL;
  return c;
}

// Whether the program's instruction is the expected one. A loop over ops of main names its first.
static bool is_expected(const record_check *c, const record_instruction *in) {
  if (c->instruction < BD_RT_MARKS) return in->function < 0;
  const bd_rt_instruction *const row = &c->h.rt->program->instructions[c->instruction];
  if (row->function != in->function) return false;
  if (row->function >= 0) return row->step == in->step;
  int same = 0;
  while (in->name[same] && row->what[same] == in->name[same])
    same++;
  return !in->name[same] && !row->what[same];
}

// The events of one instruction are there.
static void finish_group(record_check *c) {
  const record_instruction *const in = expected(c);
  if (c->group.count == 0) return;
  record_group_close(&c->group);
  if (!c->lost) {
    set_place(c, in ? in->name : "after the last");
    if (!in || !is_expected(c, in)) {
      record_fault(c->h.faults, "%s: the program does %s here", record_where(&c->h),
                   record_kind_name(c->group.events[0].kind));
      c->lost = true;
    } else {
      c->lost = !record_match(&c->h, in, c->h.e->passes[c->pass].micro_batch, &c->group);
    }
  }
  for (int i = 0; i < c->group.count; i++)
    c->next->take(c->next->args, &c->group.events[i]);
  if (!c->lost) advance(c);
  record_group_clear(&c->group);
}

static void begin_passes(record_check *c, int first, int end) {
  c->first = first;
  c->end = end;
  c->in_step = true;
  enter_pass(c, first);
}

static void begin_step(record_check *c) {
  c->step++;
  c->in_step = false;
  record_ends_new_step(&c->ends);
  c->next->phase(c->next->args, RECORD_CLEAR);
}

static void end_passes(record_check *c) {
  if (!c->lost && c->in_step && c->pass < c->end) {
    set_place(c, expected(c)->name);
    record_fault(c->h.faults, "%s: the step ends before it", record_where(&c->h));
  }
  c->in_step = false;
}

// With all of its batches.
static void end_evaluation(record_check *c) {
  if (!c->lost && (c->pass > c->first || c->at > 0)) {
    set_place(c, expected(c)->name);
    record_fault(c->h.faults, "%s: the evaluation ends before it", record_where(&c->h));
  }
  c->in_step = false;
}

static void take_mark(record_check *c, int instruction) {
  finish_group(c);
  const int before = c->instruction;
  c->instruction = instruction;
  if (instruction == RECORD_EVALUATES) {
    c->instruction = BD_RT_MARK_OTHER;
    begin_passes(c, c->h.e->pass_count, c->h.e->all_pass_count);
  } else if (instruction == BD_RT_MARK_CLEAR) {
    begin_step(c);
  } else if (instruction == BD_RT_MARK_UPDATE) {
    end_passes(c);
  } else if (instruction == BD_RT_MARK_OTHER && before == BD_RT_MARK_CLEAR) {
    begin_passes(c, 0, c->h.e->pass_count);
  } else if (instruction == BD_RT_MARK_OTHER && before == BD_RT_MARK_UPDATE) {
    record_ends_check(&c->ends);
  }
}

// Clearing, update and what is exchanged between them. Where values are followed no longer, nobody
// knows what a slot's wait is for.
static void take_outside(record_check *c, const record_event *event) {
  set_place(c, record_kind_name(event->kind));
  if (!c->lost || event->handle < RECORD_PREFETCH)
    record_ends_take(&c->ends, event, c->instruction == BD_RT_MARK_CLEAR);
  c->next->take(c->next->args, event);
}

// Sums of gradients and deferred gathers beside the passes, and waits for what has a slot: no
// instruction's.
static bool is_aside(const record_event *event) {
  if (event->handle >= RECORD_DEFERRED && event->handle < RECORD_HANDLES) return true;
  return event->handle >= RECORD_ASIDE &&
         (event->handle == RECORD_ASIDE) == (event->kind != RECORD_WAIT);
}

// A kernel that follows a product is the next of what is expected.
static bool goes_on(const record_check *c) {
  const record_instruction *const in = expected(c);
  return !c->lost && in && in->goes_on;
}

void record_check_take(record_check *c, const record_event *event) {
  if (event->kind == RECORD_MARK) {
    take_mark(c, event->instruction);
  } else if (!c->in_step || event->kind == RECORD_SUM_RANKS || is_aside(event)) {
    if (c->in_step) finish_group(c);
    if (event->kind == RECORD_SUM_RANKS && evaluates(c)) end_evaluation(c);
    take_outside(c, event);
  } else {
    if (c->group.count > 0 && event->kind == RECORD_LAUNCH && goes_on(c)) finish_group(c);
    record_group_add(&c->group, event);
    if (c->instruction == BD_RT_MARK_OTHER) finish_group(c);
  }
}

void record_check_end(record_check *c) {
  finish_group(c);
  if (!c->lost) record_ends_check_last(&c->ends);
  record_group_deinit(&c->group);
  record_ends_deinit(&c->ends);
  record_holding_deinit(&c->h);
  free(c);
}
