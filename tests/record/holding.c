#include "tests/record/holding.h"

#include "runtime/layout.h"
#include "runtime/master.h"

#include <stdio.h>
#include <stdlib.h>

enum { NAME = 256 };

const char *record_where(record_holding *h) {
  const record_place *const p = &h->place;
  char pass[32] = "around";
  if (p->pass >= 0)
    snprintf(pass, sizeof pass, "%c%d", h->e->passes[p->pass].kind == BD_PASS_FORWARD ? 'F' : 'B',
             h->e->passes[p->pass].micro_batch);
  snprintf(h->where, sizeof h->where, "rank %d, step %d, %s, instruction %d (%s)", h->rt->rank,
           p->step, pass, p->instruction, p->name);
  return h->where;
}

static void add_buffer(record_holding *h, int64_t start, int64_t bytes, int value, int weight,
                       bool gradient) {
  h->buffers[h->buffer_count++] = (record_buffer){start, bytes, value, weight, gradient};
}

static int by_start(const void *a, const void *b) {
  const record_buffer *const x = a, *const y = b;
  return x->start < y->start ? -1 : x->start > y->start ? 1 : 0;
}

// The call whose gradient a result of main is: accumulators are added in this order.
static int call_of(const bd_function *main, bd_id gradient) {
  return (int)bd_op_int(&main->ops[main->values[gradient].producer], "of", -1);
}

// The result of main that accumulator `use` of a weight on this stage is, or 0.
static int result_of(const record_expectation *e, int weight, int use) {
  const bd_function *const main = e->module->main;
  for (int last = -1;; use--) {
    int found = 0;
    for (int i = 1; i < main->result_count; i++) {
      if (e->module->gradient_weight[i - 1] != weight) continue;
      if (main->ops[main->values[main->results[i]].producer].stage != e->stage) continue;
      const int call = call_of(main, main->results[i]);
      if (call > last && (!found || call < call_of(main, main->results[found]))) found = i;
    }
    if (!found || use == 0) return found;
    last = call_of(main, main->results[found]);
  }
}

static int64_t state_bytes(const record_holding *h, const bd_rt_weight *w) {
  static const int moments_of[] = {[BD_RT_ADAMW] = 2, [BD_RT_MOMENTUM] = 1, [BD_RT_ADAM] = 2};
  const int masters = w->layout.dtype != BD_RT_F32 && !w->rounded;
  const int moments = moments_of[h->rt->program->optimizer];
  return w->state_elements * (masters + moments) * (int64_t)sizeof(float);
}

static void add_weight(record_holding *h, int index, int states) {
  const bd_rt_weight *const w = &h->rt->stage->weights[index];
  const bd_rt_program *const p = h->rt->program;
  const bd_rt_local own = bd_rt_local_of(&w->layout, p->axes, p->mesh, h->rt->coord);
  const int64_t bytes = own.elements * bd_rt_element_bytes(w->layout.dtype);
  const int64_t gradient =
      bd_rt_gradient_local(h->rt, w).elements * bd_rt_element_bytes(w->gradient_dtype);
  add_buffer(h, w->weight_offset, bytes, w->global_index, index, false);
  h->address[w->global_index] = w->weight_offset;
  record_shadow_set(&h->shadow, w->weight_offset, bytes, w->global_index);
  for (int use = 0; use < w->gradient_count; use++) {
    const int result = result_of(h->e, w->global_index, use);
    if (!result) {
      record_fault(h->faults, "%s: weight %d has %d accumulators, the module %d uses",
                   record_where(h), w->global_index, w->gradient_count, use);
      return;
    }
    const int value = record_gradient(h->e, result);
    add_buffer(h, w->gradient_offsets[use], gradient, value, index, true);
    h->address[value] = w->gradient_offsets[use];
  }
  if (state_bytes(h, w) == 0) return;
  add_buffer(h, w->state_offset, state_bytes(h, w), states, index, false);
  record_shadow_set(&h->shadow, w->state_offset, state_bytes(h, w), states);
}

static void check_buffers(record_holding *h) {
  char a[NAME], b[NAME];
  for (int i = 0; i < h->buffer_count; i++) {
    const record_buffer *const own = &h->buffers[i], *const next = own + 1;
    if (own->start < 0 || own->start + own->bytes > h->rt->stage->arena_bytes)
      record_fault(h->faults, "%s: %s is not within the arena", record_where(h),
                   record_holding_name(h, own->value, a, sizeof a));
    if (i + 1 < h->buffer_count && own->start + own->bytes > next->start)
      record_fault(h->faults, "%s: %s and %s overlap", record_where(h),
                   record_holding_name(h, own->value, a, sizeof a),
                   record_holding_name(h, next->value, b, sizeof b));
  }
}

int record_holding_init(record_holding *h, const record_expectation *e, const bd_rt *rt,
                        record_faults *faults) {
  const bd_rt_stage *const stage = rt->stage;
  const int values = record_value_count(e);
  int most = 2;
  for (int i = 0; i < stage->weight_count; i++)
    most += 2 + stage->weights[i].gradient_count;
  *h = (record_holding){.e = e, .rt = rt, .faults = faults, .place = {0, -1, 0, "start"}};
  h->address = malloc((size_t)values * sizeof *h->address);
  h->buffers = malloc((size_t)most * sizeof *h->buffers);
  if (!h->address || !h->buffers) return -1;
  for (int v = 0; v < values; v++)
    h->address[v] = -1;
  h->library = values;
  h->sends = values + 1;
  h->scratch = values + 2;
  if (stage->library_bytes)
    add_buffer(h, stage->library_offset, stage->library_bytes, h->library, -1, false);
  if (stage->send_bytes) add_buffer(h, stage->send_offset, stage->send_bytes, h->sends, -1, false);
  for (int i = 0; i < stage->weight_count; i++)
    add_weight(h, i, values + 3 + i);
  qsort(h->buffers, (size_t)h->buffer_count, sizeof *h->buffers, by_start);
  check_buffers(h);
  return 0;
}

