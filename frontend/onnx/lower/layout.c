#include "frontend/onnx/lower/layout.h"
#include <assert.h>
#include <string.h>

bd_onnx_factors bd_onnx_factors_of(const bd_onnx_lowering *l, const bd_onnx_part *part, int d) {
  bd_onnx_factors factors = {0};
  const bd_type *type = bd_onnx_type(l, part->id);
  for (int i = part->first[d]; i < part->first[d + 1]; i++)
    factors.list[factors.count++] = type->dims[i];
  return factors;
}

bd_onnx_factors bd_onnx_factors_plain(const bd_onnx_lowering *l, bd_onnx_number extent) {
  bd_onnx_factors factors = {0};
  if (extent.selection > 0 && l->parts[extent.selection - 1].id != BD_NO_ID) {
    const bd_type *mask = bd_onnx_type(l, l->parts[extent.selection - 1].id);
    factors.count = mask->rank;
    memcpy(factors.list, mask->dims, sizeof factors.list);
    return factors;
  }
  if (extent.batch) factors.list[factors.count++] = BD_DIM_BATCH;
  if (extent.integer != 1) factors.list[factors.count++] = extent.integer;
  return factors;
}

static bool push(bd_onnx_factors *factors, int64_t extent) {
  if (factors->count == BD_MAX_RANK) return false;
  factors->list[factors->count++] = extent;
  return true;
}

// What is left of a list: `at` the current factor's rest.
typedef struct cursor {
  const bd_onnx_factors *of;
  int next;
  int64_t at; // 0: the list has ended
} cursor;

static void step_on(cursor *c) {
  c->at = c->next < c->of->count ? c->of->list[c->next++] : 0;
}

// Joins factors of either list until both have come to the same product.
static bool join(cursor *a, cursor *b) {
  while (a->at != b->at) {
    cursor *less = a->at < b->at ? a : b;
    int64_t before = less->at;
    step_on(less);
    if (less->at <= 0 || less->at > BD_MAX_ELEMENTS / before) return false;
    less->at *= before;
  }
  return true;
}

bool bd_onnx_factors_meet(const bd_onnx_factors *a, const bd_onnx_factors *b,
                          bd_onnx_factors *out) {
  cursor x = {.of = a}, y = {.of = b};
  bd_onnx_factors met = {0};
  step_on(&x);
  step_on(&y);
  while (x.at != 0 && y.at != 0) {
    if (x.at != y.at && (x.at < 0 || y.at < 0)) return false;
    if (x.at != y.at && x.at % y.at != 0 && y.at % x.at != 0 && !join(&x, &y)) return false;
    int64_t common = x.at < y.at ? x.at : y.at;
    if (!push(&met, common)) return false;
    if (x.at == common)
      step_on(&x);
    else
      x.at /= common;
    // x has moved on: y is compared with what both had.
    if (y.at == common)
      step_on(&y);
    else
      y.at /= common;
  }
  *out = met;
  return x.at == 0 && y.at == 0;
}

bd_status bd_onnx_layout_fail(const bd_onnx_step *step) {
  return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                           "mixes dimensions of its operands in a way that braid's graph, in which "
                           "samples stay apart and values have at most 8 dimensions, cannot say");
}

bd_status bd_onnx_refit(bd_onnx_lowering *l, const bd_onnx_step *step, int rank,
                        const bd_onnx_factors *factors, bd_onnx_part *part) {
  int64_t dims[BD_MAX_RANK];
  int count = 0;
  for (int d = 0; d < rank; d++) {
    part->first[d] = (int8_t)count;
    for (int i = 0; i < factors[d].count; i++) {
      if (count == BD_MAX_RANK) return bd_onnx_layout_fail(step);
      dims[count++] = factors[d].list[i];
    }
  }
  part->first[rank] = (int8_t)count;
  return bd_onnx_emit_reshape(l, part->id, count, dims, &part->id);
}

