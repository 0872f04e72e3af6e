// The end of a step: gradients are added, synchronized, measured and clipped, weights updated.
// Every sum has one order: uses of a weight by stage and place, ranks ascending, tensors by their
// number in the model.
#include "runtime/update.h"
#include "runtime/adafactor.h"
#include "runtime/backend.h"
#include "runtime/deferred.h"
#include "runtime/master.h"
#include "runtime/overlap.h"
#include "runtime/tie.h"

#include <math.h>
#include <string.h>

// The flat part of an accumulator, and of the weight, that this rank updates.
typedef struct own_part {
  const bd_rt_weight *weight;
  bd_rt_local local;
  const bd_rt_group *group; // ranks that share the update (ZeRO-1)
  int zero;                 // its mask of axes
  int64_t elements, start, count;
  int dtype;      // of its gradients
  char *gradient; // the first use's accumulator: all elements
} own_part;

static own_part part_of(const bd_rt *rt, const bd_rt_weight *weight) {
  const bd_rt_share share = bd_rt_share_of(rt, weight);
  own_part part = {.weight = weight, .group = share.group, .zero = share.zero};
  part.local = bd_rt_gradient_local(rt, weight);
  part.elements = share.elements;
  part.start = share.start;
  part.count = share.count;
  part.dtype = weight->gradient_dtype;
  part.gradient = rt->arena + weight->gradient_offsets[0];
  return part;
}

static char *moved(const own_part *part, char *gradient) {
  return gradient + part->start * bd_rt_element_bytes(part->dtype);
}

int bd_rt_sum_mask(const bd_rt *rt, const bd_rt_weight *weight, int use) {
  return (int)weight->gradient_partial[use] & ((1 << rt->program->axes) - 1);
}

// Whether those who share the weight's update are those who have partial gradients.
static bool scatters(const bd_rt *rt, const own_part *part, int use) {
  const int partial = bd_rt_sum_mask(rt, part->weight, use);
  return partial && partial == part->zero && !bd_rt_tied(rt, part->weight);
}

void bd_rt_sum_use(bd_rt *rt, const bd_rt_weight *weight, int use) {
  const own_part part = part_of(rt, weight);
  const bd_rt_group *const group = &rt->group[bd_rt_sum_mask(rt, weight, use)];
  char *const gradient = rt->arena + weight->gradient_offsets[use];
  bd_rt_clear_padding(rt, &part.local, part.dtype, gradient);
  if (scatters(rt, &part, use))
    bd_rt_reduce_part(rt, part.group, part.dtype, part.elements, gradient);
  else
    bd_rt_reduce(rt, group, part.dtype, BD_RT_SUM, part.elements, gradient, gradient);
}

bool bd_rt_sums_in_place(const bd_rt *rt, const bd_rt_weight *weight, int use) {
  const own_part part = part_of(rt, weight);
  if (scatters(rt, &part, use)) return part.elements % part.group->size == 0;
  return rt->group[bd_rt_sum_mask(rt, weight, use)].size > 1;
}

bool bd_rt_gathers_in_place(const bd_rt *rt, const bd_rt_weight *weight) {
  const bd_rt_share share = bd_rt_share_of(rt, weight);
  return weight->gradient_count > 0 && !weight->cut_axis && share.group->size > 1 &&
         share.elements % share.group->size == 0;
}

// Uses become whole sums in the first accumulator, or this rank's part of them.
static void add_uses(bd_rt *rt, const bd_rt_weight *weight) {
  const own_part part = part_of(rt, weight);
  for (int use = 1; use < weight->gradient_count && !bd_rt_tied(rt, weight); use++) {
    char *const gradient = rt->arena + weight->gradient_offsets[use];
    bd_rt_add(rt, part.dtype, moved(&part, part.gradient), moved(&part, gradient), part.count);
  }
}

static void sum_gradients(bd_rt *rt) {
  const bd_rt_stage *const stage = rt->stage;
  for (int i = 0; i < stage->weight_count; i++)
    for (int use = 0; use < stage->weights[i].gradient_count; use++)
      if (!bd_rt_overlap_summed(rt, &stage->weights[i], use))
        bd_rt_sum_use(rt, &stage->weights[i], use);
  bd_rt_overlap_wait(rt);
  for (int i = 0; i < stage->weight_count; i++)
    if (stage->weights[i].gradient_count) add_uses(rt, &stage->weights[i]);
}

