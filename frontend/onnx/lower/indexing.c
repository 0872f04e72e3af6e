// Elements found by indices, and elements put where indices say.
#include "frontend/onnx/lower/diagonals.h"
#include "frontend/onnx/lower/places.h"
#include <string.h>

// Indices that are known: one of them is a slice, a run of them too. *done false: not of the kind.
static bd_status gather_known(bd_onnx_lowering *l, const bd_onnx_step *step, int axis, bool *done) {
  bd_onnx_fact *ids = step->in[1];
  *done = false;
  if (ids->weight || !bd_onnx_is_known(ids) || !bd_onnx_plain(ids)) return BD_OK;
  BD_TRY(bd_onnx_load(step, ids));
  int64_t count = bd_onnx_count(ids), extent = step->in[0]->dims[axis].integer;
  int64_t start = count > 0 ? bd_onnx_at(ids, 0).integer : -1;
  for (int64_t i = 0; i < count; i++)
    if (bd_onnx_at(ids, i).integer != start + i) return BD_OK;
  if (start < 0) start += extent;
  if (start < 0 || count < 1 || start + count > extent || step->in[0]->dims[axis].batch)
    return BD_OK;
  bd_onnx_part part;
  BD_TRY(bd_onnx_indices(l, step, 0, &part));
  BD_TRY(bd_onnx_cut(l, step, step->in[0]->rank, axis, start, 1, count, &part));
  BD_TRY(bd_onnx_regroup(l, step, step->out[0].rank, step->out[0].dims, &part));
  bd_onnx_made(l, step, 0, part);
  *done = true;
  return BD_OK;
}

// Indices below 0 count from the end. Those of tables of weights are numbers of tokens and the
// like, of which none is.
static bd_status from_start(bd_onnx_lowering *l, const bd_onnx_step *step, bd_id ids,
                            int64_t extent, bd_id *out) {
  *out = ids;
  if (step->in[0]->weight) return BD_OK;
  bd_id count, zero, below, moved;
  bd_dtype dtype = bd_onnx_type(l, ids)->dtype;
  BD_TRY(bd_onnx_number_op(l, dtype, (double)extent, &count));
  BD_TRY(bd_onnx_number_op(l, dtype, 0, &zero));
  BD_TRY(bd_onnx_emit2(l, BD_OP_LT, ids, zero, &below));
  BD_TRY(bd_onnx_emit2(l, BD_OP_ADD, ids, count, &moved));
  return bd_onnx_emit(l, BD_OP_SELECT, 3, (bd_id[]){below, moved, ids}, 0, NULL, out);
}

// Indices that are alike along diagonals look up what these have, once, and are numbers of
// diagonals then. *rows BD_NO_ID: others.
static bd_status take_indices(bd_onnx_lowering *l, const bd_onnx_step *step, bd_id *rows,
                              bd_onnx_part *ids) {
  int rank = step->in[1]->rank;
  bool found;
  *rows = BD_NO_ID;
  BD_TRY(bd_onnx_find_diagonals(l, step->in[1], &found));
  if (found) BD_TRY(bd_onnx_emit_places(l, step->in[1], &found, rows, &ids->id));
  if (!found) return bd_onnx_indices(l, step, 1, ids);
  for (int d = 0; d <= rank; d++)
    ids->first[d] = (int8_t)(d < rank - 1 ? 0 : d - (rank - 2));
  return BD_OK;
}

// A table of rows by indices is an embedding, along another dimension a gather.
static bd_status look_up(bd_onnx_lowering *l, int along, bd_id ids, bd_id *data) {
  const bd_type *type = bd_onnx_type(l, *data);
  bool is_table = along == 0 && type->rank == 2 && bd_dtype_is_float(type->dtype);
  bd_attr dim = bd_attr_int(l->ctx, "dim", along);
  BD_TRY(bd_onnx_emit_cast(l, ids, BD_I32, &ids));
  return bd_onnx_emit(l, is_table ? BD_OP_EMBED : BD_OP_GATHER, 2, (bd_id[]){*data, ids}, !is_table,
                      &dim, data);
}

static bd_status lower_gather(bd_onnx_lowering *l, const bd_onnx_step *step) {
  int axis, rank = step->in[0]->rank, at = 0, along;
  bool done;
  bd_id rows;
  bd_onnx_part data, ids, out;
  BD_TRY(bd_onnx_axis(step, bd_onnx_int(step, "axis", 0), rank, &axis));
  BD_TRY(gather_known(l, step, axis, &done));
  if (!done) BD_TRY(bd_onnx_pick_rows(l, step, axis, &done));
  if (done) return BD_OK;
  BD_TRY(bd_onnx_indices(l, step, 0, &data));
  BD_TRY(take_indices(l, step, &rows, &ids));
  BD_TRY(bd_onnx_one_dim(l, step, rank, axis, step->in[0]->dims[axis], &data, &along));
  int picks = bd_onnx_type(l, ids.id)->rank;
  for (int d = 0; d < axis; d++)
    out.first[at++] = data.first[d];
  for (int d = 0; d < step->in[1]->rank; d++)
    out.first[at++] = (int8_t)(along + ids.first[d]);
  for (int d = axis + 1; d <= rank; d++)
    out.first[at++] = (int8_t)(data.first[d] - 1 + picks);
  bd_id *wanted = rows == BD_NO_ID ? &ids.id : &rows;
  BD_TRY(from_start(l, step, *wanted, step->in[0]->dims[axis].integer, wanted));
  if (rows != BD_NO_ID) BD_TRY(look_up(l, along, rows, &data.id));
  BD_TRY(look_up(l, along, ids.id, &data.id));
  out.id = data.id;
  bd_onnx_made(l, step, 0, out);
  return BD_OK;
}

