// Rows looked up by the places that a mask selects, and rows put back there. A value has a row for
// every place of the mask: a lookup repeats what it looks up over the dimensions of the mask that
// its columns leave out, and what is put back is summed over them, zero where nothing is selected.
#include "frontend/onnx/lower/places.h"
#include <string.h>

// How a value's dimensions `axis` .. `axis` + count - 1 are those of a mask.
typedef struct match {
  const bd_onnx_places *places;
  bd_onnx_part mask;
  int mask_rank;
  int64_t mask_dims[BD_MAX_RANK]; // of the graph
  int of[BD_MAX_RANK];            // the dimension of the value, in the graph, or -1
} match;

// What index i of each dimension of the graph from `first` to `end` counts for in their product.
static bool find_strides(const bd_type *type, int first, int end, bd_onnx_number *strides) {
  bd_onnx_number all = bd_onnx_whole(1);
  for (int i = end - 1; i >= first; i--) {
    bool batch = type->dims[i] == BD_DIM_BATCH;
    bd_onnx_number extent = {.integer = batch ? 1 : type->dims[i], .batch = batch};
    strides[i] = all;
    if (!bd_onnx_multiply(all, extent, &all)) return false;
  }
  return true;
}

// The column's steps along each dimension of the mask in the graph.
static bool find_steps(const bd_onnx_lowering *l, const match *m, const bd_onnx_column *column,
                       bd_onnx_number *steps) {
  const bd_onnx_fact *fact = &l->facts[m->places->selection - 1];
  const bd_type *type = bd_onnx_type(l, m->mask.id);
  for (int d = 0; d < fact->rank; d++) {
    if (!find_strides(type, m->mask.first[d], m->mask.first[d + 1], steps)) return false;
    for (int i = m->mask.first[d]; i < m->mask.first[d + 1]; i++)
      if (!bd_onnx_multiply(steps[i], column->by[d], &steps[i])) return false;
  }
  return true;
}

// One dimension of the value by one column.
static bool match_column(const bd_onnx_lowering *l, match *m, const bd_onnx_column *column,
                         const bd_onnx_part *value, int d) {
  bd_onnx_number steps[BD_MAX_RANK], strides[BD_MAX_RANK];
  const bd_type *type = bd_onnx_type(l, value->id);
  int matched = 0, moving = 0;
  if (!find_steps(l, m, column, steps) ||
      !find_strides(type, value->first[d], value->first[d + 1], strides))
    return false;
  for (int i = 0; i < m->mask_rank; i++)
    moving += !bd_onnx_is(steps[i], 0);
  for (int k = value->first[d]; k < value->first[d + 1]; k++)
    for (int i = 0; i < m->mask_rank; i++)
      if (m->of[i] < 0 && m->mask_dims[i] == type->dims[k] && bd_onnx_same(steps[i], strides[k])) {
        m->of[i] = k;
        ++matched;
        break;
      }
  return matched == moving && matched == value->first[d + 1] - value->first[d];
}

// The mask's dimensions that a column moves along, from the longest step to the shortest: the
// factors of what it is an index of.
static bool find_factors(const bd_onnx_lowering *l, const match *m, const bd_onnx_column *column,
                         bd_onnx_factors *out) {
  bd_onnx_number steps[BD_MAX_RANK];
  bool taken[BD_MAX_RANK] = {false};
  int sign;
  *out = (bd_onnx_factors){0};
  if (!find_steps(l, m, column, steps)) return false;
  for (;;) {
    int next = -1;
    for (int i = 0; i < m->mask_rank; i++) {
      if (taken[i] || bd_onnx_is(steps[i], 0)) continue;
      if (next >= 0 && !bd_onnx_compare(steps[i], steps[next], &sign)) return false;
      if (next < 0 || sign > 0) next = i;
    }
    if (next < 0) return true;
    taken[next] = true;
    out->list[out->count++] = m->mask_dims[next];
  }
}

static bd_status fail_rows(const bd_onnx_step *step, const bd_onnx_lowering *l, const match *m) {
  return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                           "has rows that the places which \"%s\" selects do not name one by one; "
                           "export the model so that shapes follow from shapes (a mask instead of "
                           "indices)",
                           l->model->values[m->places->selection - 1].name);
}

// Gives dimension `axis` of operand 0 the factors that the column's are, where they fit.
static bd_status refit_to_column(bd_onnx_lowering *l, const bd_onnx_step *step, const match *m,
                                 const bd_onnx_column *column, int axis, bd_onnx_part *value) {
  int rank = step->in[0]->rank;
  bd_onnx_factors factors[BD_MAX_RANK] = {{0}}, met;
  for (int d = 0; d < rank; d++)
    factors[d] = bd_onnx_factors_of(l, value, d);
  bd_onnx_factors own = factors[axis];
  if (!find_factors(l, m, column, &factors[axis]) ||
      !bd_onnx_factors_meet(&own, &factors[axis], &met))
    return fail_rows(step, l, m);
  return bd_onnx_refit(l, step, rank, factors, value);
}

