// Index rules of ops that choose, join and look up elements.
#include "ir/index_rule.h"
#include "ir/pool.h"
#include <string.h>

// A loop per dimension of result 0, parallel but for `dim`; operands have the same loops in all
// dimensions but `dim`.
static void add_loops_but(bd_inference *inference, int dim) {
  const bd_type *out = &inference->out[0];
  for (int d = 0; d < out->rank; ++d) {
    bd_inference_add_loop(inference, (char)('A' + d), d == dim ? BD_LOOP_WHOLE : BD_LOOP_PARALLEL,
                          out->dims[d]);
    for (int i = 0; i < inference->op->in_count; ++i)
      inference->map->in[i][d] = (int8_t)(d == dim ? -1 : d);
    inference->map->out[0][d] = (int8_t)d;
  }
}

// Dimension `dim` of operand 0, which is a number.
static bd_status fixed_dim(const bd_inference *inference, int *out_dim) {
  const bd_type *in = inference->in[0];
  *out_dim = (int)bd_op_int(inference->op, "dim", 0);
  if (*out_dim < in->rank && in->dims[*out_dim] != BD_DIM_BATCH) return BD_OK;
  return bd_inference_fail(inference, "dim is %d, which is not a dimension of fixed extent of %s",
                           *out_dim, bd_type_describe(inference->ctx, in));
}

// slice takes elements start, start + step, ... of dimension `dim`; pad puts its operand's there,
// in `size` of the value.
bd_status bd_infer_slice(bd_inference *inference) {
  const bd_op *op = inference->op;
  const bd_type *in = inference->in[0];
  int dim;
  BD_TRY(fixed_dim(inference, &dim));
  int64_t start = bd_op_int(op, "start", 0), size = bd_op_int(op, "size", 0), last;
  int64_t step = bd_op_int(op, "step", 1);
  bool pad = op->kind == BD_OP_PAD;
  int64_t part = pad ? in->dims[dim] : size, whole = pad ? size : in->dims[dim];
  if (step == 0) return bd_inference_fail(inference, "step must not be 0");
  if (__builtin_mul_overflow(part - 1, step, &last) || __builtin_add_overflow(start, last, &last))
    last = step > 0 ? INT64_MAX : INT64_MIN;
  if (start >= whole || last < 0 || last >= whole)
    return bd_inference_fail(inference, "elements %lld to %lld are outside an extent of %lld",
                             (long long)start, (long long)last, (long long)whole);
  if (pad) BD_TRY(bd_inference_check_fill(inference));
  inference->out[0] = *in;
  inference->out[0].dims[dim] = size;
  add_loops_but(inference, dim);
  return BD_OK;
}

bd_status bd_infer_concat(bd_inference *inference) {
  int dim;
  BD_TRY(fixed_dim(inference, &dim));
  inference->out[0] = *inference->in[0];
  for (int i = 1; i < inference->op->in_count; ++i) {
    bd_type like = *inference->in[i];
    if (dim < like.rank) like.dims[dim] = inference->in[0]->dims[dim];
    if (!bd_type_equal(&like, inference->in[0]) || inference->in[i]->dims[dim] < 1)
      return bd_inference_fail(inference, "operand %d is %s, which does not go with %s", i + 1,
                               bd_type_describe(inference->ctx, inference->in[i]),
                               bd_type_describe(inference->ctx, inference->in[0]));
    if (__builtin_add_overflow(inference->out[0].dims[dim], inference->in[i]->dims[dim],
                               &inference->out[0].dims[dim]))
      return bd_inference_fail(inference, "the result is too large");
  }
  add_loops_but(inference, dim);
  return BD_OK;
}

// The runs of `chunk` elements along `dim` whose half the one and the other operand of a pair has.
// A rank has one of each: more of them would not lie as the whole dimension does.
static bd_status add_chunk_loops(bd_inference *inference, int dim, int64_t half) {
  int64_t chunk = bd_op_int(inference->op, "chunk", 1);
  bd_index_map *map = inference->map;
  if (half % chunk != 0)
    return bd_inference_fail(inference, "%lld elements along dimension %d are no chunks of %lld",
                             (long long)half, dim + 1, (long long)chunk);
  if (chunk > INT32_MAX)
    return bd_inference_fail(inference, "chunk is %lld: too long", (long long)chunk);
  add_loops_but(inference, dim);
  map->loop[dim] = (bd_loop){.letter = map->loop[dim].letter,
                             .kind = BD_LOOP_PARALLEL,
                             .exact = true,
                             .unit = (int)chunk,
                             .within = -1,
                             .extent = half};
  for (int i = 0; i < inference->op->in_count; ++i)
    map->in[i][dim] = (int8_t)dim;
  return BD_OK;
}

