#include "tests/record/spoil.h"

#include "tests/record/spoil_rules.h"

#include <stdlib.h>

void record_spoil_pass(const record_spoil *s, record_event *event) {
  s->inner->take(s->inner->args, event);
}

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
    record_spoil_pass(s, &s->held.events[i]);
  record_group_clear(&s->held);
}

static void take(void *args, record_event *event) {
  record_spoil *const s = args;
  const bool was_done = s->done;
  const record_verdict verdict =
      s->rt->rank == 0 || s->rule->of_all ? s->rule->apply(s, event) : PASSES;
  if (verdict == HELD || verdict == HELD_TOO) {
    if (verdict == HELD) release(s);
    record_group_add(&s->held, event);
    return;
  }
  if (verdict == PASSES) record_spoil_pass(s, event);
  if (s->done && !was_done) release(s);
}

static void end(void *args) {
  record_spoil *const s = args;
  release(s);
  s->inner->end(s->inner->args);
}

record_spoil *record_spoil_create(const char *what, const record_sink *sink,
                                  const record_sink **out_sink) {
  const record_rule *const rule = record_rule_find(what);
  record_spoil *const s = rule ? calloc(1, sizeof *s) : NULL;
  if (!s) return NULL;
  s->inner = sink;
  s->rule = rule;
  s->sink = (record_sink){begin, take, end, s};
  *out_sink = &s->sink;
  return s;
}

bool record_spoil_done(const record_spoil *spoil) {
  return spoil->done;
}

void record_spoil_destroy(record_spoil *s) {
  if (s) record_group_deinit(&s->held);
  free(s);
}