// The places of operand 1, held against dimensions of operand 0, `value`, from `axis` on.
static bd_status find_match(bd_onnx_lowering *l, const bd_onnx_step *step, int axis,
                            bd_onnx_part *value, match *m) {
  m->mask = l->parts[m->places->selection - 1];
  if (m->mask.id == BD_NO_ID) return fail_rows(step, l, m);
  const bd_type *type = bd_onnx_type(l, m->mask.id);
  m->mask_rank = type->rank;
  memcpy(m->mask_dims, type->dims, sizeof m->mask_dims);
  for (int i = 0; i < BD_MAX_RANK; i++)
    m->of[i] = -1;
  for (int c = 0; c < m->places->count; c++)
    BD_TRY(refit_to_column(l, step, m, &m->places->columns[c], axis + c, value));
  for (int c = 0; c < m->places->count; c++)
    if (!match_column(l, m, &m->places->columns[c], value, axis + c)) return fail_rows(step, l, m);
  return BD_OK;
}

// Whether indices are one row each: other dimensions than the rows and, where `listed`, the
// columns, are 1.
static bool is_one_each(const bd_onnx_step *step, const bd_onnx_places *places, bool listed) {
  const bd_onnx_fact *ids = step->in[1];
  for (int d = 0; d < ids->rank; d++) {
    bool columns = listed && d == ids->rank - 1;
    int64_t wanted = columns ? places->count : 1;
    if (d != places->rows && !bd_onnx_is(ids->dims[d], wanted)) return false;
  }
  return !listed || places->count == 1 || places->axis == ids->rank - 1;
}

// The value with the dimensions of the mask, all of them, in the place of those that are looked up:
// BD_MAX_RANK dimensions at most.
static bd_status emit_lookup(bd_onnx_lowering *l, const match *m, int first, int end, bd_id *id) {
  const bd_type type = *bd_onnx_type(l, *id);
  char from[BD_MAX_RANK + 1] = {0}, to[BD_MAX_RANK + 1] = {0}, *at = to;
  int64_t dims[BD_MAX_RANK];
  unsigned has = 0;
  int rank = 0;
  for (int d = 0; d < type.rank; d++)
    from[d] = (char)('a' + d);
  for (int d = 0; d <= type.rank; d++) {
    for (int i = 0; d == first && i < m->mask_rank; i++) {
      if (m->of[i] >= 0) {
        *at++ = from[m->of[i]];
        has |= 1U << rank;
      }
      dims[rank++] = m->mask_dims[i];
    }
    if (d == type.rank || (d >= first && d < end)) continue;
    *at++ = from[d];
    has |= 1U << rank;
    dims[rank++] = type.dims[d];
  }
  if (strcmp(from, to) != 0)
    BD_TRY(bd_onnx_emit_rule(l, BD_OP_PERMUTE, 1, id, bd_intern_f(l->ctx, "%s->%s", from, to), id));
  if (has == (1U << rank) - 1) return BD_OK;
  return bd_onnx_repeat(l, *id, rank, dims, has, id);
}

bd_status bd_onnx_pick_rows(bd_onnx_lowering *l, const bd_onnx_step *step, int axis,
                            bool *out_done) {
  match m = {.places = l->places[step->node->in[1]]};
  bool listed = strcmp(step->node->op, "GatherND") == 0;
  bd_onnx_part data, out = {0};
  *out_done = m.places != NULL;
  if (!m.places) return BD_OK;
  BD_TRY(bd_onnx_indices(l, step, 0, &data));
  if (!is_one_each(step, m.places, listed) || axis + m.places->count > step->in[0]->rank ||
      (listed && bd_onnx_int(step, "batch_dims", 0) != 0))
    return fail_rows(step, l, &m);
  BD_TRY(find_match(l, step, axis, &data, &m));
  int end = axis + m.places->count, at = 0, shift = m.mask_rank + data.first[axis];
  if (bd_onnx_type(l, data.id)->rank - data.first[end] + shift > BD_MAX_RANK)
    return bd_onnx_layout_fail(step);
  BD_TRY(emit_lookup(l, &m, data.first[axis], data.first[end], &data.id));
  for (int d = 0; d < axis; d++)
    out.first[at++] = data.first[d];
  for (int d = 0; d < step->in[1]->rank - listed; d++)
    out.first[at++] = (int8_t)(d <= m.places->rows ? data.first[axis] : shift);
  for (int d = end; d <= step->in[0]->rank; d++)
    out.first[at++] = (int8_t)(data.first[d] - data.first[end] + shift);
  out.id = data.id;
  bd_onnx_made(l, step, 0, out);
  return BD_OK;
}