bd_status bd_infer_alternate(bd_inference *inference) {
  int dim;
  BD_TRY(fixed_dim(inference, &dim));
  const bd_type *in = inference->in[0];
  if (in->dims[dim] % 2 != 0)
    return bd_inference_fail(inference, "dimension %d of %s has no halves", dim + 1,
                             bd_type_describe(inference->ctx, in));
  inference->out[0] = *in;
  inference->out[0].dims[dim] /= 2;
  return add_chunk_loops(inference, dim, inference->out[0].dims[dim]);
}

bd_status bd_infer_interleave(bd_inference *inference) {
  int dim;
  BD_TRY(fixed_dim(inference, &dim));
  const bd_type *in = inference->in[0];
  BD_TRY(bd_inference_check_shape(inference, 1, in->rank, in->dims));
  inference->out[0] = *in;
  if (__builtin_mul_overflow(in->dims[dim], 2, &inference->out[0].dims[dim]))
    return bd_inference_fail(inference, "the result is too large");
  return add_chunk_loops(inference, dim, in->dims[dim]);
}

// Along the samples of each rank, which another cut of the batch leaves to other ranks.
static bd_status infer_pooled_sums(bd_inference *inference) {
  const bd_type *in = inference->in[0];
  if (bd_op_int(inference->op, "dim", 0) != 0 || in->rank < 1 || in->dims[0] != BD_DIM_BATCH ||
      bd_dtype_class_of(in->dtype) != BD_INTEGERS)
    return bd_inference_fail(inference,
                             "pooled sums are of integers along the batch, dimension 0, not along "
                             "dimension %d of %s",
                             (int)bd_op_int(inference->op, "dim", 0),
                             bd_type_describe(inference->ctx, in));
  inference->out[0] = *in;
  add_loops_but(inference, -1);
  return BD_OK;
}

bd_status bd_infer_cumsum(bd_inference *inference) {
  int dim;
  if (bd_op_int(inference->op, BD_POOLED_ATTR, 0)) return infer_pooled_sums(inference);
  BD_TRY(fixed_dim(inference, &dim));
  inference->out[0] = *inference->in[0];
  add_loops_but(inference, dim);
  return BD_OK;
}

// The place of an indexed dimension: x[batch.., lead.., v, rest..] by ids[batch.., i..].
typedef struct indexed {
  int dim, batch, rank, ids_rank; // rank: of x
  int64_t x[BD_MAX_RANK];         // extents of x, v by `dim`
} indexed;

static bd_status check_ids(bd_inference *inference, const indexed *at) {
  const bd_type *ids = inference->in[1];
  if (at->batch > at->dim || at->batch > ids->rank)
    return bd_inference_fail(inference, "batch is %d: more than dim, or than the indices have",
                             at->batch);
  if (at->rank - 1 + ids->rank - at->batch > BD_MAX_RANK)
    return bd_inference_fail(inference, "a result would have more than %d dimensions", BD_MAX_RANK);
  for (int d = 0; d < at->batch; ++d)
    if (ids->dims[d] != at->x[d])
      return bd_inference_fail(inference, "dimension %d of operand 2 has extent %s, expected %s",
                               d + 1, bd_extent_print(ids->dims[d]).text,
                               bd_extent_print(at->x[d]).text);
  return BD_OK;
}

// Loops: A, B, ... and v of x, then i, j, ... of the indices. `maps_x`, `maps_y`: of the tensors
// that are shaped like x and like what is looked up.
static void add_indexed_loops(bd_inference *inference, const indexed *at, bd_loop_kind rows,
                              bd_loop_kind places, int8_t *maps_x, int8_t *maps_y) {
  bd_index_map *map = inference->map;
  const bd_type *ids = inference->in[1];
  int own = at->ids_rank - at->batch;
  for (int d = 0; d < at->rank; ++d) {
    bool row = d == at->dim;
    bd_inference_add_loop(inference, row ? 'v' : (char)('A' + d), row ? rows : BD_LOOP_PARALLEL,
                          at->x[d]);
    map->loop[d].gather = row;
    maps_x[d] = (int8_t)d;
    if (!row) maps_y[d < at->dim ? d : d - 1 + own] = (int8_t)d;
  }
  for (int d = 0; d < at->ids_rank; ++d) {
    int loop = d;
    if (d >= at->batch) {
      loop = bd_inference_add_loop(inference, (char)('i' + d - at->batch), places, ids->dims[d]);
      maps_y[at->dim + d - at->batch] = (int8_t)loop;
    }
    map->in[1][d] = (int8_t)loop;
  }
}

// The shape of what is looked up.
static bd_type looked_up(const bd_inference *inference, const indexed *at) {
  bd_type type = {.rank = at->rank - 1 + at->ids_rank - at->batch};
  int own = at->ids_rank - at->batch;
  for (int d = 0; d < type.rank; ++d)
    type.dims[d] = d < at->dim         ? at->x[d]
                   : d < at->dim + own ? inference->in[1]->dims[at->batch + d - at->dim]
                                       : at->x[d + 1 - own];
  return type;
}

