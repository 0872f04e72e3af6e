// Index rules of ops that take rows to places and back.
#include "ir/index_rule.h"
#include "ir/pool.h"

// Dimensions of rows: of x, and of what is made of it.
typedef struct route {
  int rows, places, rest;
} route;

static const char *described(const bd_inference *inference, int operand) {
  return bd_type_describe(inference->ctx, inference->in[operand]);
}

// Names of rows, or of places: a batch, as many dimensions as are named for, and a list for each.
static bd_status check_names(bd_inference *inference, int operand, int count) {
  const bd_type *names = inference->in[operand];
  if (names->rank != count + 2)
    return bd_inference_fail(inference, "operand %d must have %d dimensions, not %s", operand + 1,
                             count + 2, described(inference, operand));
  BD_TRY(bd_inference_check_extent(inference, operand, 0, inference->in[0]->dims[0]));
  for (int d = 1; d <= count; ++d)
    if (names->dims[d] == BD_DIM_BATCH)
      return bd_inference_fail(inference, "the dimensions of rows and places are of fixed extents");
  int64_t most = names->dims[count + 1];
  if (most != BD_DIM_BATCH && (operand == 2 || most <= BD_MAX_NAMED_ROWS)) return BD_OK;
  return bd_inference_fail(inference, "operand %d names %s rows for one place, at most %d",
                           operand + 1, bd_extent_print(most).text, BD_MAX_NAMED_ROWS);
}

// Only samples are counted over.
static bd_status check_pool(bd_inference *inference) {
  const bd_type *x = inference->in[0];
  if (!bd_op_int(inference->op, BD_POOLED_ATTR, 0) || (x->rank > 0 && x->dims[0] == BD_DIM_BATCH))
    return BD_OK;
  return bd_inference_fail(inference, "the first dimension of operand 1, %s, is not the batch",
                           described(inference, 0));
}

static bd_status measure(bd_inference *inference, route *out) {
  const bd_type *x = inference->in[0], *to = inference->in[1];
  BD_TRY(check_pool(inference));
  out->rows = (int)bd_op_int(inference->op, "rows", 1);
  out->rest = x->rank - 1 - out->rows;
  out->places = to->rank - 2;
  if (out->rest < 0 || out->places < 1)
    return bd_inference_fail(inference, "operand %d, %s, has too few dimensions",
                             out->rest < 0 ? 1 : 2, described(inference, out->rest < 0 ? 0 : 1));
  if (out->rows > 3 || out->places > 3 || 1 + out->places + out->rest > BD_MAX_RANK ||
      3 + out->rows + out->places + out->rest > BD_MAX_LOOPS)
    return bd_inference_fail(inference,
                             "rows and places have at most 3 dimensions, a result at most %d, and "
                             "with what rows hold that is at most %d",
                             BD_MAX_RANK, BD_MAX_LOOPS - 3);
  BD_TRY(check_names(inference, 1, out->places));
  BD_TRY(check_names(inference, 2, out->rows));
  for (int d = 1; d <= out->rows; ++d)
    BD_TRY(bd_inference_check_extent(inference, 2, d, x->dims[d]));
  return BD_OK;
}