bd_status bd_onnx_join(bd_onnx_lowering *l, const bd_onnx_step *step, int rank, unsigned axes,
                       bd_onnx_part *part) {
  bd_onnx_factors factors[BD_MAX_RANK] = {{0}};
  for (int d = 0; d < rank; d++) {
    factors[d] = bd_onnx_factors_of(l, part, d);
    if (!(axes >> d & 1) || factors[d].count < 2) continue;
    int64_t product = 1;
    for (int i = 0; i < factors[d].count; i++) {
      if (factors[d].list[i] == BD_DIM_BATCH) return bd_onnx_layout_fail(step);
      product *= factors[d].list[i];
    }
    factors[d] = (bd_onnx_factors){1, {product}};
  }
  return bd_onnx_refit(l, step, rank, factors, part);
}

// Takes the dimensions of a mask from those that are left.
static bool take_selected(cursor *rest, const bd_onnx_factors *mask, bd_onnx_factors *out) {
  *out = *mask;
  for (int i = 0; i < mask->count; i++) {
    if (rest->at != mask->list[i]) return false;
    step_on(rest);
  }
  return true;
}

// Takes from the graph's dimensions, of which `rest` are left, those that make `wanted`. False:
// they would have to be joined across.
static bool take(const bd_onnx_lowering *l, cursor *rest, bd_onnx_number wanted,
                 bd_onnx_factors *out) {
  bd_onnx_factors mask = bd_onnx_factors_plain(l, wanted);
  if (wanted.selection > 0) return take_selected(rest, &mask, out);
  int64_t left = wanted.integer;
  bool batch = wanted.batch;
  *out = (bd_onnx_factors){0};
  while (left > 1 || batch) {
    int64_t now = rest->at;
    if (now == 0) return false;
    if (now == BD_DIM_BATCH) {
      if (!batch || !push(out, now)) return false;
      batch = false;
      step_on(rest);
    } else if (left % now == 0) {
      if (!push(out, now)) return false;
      left /= now;
      step_on(rest);
    } else {
      if (left == 1 || now % left != 0 || !push(out, left)) return false;
      rest->at /= left;
      left = 1;
    }
  }
  return true;
}

bd_status bd_onnx_regroup(bd_onnx_lowering *l, const bd_onnx_step *step, int rank,
                          const bd_onnx_number *dims, bd_onnx_part *part) {
  const bd_type *type = bd_onnx_type(l, part->id);
  bd_onnx_factors all = {.count = type->rank}, factors[BD_MAX_RANK] = {{0}};
  memcpy(all.list, type->dims, sizeof all.list);
  cursor rest = {.of = &all};
  step_on(&rest);
  bool good = true;
  for (int d = 0; d < rank && good; d++)
    good = take(l, &rest, dims[d], &factors[d]);
  // Where dimensions do not nest, those of the model become the graph's.
  for (int d = 0; d < rank && !good; d++) {
    if (dims[d].batch && dims[d].integer != 1) return bd_onnx_layout_fail(step);
    factors[d] = bd_onnx_factors_plain(l, dims[d]);
  }
  return bd_onnx_refit(l, step, rank, factors, part);
}

// Factors of each dimension of the result, which those of all operands can be brought to.
static bd_status meet_all(bd_onnx_lowering *l, const bd_onnx_step *step, int count,
                          const int *ranks, const bd_onnx_part *parts, int rank,
                          bd_onnx_factors *out) {
  for (int d = 0; d < rank; d++) {
    out[d] = (bd_onnx_factors){0};
    for (int i = 0; i < count; i++) {
      int own = d - (rank - ranks[i]);
      if (own < 0) continue;
      bd_onnx_factors factors = bd_onnx_factors_of(l, &parts[i], own);
      if (factors.count == 0) continue;
      if (out[d].count == 0)
        out[d] = factors;
      else if (!bd_onnx_factors_meet(&out[d], &factors, &out[d]))
        return bd_onnx_layout_fail(step);
    }
  }
  return BD_OK;
}

bd_status bd_onnx_repeat(bd_onnx_lowering *l, bd_id x, int rank, const int64_t *dims, unsigned has,
                         bd_id *out) {
  char rule[2 * BD_MAX_RANK + 4], *at = rule;
  assert(rank <= BD_MAX_RANK);
  for (int d = 0; d < rank; d++)
    if (has >> d & 1) *at++ = (char)('A' + d);
  *at++ = '-';
  *at++ = '>';
  for (int d = 0; d < rank; d++)
    *at++ = (char)('A' + d);
  *at = '\0';
  bd_attr attrs[] = {bd_attr_string(l->ctx, "rule", rule),
                     bd_attr_ints(l->ctx, "dims", rank, dims)};
  return bd_onnx_emit(l, BD_OP_BROADCAST, 1, &x, 2, attrs, out);
}