static indexed indexed_by(const bd_inference *inference) {
  return (indexed){.dim = (int)bd_op_int(inference->op, "dim", 0),
                   .batch = (int)bd_op_int(inference->op, "batch", 0),
                   .ids_rank = inference->in[1]->rank};
}

// A part of the rows gives zeros for those of the others.
bd_status bd_infer_gather(bd_inference *inference) {
  indexed at = indexed_by(inference);
  const bd_type *x = inference->in[0];
  BD_TRY(fixed_dim(inference, &at.dim));
  at.rank = x->rank;
  memcpy(at.x, x->dims, sizeof at.x);
  BD_TRY(check_ids(inference, &at));
  bd_loop_kind rows = bd_dtype_combines(x->dtype) ? BD_LOOP_SUM : BD_LOOP_WHOLE;
  add_indexed_loops(inference, &at, rows, BD_LOOP_PARALLEL, inference->map->in[0],
                    inference->map->out[0]);
  inference->out[0] = looked_up(inference, &at);
  return BD_OK;
}

static bool same_dims(const bd_type *a, const bd_type *b) {
  bd_type like = *a;
  like.dtype = b->dtype;
  return bd_type_equal(&like, b);
}

bd_status bd_infer_gather_dx(bd_inference *inference) {
  indexed at = indexed_by(inference);
  const bd_type *dout = inference->in[0];
  int own = at.ids_rank - at.batch;
  at.rank = dout->rank - own + 1;
  if (own < 0 || at.rank < 1 || at.dim >= at.rank)
    return bd_inference_fail(inference, "operand 1 has too few dimensions");
  for (int d = 0; d < at.rank; ++d)
    at.x[d] = d < at.dim    ? dout->dims[d]
              : d == at.dim ? bd_op_int(inference->op, "rows", 0)
                            : dout->dims[d - 1 + own];
  BD_TRY(check_ids(inference, &at));
  bd_type wanted = looked_up(inference, &at);
  if (!same_dims(dout, &wanted))
    return bd_inference_fail(inference, "operand 1 is %s, which operand 2 does not look up",
                             bd_type_describe(inference->ctx, dout));
  bd_loop_kind places = bd_dtype_combines(dout->dtype) ? BD_LOOP_SUM : BD_LOOP_WHOLE;
  add_indexed_loops(inference, &at, BD_LOOP_PARALLEL, places, inference->map->out[0],
                    inference->map->in[0]);
  inference->out[0] = bd_type_make(dout->dtype, at.rank, at.x);
  return BD_OK;
}

// Each part takes what falls into its rows.
bd_status bd_infer_scatter(bd_inference *inference) {
  static const char *const reductions[] = {"none", "add", "mul", "max", "min"};
  const char *reduction = bd_op_string(inference->op, "reduction");
  bool known = !reduction;
  for (int i = 0; i < 5 && !known; ++i)
    known = strcmp(reduction, reductions[i]) == 0;
  if (!known)
    return bd_inference_fail(
        inference, "reduction \"%s\" is unknown: use none, add, mul, max or min", reduction);
  indexed at = indexed_by(inference);
  const bd_type *x = inference->in[0];
  BD_TRY(fixed_dim(inference, &at.dim));
  at.rank = x->rank;
  memcpy(at.x, x->dims, sizeof at.x);
  BD_TRY(check_ids(inference, &at));
  bd_type wanted = looked_up(inference, &at);
  if (!same_dims(inference->in[2], &wanted))
    return bd_inference_fail(inference, "operand 3 is %s, which operand 2 does not look up",
                             bd_type_describe(inference->ctx, inference->in[2]));
  if (reduction && strcmp(reduction, "none") != 0 && x->dtype == BD_BOOL)
    return bd_inference_fail(inference, "bools have no reduction but none");
  add_indexed_loops(inference, &at, BD_LOOP_PARALLEL, BD_LOOP_WHOLE, inference->map->in[0],
                    inference->map->in[2]);
  memcpy(inference->map->out[0], inference->map->in[0], sizeof inference->map->out[0]);
  inference->out[0] = *x;
  return BD_OK;
}

// The last dimension is ordered.
bd_status bd_infer_topk(bd_inference *inference) {
  const bd_type *x = inference->in[0];
  int64_t k = bd_op_int(inference->op, "k", 1);
  int last = x->rank - 1;
  if (last < 0 || x->dims[last] == BD_DIM_BATCH || x->dims[last] < k)
    return bd_inference_fail(inference, "%s has no last dimension of at least %lld",
                             bd_type_describe(inference->ctx, x), (long long)k);
  inference->out[0] = *x;
  inference->out[0].dims[last] = k;
  add_loops_but(inference, last);
  inference->out[1] = inference->out[0];
  memcpy(inference->map->out[1], inference->map->out[0], sizeof inference->map->out[1]);
  return BD_OK;
}