// Operands of one rank (data, indices, updates) with the axis last, and equal factors elsewhere.
// What is looked up is of the indices' extents in the other dimensions.
static bd_status take_by_element(bd_onnx_lowering *l, const bd_onnx_step *step, int axis, int count,
                                 bool cuts, bd_onnx_part *parts) {
  int rank = step->in[0]->rank, dim;
  bd_onnx_factors factors[BD_MAX_RANK] = {{0}};
  for (int i = 0; i < count; i++) {
    BD_TRY(bd_onnx_operand(l, step, i, &parts[i]));
    for (int d = 0; d < rank; d++) {
      bd_onnx_number wanted = step->in[1]->dims[d], has = step->in[i]->dims[d];
      if (d != axis && !bd_onnx_same(wanted, has)) {
        if (!cuts || wanted.batch || has.batch)
          return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                                   "has indices for a part of its data alone");
        BD_TRY(bd_onnx_cut(l, step, rank, d, 0, 1, wanted.integer, &parts[i]));
      }
      bd_onnx_factors own = bd_onnx_factors_of(l, &parts[i], d);
      if (i == 0)
        factors[d] = own;
      else if (d != axis && !bd_onnx_factors_meet(&factors[d], &own, &factors[d]))
        return bd_onnx_step_fail(step, BD_UNSUPPORTED, "joins values of different structure");
    }
  }
  for (int i = 0; i < count; i++) {
    factors[axis] = (bd_onnx_factors){1, {step->in[i]->dims[axis].integer}};
    BD_TRY(bd_onnx_refit(l, step, rank, factors, &parts[i]));
    dim = parts[i].first[axis];
    BD_TRY(bd_onnx_turn(l, dim, false, parts[i].id, &parts[i].id));
  }
  return from_start(l, step, parts[1].id, step->in[0]->dims[axis].integer, &parts[1].id);
}

static bd_status lower_gather_elements(bd_onnx_lowering *l, const bd_onnx_step *step) {
  int axis;
  bd_onnx_part parts[2];
  BD_TRY(bd_onnx_axis(step, bd_onnx_int(step, "axis", 0), step->in[0]->rank, &axis));
  BD_TRY(take_by_element(l, step, axis, 2, true, parts));
  int last = bd_onnx_type(l, parts[0].id)->rank - 1;
  bd_attr attrs[] = {bd_attr_int(l->ctx, "dim", last), bd_attr_int(l->ctx, "batch", last)};
  bd_id in[] = {parts[0].id, parts[1].id};
  BD_TRY(bd_onnx_emit(l, BD_OP_GATHER, 2, in, 2, attrs, &parts[1].id));
  BD_TRY(bd_onnx_turn(l, parts[1].first[axis], true, parts[1].id, &parts[1].id));
  BD_TRY(bd_onnx_regroup(l, step, step->out[0].rank, step->out[0].dims, &parts[1]));
  bd_onnx_made(l, step, 0, parts[1]);
  return BD_OK;
}

static bd_status lower_scatter_elements(bd_onnx_lowering *l, const bd_onnx_step *step) {
  int axis;
  bd_onnx_part parts[3];
  BD_TRY(bd_onnx_axis(step, bd_onnx_int(step, "axis", 0), step->in[0]->rank, &axis));
  bool done;
  BD_TRY(bd_onnx_return_rows(l, step, axis, &done));
  if (done) return BD_OK;
  BD_TRY(take_by_element(l, step, axis, 3, false, parts));
  int last = bd_onnx_type(l, parts[0].id)->rank - 1;
  bd_attr attrs[] = {bd_attr_int(l->ctx, "dim", last), bd_attr_int(l->ctx, "batch", last),
                     bd_attr_string(l->ctx, "reduction", bd_onnx_text(step, "reduction", "none"))};
  bd_id in[] = {parts[0].id, parts[1].id, parts[2].id};
  BD_TRY(bd_onnx_emit(l, BD_OP_SCATTER, 3, in, 3, attrs, &parts[0].id));
  BD_TRY(bd_onnx_turn(l, parts[0].first[axis], true, parts[0].id, &parts[0].id));
  BD_TRY(bd_onnx_regroup(l, step, step->out[0].rank, step->out[0].dims, &parts[0]));
  bd_onnx_made(l, step, 0, parts[0]);
  return BD_OK;
}