// Of equal copies, the one on the lowest stage and at coordinates 0 counts.
static int counts(const bd_rt *rt, const own_part *part) {
  const bd_rt_layout layout = bd_rt_gradient_layout(part->weight);
  for (int a = 0; a < rt->program->axes; a++)
    if (layout.at[a] < 0 && !(part->zero >> a & 1) && rt->coord[a] > 0) return 0;
  return bd_rt_first_holder(rt, part->weight->global_index) == rt->stage_index;
}

static double global_norm(bd_rt *rt) {
  const int tensors = rt->program->tensors;
  double *const own = rt->sums + 1;
  bd_rt_squares some[BD_RT_MOST_SQUARES];
  int waiting = 0;
  memset(own, 0, (size_t)tensors * sizeof *own);
  for (int i = 0; i < rt->stage->weight_count; i++) {
    if (!rt->stage->weights[i].gradient_count || rt->stage->weights[i].average > 0) continue;
    const own_part part = part_of(rt, &rt->stage->weights[i]);
    if (part.count == 0 || !counts(rt, &part)) continue;
    some[waiting++] = (bd_rt_squares){moved(&part, part.gradient), part.count,
                                      &own[part.weight->global_index], part.dtype};
    if (waiting < BD_RT_MOST_SQUARES) continue;
    bd_rt_square_sums(rt, waiting, some);
    waiting = 0;
  }
  bd_rt_square_sums(rt, waiting, some);
  bd_rt_settle(rt);
  bd_rt_sum_ranks(rt, own, tensors);
  double total = 0;
  for (int t = 0; t < tensors; t++)
    total += own[t];
  return sqrt(total);
}

// What the optimizer does with a weight in this update, before the rule knows where it lies.
static bd_rt_rule rule_of(const bd_rt *rt, const bd_rt_weight *weight, float *state) {
  const bd_rt_options *const o = &rt->options;
  const double rate = bd_rt_learning_rate(o, (int64_t)rt->updates);
  const double steps = (double)rt->updates + 1;
  const double decay = weight->decay ? o->weight_decay : 0;
  const int kind = rt->program->optimizer;
  bd_rt_rule u = {.kind = kind, .rate = (float)rate, .decay = (float)decay, .shrink = 1};
  if (kind == BD_RT_ADAMW || kind == BD_RT_ADAFACTOR) { // decoupled from the gradient
    u.shrink = (float)(1 - rate * decay);
    u.decay = 0;
  }
  if (kind == BD_RT_ADAFACTOR) u.rate = (float)fmin(rate, 1 / sqrt(steps));
  if (kind == BD_RT_MOMENTUM) {
    u.first = state;
    u.beta1 = (float)o->momentum;
  }
  if (kind == BD_RT_ADAMW || kind == BD_RT_ADAM) {
    u.first = state;
    u.second = state + weight->state_elements;
    u.rate = (float)(rate / (1 - pow(o->beta1, steps)));
    u.correction2 = (float)sqrt(1 - pow(o->beta2, steps));
    u.beta1 = (float)o->beta1;
    u.beta2 = (float)o->beta2;
    u.eps = (float)o->eps;
  }
  return u;
}

// What the micro-batches have seen is averaged.
static bd_rt_rule averaging(const bd_rt *rt, const bd_rt_weight *weight) {
  const int64_t micro_batches = rt->program->global_batch / rt->program->micro_batch;
  return (bd_rt_rule){.kind = BD_RT_SGD, .rate = weight->average / (float)micro_batches};
}