// Zero where the mask selects nothing. The value's dimensions of the mask start at `first`.
static bd_status emit_masked(bd_onnx_lowering *l, const match *m, int first, bd_id *id) {
  const bd_type type = *bd_onnx_type(l, *id);
  bd_id in[] = {m->mask.id, *id, BD_NO_ID}, zero;
  bd_dtype dtype = bd_onnx_type(l, in[0])->dtype;
  if (dtype != BD_BOOL) {
    BD_TRY(bd_onnx_number_op(l, dtype, 0, &zero));
    BD_TRY(bd_onnx_emit2(l, BD_OP_EQ, in[0], zero, &in[0]));
    BD_TRY(bd_onnx_emit1(l, BD_OP_NOT, in[0], &in[0]));
  }
  unsigned has = ((1U << m->mask_rank) - 1) << first;
  if (has != (1U << type.rank) - 1)
    BD_TRY(bd_onnx_repeat(l, in[0], type.rank, type.dims, has, &in[0]));
  BD_TRY(bd_onnx_number_op(l, type.dtype, 0, &in[2]));
  return bd_onnx_emit(l, BD_OP_SELECT, 3, in, 0, NULL, id);
}

// The sum over the mask's dimensions that the base has not, in the base's order.
static bd_status emit_return(bd_onnx_lowering *l, const match *m, int first, int base_rank,
                             bd_id *id) {
  const bd_type type = *bd_onnx_type(l, *id);
  char all[BD_MAX_RANK + 1] = {0}, kept[BD_MAX_RANK + 1] = {0}, turned[BD_MAX_RANK + 1] = {0};
  int own = 0, count = 0, matched = base_rank - (type.rank - m->mask_rank);
  for (int d = 0; d < type.rank; d++) {
    bool masked = d >= first && d < first + m->mask_rank;
    all[d] = (char)('a' + d);
    if (masked && m->of[d - first] < 0) continue;
    int to = masked ? m->of[d - first] : own < first ? own : own + matched;
    own += !masked;
    kept[count++] = all[d];
    turned[to] = all[d];
  }
  if (strcmp(all, kept) != 0)
    BD_TRY(bd_onnx_emit_rule(l, BD_OP_REDUCE_SUM, 1, id, bd_intern_f(l->ctx, "%s->%s", all, kept),
                             id));
  if (strcmp(kept, turned) == 0) return BD_OK;
  return bd_onnx_emit_rule(l, BD_OP_PERMUTE, 1, id, bd_intern_f(l->ctx, "%s->%s", kept, turned),
                           id);
}

// Whether rows are added to what is there, or stand alone on zeros.
static bd_status check_sum(bd_onnx_lowering *l, const bd_onnx_step *step, const match *m,
                           bool *out_zero) {
  bd_onnx_number number;
  const char *reduction = bd_onnx_text(step, "reduction", "none");
  BD_TRY(bd_onnx_same_number(l, step, 0, out_zero, &number));
  *out_zero = *out_zero && number.real == 0;
  bool sums = strcmp(reduction, "add") == 0 || (strcmp(reduction, "none") == 0 && *out_zero);
  return sums && bd_onnx_is_float(step->in[0]->dtype) ? BD_OK : fail_rows(step, l, m);
}

// The base's factors with the mask's in the place of those that rows are put in.
static bd_status take_updates(bd_onnx_lowering *l, const bd_onnx_step *step, const match *m,
                              int axis, const bd_onnx_part *base, bd_onnx_part *out) {
  bd_onnx_factors factors[BD_MAX_RANK] = {{0}};
  const bd_onnx_fact *rows = step->in[2];
  BD_TRY(bd_onnx_operand(l, step, 2, out));
  if (bd_onnx_selected_dim(rows) != axis) return fail_rows(step, l, m);
  for (int d = 0; d < rows->rank; d++)
    factors[d] = d == axis ? bd_onnx_factors_plain(l, rows->dims[d])
                           : bd_onnx_factors_of(l, base, d < axis ? d : d - 1 + m->places->count);
  return bd_onnx_refit(l, step, rows->rank, factors, out);
}

bd_status bd_onnx_return_rows(bd_onnx_lowering *l, const bd_onnx_step *step, int axis,
                              bool *out_done) {
  match m = {.places = l->places[step->node->in[1]]};
  bool listed = strcmp(step->node->op, "ScatterND") == 0, zero;
  bd_onnx_part base, rows;
  *out_done = m.places != NULL;
  if (!m.places) return BD_OK;
  BD_TRY(bd_onnx_operand(l, step, 0, &base));
  BD_TRY(check_sum(l, step, &m, &zero));
  if (listed ? !is_one_each(step, m.places, true) : m.places->count != 1 || m.places->rows != axis)
    return fail_rows(step, l, &m);
  BD_TRY(find_match(l, step, axis, &base, &m));
  BD_TRY(take_updates(l, step, &m, axis, &base, &rows));
  int first = base.first[axis];
  BD_TRY(emit_masked(l, &m, first, &rows.id));
  BD_TRY(emit_return(l, &m, first, bd_onnx_type(l, base.id)->rank, &rows.id));
  if (!zero) BD_TRY(bd_onnx_emit2(l, BD_OP_ADD, base.id, rows.id, &rows.id));
  base.id = rows.id;
  bd_onnx_made(l, step, 0, base);
  return BD_OK;
}