// Data with the `named` dimensions from `first` on as one; its place in the graph.
static bd_status fold_data(bd_onnx_lowering *l, const bd_onnx_step *step, int first, int named,
                           bd_onnx_part *data, int *out_dim) {
  const bd_onnx_fact *in = step->in[0];
  bd_onnx_number dims[BD_MAX_RANK], all;
  int rank = in->rank - named + 1;
  if (!bd_onnx_product(in->dims + first, named, &all))
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "looks up more than 2^46 elements");
  for (int d = 0; d < rank; d++)
    dims[d] = d < first ? in->dims[d] : d == first ? all : in->dims[d + named - 1];
  BD_TRY(bd_onnx_operand(l, step, 0, data));
  BD_TRY(bd_onnx_regroup(l, step, rank, dims, data));
  return bd_onnx_one_dim(l, step, rank, first, all, data, out_dim);
}

// Indices [.., named] as one number each, in `out` without the last dimension.
static bd_status fold_indices(bd_onnx_lowering *l, const bd_onnx_step *step, int first, int named,
                              bd_onnx_part *out) {
  const bd_onnx_fact *ids = step->in[1];
  bd_onnx_part all;
  bd_id sum = BD_NO_ID;
  int64_t stride = 1;
  BD_TRY(bd_onnx_operand(l, step, 1, &all));
  for (int j = named - 1; j >= 0; j--) {
    int64_t extent = step->in[0]->dims[first + j].integer;
    bd_onnx_part one = all;
    bd_id by;
    BD_TRY(bd_onnx_cut(l, step, ids->rank, ids->rank - 1, j, 1, 1, &one));
    BD_TRY(from_start(l, step, one.id, extent, &one.id));
    BD_TRY(bd_onnx_number_op(l, BD_I64, (double)stride, &by));
    BD_TRY(bd_onnx_emit2(l, BD_OP_MUL, one.id, by, &one.id));
    if (sum != BD_NO_ID) BD_TRY(bd_onnx_emit2(l, BD_OP_ADD, sum, one.id, &one.id));
    sum = one.id;
    *out = one;
    stride *= extent;
  }
  return BD_OK;
}

static bd_status lower_gather_nd(bd_onnx_lowering *l, const bd_onnx_step *step) {
  int shared = (int)bd_onnx_int(step, "batch_dims", 0), dim;
  int named = (int)step->in[1]->dims[step->in[1]->rank - 1].integer;
  bd_onnx_part data, ids, out = {0};
  bool done;
  BD_TRY(bd_onnx_pick_rows(l, step, 0, &done));
  if (done) return BD_OK;
  BD_TRY(fold_data(l, step, shared, named, &data, &dim));
  BD_TRY(fold_indices(l, step, shared, named, &ids));
  bd_attr attrs[] = {bd_attr_int(l->ctx, "dim", dim), bd_attr_int(l->ctx, "batch", dim)};
  bd_id in[] = {data.id, ids.id};
  BD_TRY(bd_onnx_emit(l, BD_OP_GATHER, 2, in, 2, attrs, &out.id));
  BD_TRY(bd_onnx_regroup(l, step, step->out[0].rank, step->out[0].dims, &out));
  bd_onnx_made(l, step, 0, out);
  return BD_OK;
}

static bd_status lower_scatter_nd(bd_onnx_lowering *l, const bd_onnx_step *step) {
  int named = (int)step->in[1]->dims[step->in[1]->rank - 1].integer, dim;
  bd_onnx_part data, ids, rows;
  bool done;
  BD_TRY(bd_onnx_return_rows(l, step, 0, &done));
  if (done) return BD_OK;
  BD_TRY(fold_data(l, step, 0, named, &data, &dim));
  BD_TRY(fold_indices(l, step, 0, named, &ids));
  BD_TRY(bd_onnx_operand(l, step, 2, &rows));
  bd_attr attrs[] = {bd_attr_int(l->ctx, "dim", 0),
                     bd_attr_string(l->ctx, "reduction", bd_onnx_text(step, "reduction", "none"))};
  bd_id in[] = {data.id, ids.id, rows.id};
  BD_TRY(bd_onnx_emit(l, BD_OP_SCATTER, 3, in, 2, attrs, &data.id));
  BD_TRY(bd_onnx_regroup(l, step, step->out[0].rank, step->out[0].dims, &data));
  bd_onnx_made(l, step, 0, data);
  return BD_OK;
}

static const bd_onnx_lower_rule rules[] = {
    {"Gather", lower_gather, BD_OP_GATHER},
    {"GatherElements", lower_gather_elements, BD_OP_GATHER},
    {"GatherND", lower_gather_nd, BD_OP_GATHER},
    {"Scatter", lower_scatter_elements, BD_OP_SCATTER},
    {"ScatterElements", lower_scatter_elements, BD_OP_SCATTER},
    {"ScatterND", lower_scatter_nd, BD_OP_SCATTER},
};
const bd_onnx_lower_rules bd_onnx_lower_indexing = {sizeof rules / sizeof *rules, rules};