// Dimensions that the part holds whole are merged with the one before.
static bd_rt_draws draws_of(const bd_rt *rt, const own_part *part) {
  const bd_rt_local *const local = &part->local;
  bd_rt_draws out = {.seed = rt->options.seed,
                     .step = rt->step,
                     .weight = part->weight->global_index,
                     .first = part->start};
  for (int d = 0; d < local->rank; d++) {
    const int64_t last = out.rank - 1, dims = local->dims[d];
    if (out.rank > 0 && local->extent[d] == dims) { // so it starts at 0
      out.dims[last] *= dims, out.start[last] *= dims, out.extent[last] *= dims;
      continue;
    }
    out.dims[out.rank] = dims;
    out.start[out.rank] = local->start[d];
    out.extent[out.rank++] = local->extent[d];
  }
  return out;
}

static bd_rt_rule whole_rule(const bd_rt *rt, const own_part *part, float factor) {
  const bd_rt_weight *const weight = part->weight;
  const bd_rt_rows rows = bd_rt_rows_of(rt, weight);
  void *const whole = rt->arena + weight->weight_offset;
  float *const master = bd_rt_master(rt, weight);
  const int wide = weight->layout.dtype == BD_RT_F32;
  float *const state = bd_rt_moments(rt, weight);
  const int64_t first = rows.start + part->start;
  const int averages = weight->average > 0;
  bd_rt_rule u = averages ? averaging(rt, weight) : rule_of(rt, weight, state);
  u.weight = wide ? (float *)whole + first : master;
  u.halves = wide ? NULL : (uint16_t *)whole + first;
  u.half_dtype = weight->layout.dtype;
  u.gradient = moved(part, part->gradient);
  u.gradient_dtype = part->dtype;
  u.count = part->count;
  u.row = rows.outer > 1 ? rows.row : 0;
  u.stride = rows.stride;
  u.factor = averages ? 1 : factor;
  if (weight->rounded) u.draws = draws_of(rt, part);
  if (u.kind == BD_RT_ADAFACTOR) u.factors = bd_rt_factors_of(rt, weight, part->start, state);
  return u;
}

static void update_averages(bd_rt *rt, int phase, const bd_rt_weight *weight, float factor) {
  const own_part part = part_of(rt, weight);
  const bd_rt_rule u = whole_rule(rt, &part, factor);
  if (u.kind == BD_RT_ADAFACTOR)
    bd_rt_adafactor(rt, phase, weight, part.zero, (double)rt->updates + 1, &u);
}

static void update_weight(bd_rt *rt, const bd_rt_weight *weight, float factor) {
  const own_part part = part_of(rt, weight);
  const bd_rt_rule u = whole_rule(rt, &part, factor);
  bd_rt_apply(rt, &u);
  bd_rt_overlap_gather(rt, weight);
}

static void update_weights(bd_rt *rt, float factor) {
  const bd_rt_stage *const stage = rt->stage;
  const int phases = rt->program->optimizer == BD_RT_ADAFACTOR ? BD_RT_ADAFACTOR_PHASES : 0;
  for (int phase = 0; phase < phases; phase++)
    for (int i = 0; i < stage->weight_count; i++)
      if (stage->weights[i].gradient_count) update_averages(rt, phase, &stage->weights[i], factor);
  // First those that are whole at the end, so that nothing of theirs is asked for behind what is
  // deferred.
  for (int deferred = 0; deferred < 2; deferred++) {
    for (int i = 0; i < stage->weight_count; i++) {
      const bd_rt_weight *const weight = &stage->weights[i];
      if (weight->gradient_count && bd_rt_defers(rt, weight) == deferred)
        update_weight(rt, weight, factor);
    }
    bd_rt_overlap_start(rt);
  }
}

double bd_rt_update(bd_rt *rt) {
  bd_rt_deferred_finish(rt);
  bd_rt_begin(rt, BD_RT_REDUCE, 0);
  sum_gradients(rt);
  bd_rt_tie_gradients(rt);
  const double norm = global_norm(rt) / (double)rt->loss_scale;
  bd_rt_end(rt);
  if (!isfinite(norm)) return norm;
  const double bound = rt->options.clip;
  const double clip = bound > 0 && norm + 1e-6 > bound ? bound / (norm + 1e-6) : 1;
  const float factor = (float)(clip / (double)rt->loss_scale);
  bd_rt_begin(rt, BD_RT_UPDATE, 0);
  update_weights(rt, factor);
  bd_rt_overlap_wait(rt);
  bd_rt_end(rt);
  return norm;
}