// The graph's dimensions of a layout, and in `has` those that operand `part` has of them.
static int list_dims(const bd_onnx_factors *factors, int rank, int64_t *dims) {
  int count = 0;
  for (int d = 0; d < rank; d++)
    for (int i = 0; i < factors[d].count; i++)
      dims[count++] = factors[d].list[i];
  return count;
}

// Brings an operand to the factors of the result where it has them. *out_has: those that it has.
static bd_status fit(bd_onnx_lowering *l, const bd_onnx_step *step, int own_rank,
                     bd_onnx_part *part, int rank, const bd_onnx_factors *factors,
                     unsigned *out_has) {
  bd_onnx_factors own[BD_MAX_RANK];
  int at = 0;
  *out_has = 0;
  for (int d = 0; d < rank; d++) {
    int k = d - (rank - own_rank);
    bool has = k >= 0 && part->first[k + 1] > part->first[k];
    if (k >= 0) own[k] = has ? factors[d] : (bd_onnx_factors){0};
    for (int i = 0; i < factors[d].count; i++, at++)
      if (has) *out_has |= 1U << at;
  }
  return bd_onnx_refit(l, step, own_rank, own, part);
}

bd_status bd_onnx_align(bd_onnx_lowering *l, const bd_onnx_step *step, int count, const int *ranks,
                        bd_onnx_part *parts, int rank, bd_onnx_part *out) {
  bd_onnx_factors factors[BD_MAX_RANK] = {{0}};
  int64_t dims[BD_MAX_RANK * BD_MAX_RANK];
  BD_TRY(meet_all(l, step, count, ranks, parts, rank, factors));
  int total = list_dims(factors, rank, dims);
  if (total > BD_MAX_RANK) return bd_onnx_layout_fail(step);
  unsigned all = (1U << total) - 1, *has = BD_NEW_ARRAY(l->ctx->arena, unsigned, count);
  bool whole = false;
  for (int i = 0; i < count; i++) {
    BD_TRY(fit(l, step, ranks[i], &parts[i], rank, factors, &has[i]));
    whole = whole || has[i] == all;
  }
  for (int i = 0; i < count; i++) {
    // The last dimensions: a run of bits up to the highest.
    bool is_tail = ((has[i] + (has[i] & -has[i])) & all) == 0;
    bool spreads = !is_tail || (!whole && i == 0);
    if (!spreads) continue;
    BD_TRY(bd_onnx_repeat(l, parts[i].id, total, dims, has[i], &parts[i].id));
    whole = true;
  }
  int at = 0;
  for (int d = 0; d < rank; d++) {
    out->first[d] = (int8_t)at;
    at += factors[d].count;
  }
  out->first[rank] = (int8_t)at;
  return BD_OK;
}

bd_status bd_onnx_spread(bd_onnx_lowering *l, const bd_onnx_step *step, int from_rank,
                         bd_onnx_part *part, int rank, const bd_onnx_number *dims) {
  bd_onnx_factors factors[BD_MAX_RANK] = {{0}};
  int64_t list[BD_MAX_RANK * BD_MAX_RANK];
  unsigned has;
  for (int d = 0; d < rank; d++) {
    int own = d - (rank - from_rank);
    factors[d] = own >= 0 ? bd_onnx_factors_of(l, part, own) : (bd_onnx_factors){0};
    if (factors[d].count == 0) factors[d] = bd_onnx_factors_plain(l, dims[d]);
  }
  int total = list_dims(factors, rank, list);
  if (total > BD_MAX_RANK) return bd_onnx_layout_fail(step);
  BD_TRY(fit(l, step, from_rank, part, rank, factors, &has));
  int at = 0;
  for (int d = 0; d < rank; d++) {
    part->first[d] = (int8_t)at;
    at += factors[d].count;
  }
  part->first[rank] = (int8_t)at;
  if (has == (1U << total) - 1) return BD_OK;
  return bd_onnx_repeat(l, part->id, total, list, has, &part->id);
}