// The batch b, rows v, w, .. of x, places i, j, .., and the rest of a row, B, C, ..; the gradient,
// `inverse`, has rows and places changed about and calls them alike.
bd_status bd_infer_route(bd_inference *inference) {
  bd_index_map *map = inference->map;
  const bd_type *x = inference->in[0], *to = inference->in[1];
  bool inverse = bd_op_int(inference->op, "inverse", 0);
  route r;
  BD_TRY(measure(inference, &r));
  bd_type *out = &inference->out[0];
  *out = (bd_type){.rank = 1 + r.places + r.rest, .dims = {x->dims[0]}};
  int loop = bd_inference_add_loop(inference, 'b', BD_LOOP_PARALLEL, x->dims[0]);
  map->in[0][0] = map->in[1][0] = map->in[2][0] = map->out[0][0] = (int8_t)loop;
  for (int d = 1; d <= r.rows; ++d) {
    loop = bd_inference_add_loop(inference, (char)((inverse ? 'i' : 'v') + d - 1), BD_LOOP_SUM,
                                 x->dims[d]);
    map->loop[loop].gather = true;
    map->in[0][d] = map->in[2][d] = (int8_t)loop;
  }
  for (int d = 1; d <= r.places; ++d) {
    loop = bd_inference_add_loop(inference, (char)((inverse ? 'v' : 'i') + d - 1), BD_LOOP_PARALLEL,
                                 to->dims[d]);
    map->in[1][d] = map->out[0][d] = (int8_t)loop;
    out->dims[d] = to->dims[d];
  }
  for (int d = 0; d < r.rest; ++d) {
    int64_t extent = x->dims[1 + r.rows + d];
    loop = bd_inference_add_loop(inference, (char)('B' + d), BD_LOOP_PARALLEL, extent);
    map->in[0][1 + r.rows + d] = map->out[0][1 + r.places + d] = (int8_t)loop;
    out->dims[1 + r.places + d] = extent;
  }
  loop = bd_inference_add_loop(inference, 'k', BD_LOOP_WHOLE, to->dims[1 + r.places]);
  map->in[1][1 + r.places] = (int8_t)loop;
  int last = 1 + r.rows;
  loop = bd_inference_add_loop(inference, 'n', BD_LOOP_WHOLE, inference->in[2]->dims[last]);
  map->in[2][last] = (int8_t)loop;
  return BD_OK;
}

// Loops of x, and p of the places that follow; `dim`, which is searched, is in no result.
bd_status bd_infer_search(bd_inference *inference) {
  const bd_type *x = inference->in[0];
  bd_type *out = &inference->out[0];
  int dim = (int)bd_op_int(inference->op, "dim", 0), next = 0;
  if (x->dtype != BD_I32 && x->dtype != BD_I64)
    return bd_inference_fail(inference, "operand 1 must hold i32 or i64, not %s",
                             bd_dtype_name(x->dtype));
  if (dim >= x->rank || x->dims[dim] == BD_DIM_BATCH)
    return bd_inference_fail(inference, "dim is %d, which is not a dimension of fixed extent of %s",
                             dim, described(inference, 0));
  BD_TRY(check_pool(inference));
  *out = (bd_type){.rank = x->rank};
  for (int d = 0; d < x->rank; ++d) {
    int loop = bd_inference_add_loop(inference, (char)('A' + d),
                                     d == dim ? BD_LOOP_WHOLE : BD_LOOP_PARALLEL, x->dims[d]);
    inference->map->in[0][d] = (int8_t)loop;
    if (d == dim) continue;
    inference->map->out[0][next] = (int8_t)loop;
    out->dims[next++] = x->dims[d];
  }
  int64_t places = bd_op_int(inference->op, "places", 1);
  int loop = bd_inference_add_loop(inference, 'p', BD_LOOP_PARALLEL, places);
  inference->map->out[0][next] = (int8_t)loop;
  out->dims[next] = places;
  return BD_OK;
}

// Of every sample b the queues of the items i for the groups e, and where the groups' rows begin;
// the rows r of the pool.
bd_status bd_infer_row_items(bd_inference *inference) {
  for (int i = 0; i < 2; ++i) {
    BD_TRY(bd_inference_check_static(inference, i, 3 - i, 1));
    BD_TRY(bd_inference_check_extent(inference, i, 0, BD_DIM_BATCH));
    if (inference->in[i]->dtype != BD_I32)
      return bd_inference_fail(inference, "operand %d must hold i32, not %s", i + 1,
                               bd_dtype_name(inference->in[i]->dtype));
  }
  int64_t dims[2] = {BD_DIM_BATCH, bd_op_int(inference->op, "rows", 1)};
  return bd_inference_apply(inference, "bie,be->br|one i e", 2, dims);
}
