#include "runtime/tie.h"

#include "runtime/backend.h"
#include "runtime/master.h"

static const bd_rt_weight *find_weight(const bd_rt *rt, int stage, int global_index) {
  const bd_rt_stage *const s = &rt->program->stage[stage];
  for (int i = 0; i < s->weight_count; i++)
    if (s->weights[i].global_index == global_index) return &s->weights[i];
  return NULL;
}

int bd_rt_first_holder(const bd_rt *rt, int global_index) {
  int stage = 0;
  while (stage < rt->program->stages && !find_weight(rt, stage, global_index))
    stage++;
  return stage;
}

int bd_rt_tied(const bd_rt *rt, const bd_rt_weight *weight) {
  for (int s = 0; s < rt->program->stages; s++)
    if (s != rt->stage_index && find_weight(rt, s, weight->global_index)) return 1;
  return 0;
}

// The next holder after `stage` in direction `by`, or -1.
static int next_holder(const bd_rt *rt, int stage, int by, int global_index) {
  for (int s = stage + by; s >= 0 && s < rt->program->stages; s += by)
    if (find_weight(rt, s, global_index)) return s;
  return -1;
}

static int same_layout(const bd_rt *rt, const bd_rt_weight *weight) {
  for (int s = 0; s < rt->program->stages; s++) {
    const bd_rt_weight *const other = find_weight(rt, s, weight->global_index);
    if (!other) continue;
    const bd_rt_layout own = bd_rt_gradient_layout(weight), its = bd_rt_gradient_layout(other);
    for (int a = 0; a < rt->program->axes; a++)
      if (its.at[a] != own.at[a]) return 0;
  }
  return 1;
}

typedef struct tie {
  bd_rt *rt;
  const bd_rt_weight *weight;
  bd_rt_local local;
  int whole; // pieces are of the logical tensor, not of the local buffer
  int speaks;
  int dtype;
  int64_t bytes;    // of an element
  char *sum, *more; // on the device, `piece` elements each
  int64_t piece;
} tie;

static char *use_of(const tie *t, int use) {
  return t->rt->arena + t->weight->gradient_offsets[use];
}

// Elements [first, first + count) of a use, at `values`.
static void load_piece(const tie *t, int use, int64_t first, int64_t count, char *values) {
  if (!t->whole) {
    bd_rt_copy(t->rt, values, use_of(t, use) + first * t->bytes, count * t->bytes);
    return;
  }
  bd_rt_zero(t->rt, values, count * t->bytes);
  if (t->speaks) bd_rt_window(t->rt, &t->local, first, count, t->dtype, values, use_of(t, use), 0);
  bd_rt_reduce(t->rt, &t->rt->group[(1 << t->rt->program->axes) - 1], t->dtype, BD_RT_SUM, count,
               values, values);
}

static void store_piece(const tie *t, int64_t first, int64_t count, char *values) {
  if (t->whole)
    bd_rt_window(t->rt, &t->local, first, count, t->dtype, values, use_of(t, 0), 1);
  else
    bd_rt_copy(t->rt, use_of(t, 0) + first * t->bytes, values, count * t->bytes);
}

static void tie_piece(const tie *t, int64_t first, int64_t count) {
  bd_rt *const rt = t->rt;
  char *const sum = t->sum;
  const int64_t bytes = count * t->bytes;
  const int index = t->weight->global_index, stage = rt->stage_index;
  const int before = next_holder(rt, stage, -1, index), after = next_holder(rt, stage, 1, index);
  if (before >= 0) bd_rt_take(rt, before, sum, bytes);
  for (int use = 0; use < t->weight->gradient_count; use++) {
    const int alone = before < 0 && use == 0;
    load_piece(t, use, first, count, alone ? sum : t->more);
    if (!alone) bd_rt_add(rt, t->dtype, sum, t->more, count);
  }
  if (after >= 0) {
    bd_rt_give(rt, after, sum, bytes);
    bd_rt_take(rt, after, sum, bytes);
  }
  if (before >= 0) bd_rt_give(rt, before, sum, bytes);
  store_piece(t, first, count, sum);
}

static void tie_weight(bd_rt *rt, const bd_rt_weight *weight) {
  tie t = {.rt = rt, .weight = weight, .whole = !same_layout(rt, weight), .speaks = 1};
  const bd_rt_layout layout = bd_rt_gradient_layout(weight);
  t.local = bd_rt_gradient_local(rt, weight);
  t.dtype = weight->gradient_dtype;
  t.bytes = bd_rt_element_bytes(t.dtype);
  for (int a = 0; a < rt->program->axes; a++)
    if (layout.at[a] < 0 && rt->coord[a] > 0) t.speaks = 0;
  int64_t elements = t.local.elements;
  if (t.whole) {
    elements = 1;
    for (int d = 0; d < weight->layout.rank; d++)
      elements *= weight->layout.dims[d];
  }
  t.sum = (char *)bd_rt_workspace(rt, &t.piece);
  t.piece /= 2;
  t.more = t.sum + t.piece * t.bytes;
  for (int64_t first = 0; first < elements; first += t.piece)
    tie_piece(&t, first, elements - first < t.piece ? elements - first : t.piece);
}

void bd_rt_tie_gradients(bd_rt *rt) {
  for (int index = 0; rt->program->stages > 1 && index < rt->program->tensors; index++) {
    const bd_rt_weight *const weight = find_weight(rt, rt->stage_index, index);
    if (weight && weight->gradient_count && bd_rt_tied(rt, weight)) tie_weight(rt, weight);
  }
}