void record_holding_deinit(record_holding *h) {
  record_shadow_deinit(&h->shadow);
  free(h->address);
  free(h->buffers);
}

void record_holding_new_step(record_holding *h) {
  for (int v = h->e->persistent; v < record_value_count(h->e); v++)
    h->address[v] = -1;
  for (int i = 0; i < h->buffer_count; i++)
    if (h->buffers[i].gradient)
      record_shadow_set(&h->shadow, h->buffers[i].start, h->buffers[i].bytes, RECORD_NOBODY);
}

const record_buffer *record_holding_find(const record_holding *h, int64_t start, int64_t bytes) {
  int low = 0, high = h->buffer_count;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (h->buffers[middle].start + h->buffers[middle].bytes > start)
      high = middle;
    else
      low = middle + 1;
  }
  const record_buffer *const b = &h->buffers[low];
  return low < h->buffer_count && b->start <= start && start + bytes <= b->start + b->bytes ? b
                                                                                            : NULL;
}

const char *record_holding_name(const record_holding *h, int value, char *out, int size) {
  const int states = value - h->scratch - 1;
  if (value == RECORD_NOBODY)
    snprintf(out, (size_t)size, "nothing");
  else if (value == h->scratch)
    snprintf(out, (size_t)size, "scratch");
  else if (value == h->library || value == h->sends)
    snprintf(out, (size_t)size, "%s", value == h->library ? "the library segment" : "a message");
  else if (states >= 0)
    snprintf(out, (size_t)size, "states of weight @%s",
             h->e->module->weights[h->rt->stage->weights[states].global_index].name);
  else
    record_value_name(h->e, value, out, size);
  return out;
}

bool record_holding_has(const record_holding *h, int value, int64_t start, int64_t bytes) {
  int64_t at;
  int other;
  return record_shadow_holds(&h->shadow, start, bytes, value, &at, &other);
}

bool record_holding_read(record_holding *h, int value, int64_t start, int64_t bytes) {
  char name[NAME], other_name[NAME];
  int64_t at;
  int other;
  if (record_shadow_holds(&h->shadow, start, bytes, value, &at, &other)) return true;
  record_holding_name(h, value, name, sizeof name);
  if (other == RECORD_NOBODY)
    record_fault(h->faults, "%s reads %s at %lld+%lld, where byte %lld is written by nobody",
                 record_where(h), name, (long long)start, (long long)bytes, (long long)at);
  else
    record_fault(h->faults, "%s reads %s at %lld+%lld, where byte %lld is now that of %s",
                 record_where(h), name, (long long)start, (long long)bytes, (long long)at,
                 record_holding_name(h, other, other_name, sizeof other_name));
  return false;
}

void record_holding_write(record_holding *h, int value, int64_t start, int64_t bytes) {
  record_shadow_set(&h->shadow, start, bytes, value);
}

static bool clashes(const record_operand *a, const record_operand *b) {
  return a->start < b->start + b->bytes && b->start < a->start + a->bytes &&
         (a->access != RECORD_READ || b->access != RECORD_READ);
}

static void touch(record_holding *h, const record_event *event, const record_operand *o) {
  if (o->start < 0 || o->start + o->bytes > h->rt->stage->arena_bytes)
    record_fault(h->faults, "%s: %s touches %lld+%lld, beyond the arena of %lld bytes",
                 record_where(h), record_kind_name(event->kind), (long long)o->start,
                 (long long)o->bytes, (long long)h->rt->stage->arena_bytes);
  for (int i = 0; i < h->under_way_count; i++) {
    const bool ordered = event->handle == RECORD_ASIDE && h->under_way[i].handle == RECORD_ASIDE;
    if (!ordered && clashes(o, &h->under_way[i].operand))
      record_fault(h->faults, "%s: %s touches %lld+%lld of operation %d, which is under way",
                   record_where(h), record_kind_name(event->kind), (long long)o->start,
                   (long long)o->bytes, h->under_way[i].handle);
  }
}

static void end_wait(record_holding *h, int handle) {
  int kept = 0;
  for (int i = 0; i < h->under_way_count; i++)
    if (h->under_way[i].handle != handle) h->under_way[kept++] = h->under_way[i];
  if (kept == h->under_way_count)
    record_fault(h->faults, "%s waits for operation %d, which is not under way", record_where(h),
                 handle);
  h->under_way_count = kept;
}

void record_holding_touch(record_holding *h, const record_event *event) {
  if (event->kind == RECORD_WAIT) {
    end_wait(h, event->handle);
    return;
  }
  for (int i = 0; i < event->operand_count; i++)
    touch(h, event, &event->operands[i]);
  for (int i = 0; i < event->operand_count && event->handle != RECORD_NO_HANDLE; i++) {
    if (h->under_way_count == RECORD_MOST_UNDER_WAY) {
      record_fault(h->faults, "%s: too much is under way", record_where(h));
      return;
    }
    h->under_way[h->under_way_count++] = (record_under_way){event->handle, event->operands[i]};
  }
}
