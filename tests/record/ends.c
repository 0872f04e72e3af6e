#include "tests/record/ends.h"

#include "runtime/master.h"

#include <stdlib.h>

enum { NAME = 256 };

int record_ends_init(record_ends *ends, record_holding *h) {
  *ends = (record_ends){.h = h};
  ends->applied = calloc((size_t)h->rt->stage->weight_count + 1, sizeof *ends->applied);
  ends->partial = calloc((size_t)h->buffer_count + 1, sizeof *ends->partial);
  return ends->applied && ends->partial ? 0 : -1;
}

void record_ends_deinit(record_ends *ends) {
  free(ends->applied);
  free(ends->partial);
}

// The axes that the module leaves a gradient to be summed over.
static unsigned partial_of(const record_expectation *e, const record_buffer *b) {
  const bd_function *const main = e->module->main;
  const bd_value *const gradient = &main->values[main->results[b->value - e->module->weight_count]];
  unsigned axes = 0;
  for (int a = 0; a < e->module->mesh.axes; a++)
    if (gradient->sharding.at[a] == BD_PARTIAL_SUM && e->module->mesh.size[a] > 1) axes |= 1u << a;
  return axes;
}

void record_ends_new_step(record_ends *ends) {
  record_holding *const h = ends->h;
  record_holding_new_step(h);
  for (int i = 0; i < h->rt->stage->weight_count; i++)
    ends->applied[i] = 0;
  for (int i = 0; i < h->buffer_count; i++)
    ends->partial[i] = h->buffers[i].gradient ? partial_of(h->e, &h->buffers[i]) : 0;
}

// A gradient is summed over each of its axes once before it is added to another or applied.
static void follow_sums(record_ends *ends, const record_event *event, const record_buffer *b) {
  unsigned *const left = &ends->partial[b - ends->h->buffers];
  const unsigned axes = (unsigned)event->mask;
  char name[NAME];
  record_holding_name(ends->h, b->value, name, sizeof name);
  if (event->kind == RECORD_ALL_REDUCE || event->kind == RECORD_REDUCE_SCATTER) {
    if (axes & ~*left)
      record_fault(ends->h->faults, "%s sums %s over axes 0x%x, 0x%x are left",
                   record_where(ends->h), name, axes, *left);
    *left &= ~axes;
  } else if (*left && event->kind != RECORD_CLEAR_PADDING) {
    record_fault(ends->h->faults, "%s takes %s before it is summed over axes 0x%x",
                 record_where(ends->h), name, *left);
  }
  if (event->kind == RECORD_APPLY) ends->applied[b->weight]++;
}

// Only what has stale parts is gathered.
static void check_gather(record_ends *ends, const record_operand *o, const record_buffer *b) {
  char name[NAME];
  if (record_holding_has(ends->h, b->value, o->start, o->bytes))
    record_fault(ends->h->faults, "%s gathers %s, which is whole", record_where(ends->h),
                 record_holding_name(ends->h, b->value, name, sizeof name));
}

// What is read is there, what is written is its own. Of what every rank makes its part, the others'
// parts are stale until they are gathered: of a gradient that is scattered, of a weight once it is
// applied.
static void follow(record_ends *ends, const record_event *event, const record_operand *o,
                   bool clearing) {
  record_holding *const h = ends->h;
  const record_buffer *const b = record_holding_find(h, o->start, o->bytes);
  if (!b || (clearing && !b->gradient)) {
    record_fault(h->faults, "%s: %s of %lld+%lld, which is in no buffer of this work",
                 record_where(h), record_kind_name(event->kind), (long long)o->start,
                 (long long)o->bytes);
    return;
  }
  const bool weight = b->weight >= 0 && b->value < h->e->module->weight_count;
  const bool part = b->gradient ? event->kind == RECORD_REDUCE_SCATTER && o->access != RECORD_READ
                                : event->kind == RECORD_APPLY && weight;
  if (o->access == RECORD_READ || o->access == RECORD_UPDATE) {
    record_holding_read(h, b->value, o->start, o->bytes);
    if (b->gradient) follow_sums(ends, event, b);
  }
  if (weight && event->kind == RECORD_ALL_GATHER && o->access == RECORD_WRITE)
    check_gather(ends, o, b);
  if (part) record_holding_write(h, RECORD_NOBODY, b->start, b->bytes);
  if (o->access != RECORD_READ)
    record_holding_write(h, o->access == RECORD_SCRATCH ? h->scratch : b->value, o->start,
                         o->bytes);
}

void record_ends_take(record_ends *ends, const record_event *event, bool clearing) {
  record_holding_touch(ends->h, event);
  for (int i = 0; i < event->operand_count; i++)
    if (event->operands[i].bytes > 0) follow(ends, event, &event->operands[i], clearing);
}

void record_ends_check(record_ends *ends) {
  const record_holding *const h = ends->h;
  for (int i = 0; i < h->rt->stage->weight_count; i++) {
    const bd_rt_weight *const w = &h->rt->stage->weights[i];
    const int wanted = w->gradient_count > 0 && bd_rt_share_of(h->rt, w).count > 0;
    if (ends->applied[i] != wanted)
      record_fault(h->faults, "rank %d, step %d: weight @%s is updated %d times", h->rt->rank,
                   h->place.step, h->e->module->weights[w->global_index].name, ends->applied[i]);
  }
}

void record_ends_check_last(record_ends *ends) {
  record_holding *const h = ends->h;
  char name[NAME];
  for (int i = 0; i < h->under_way_count; i++)
    if (h->under_way[i].handle >= RECORD_GIVEN)
      record_fault(h->faults, "rank %d ends while operation %d is under way", h->rt->rank,
                   h->under_way[i].handle);
  for (int i = 0; i < h->buffer_count; i++) {
    const record_buffer *const b = &h->buffers[i];
    const bool weight = b->weight >= 0 && b->value < h->e->module->weight_count;
    if (weight && !record_holding_has(h, b->value, b->start, b->bytes))
      record_fault(h->faults, "rank %d ends without all of %s", h->rt->rank,
                   record_holding_name(h, b->value, name, sizeof name));
  }
}
