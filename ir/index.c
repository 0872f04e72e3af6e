#include "ir/index.h"

int bd_index_find(const bd_index_map *map, char letter) {
  for (int i = 0; i < map->loops; ++i)
    if (map->loop[i].letter == letter) return i;
  return -1;
}

// Parts of equal size, or at least one element in every part.
static bool divides(const bd_loop *loop, int64_t batch, int64_t parts, bool exact) {
  int64_t extent = bd_extent(loop->extent, batch);
  if (loop->unit > 1) parts *= loop->unit;
  if (exact || loop->exact || loop->extent == BD_DIM_BATCH) return extent % parts == 0;
  return bd_parts_are_filled(extent, parts);
}

bool bd_split_allowed(const bd_index_map *map, const bd_mesh *mesh, int64_t batch, int axis,
                      int loop) {
  if (axis < 0 || axis >= mesh->axes || loop < 0 || loop >= map->loops) return false;
  if (map->loop[loop].kind == BD_LOOP_WHOLE) return false;
  return divides(&map->loop[loop], batch, mesh->size[axis], false);
}

bool bd_split_nested(const bd_index_map *map, const bd_mesh *mesh, int64_t batch,
                     const int8_t split[BD_MAX_AXES], int axis) {
  int outer = split[axis] < 0 ? -1 : map->loop[split[axis]].within;
  if (outer < 0) return true;
  int64_t parts = 1;
  for (int before = 0; before < axis; ++before)
    if (split[before] == outer) parts *= mesh->size[before];
  return parts == bd_extent(map->loop[outer].extent, batch);
}

bool bd_split_valid(const bd_index_map *map, const bd_mesh *mesh, int64_t batch,
                    const int8_t split[BD_MAX_AXES]) {
  for (int axis = 0; axis < BD_MAX_AXES; ++axis) {
    if (split[axis] < 0) continue;
    if (!bd_split_allowed(map, mesh, batch, axis, split[axis]) ||
        !bd_split_nested(map, mesh, batch, split, axis))
      return false;
    int64_t parts = 1;
    int users = 0;
    for (int other = 0; other < mesh->axes; ++other) {
      if (split[other] != split[axis]) continue;
      parts *= mesh->size[other];
      ++users;
    }
    if (users > 1 && !divides(&map->loop[split[axis]], batch, parts, true)) return false;
  }
  return true;
}

// The dimension that a loop indexes, alone or within another (`inner`), or `absent`.
static int8_t find_dim(const bd_index_map *map, const int8_t dims[BD_MAX_RANK], int loop,
                       bool inner, int8_t absent) {
  if (inner) loop = map->loop[loop].within;
  for (int8_t d = 0; d < BD_MAX_RANK; ++d)
    if (dims[d] == loop) return d;
  return absent;
}

bd_sharding bd_split_operand(const bd_index_map *map, const bd_mesh *mesh,
                             const int8_t split[BD_MAX_AXES], int operand) {
  bd_sharding sharding = bd_sharding_replicated();
  for (int axis = 0; axis < mesh->axes; ++axis)
    if (split[axis] >= 0)
      sharding.at[axis] = find_dim(map, map->in[operand], split[axis],
                                   map->loop[split[axis]].inner_in >> operand & 1u, BD_REPLICATED);
  return sharding;
}

static int8_t partial_of(const bd_loop *loop) {
  if (loop->kind == BD_LOOP_MAX) return BD_PARTIAL_MAX;
  return loop->kind == BD_LOOP_LSE ? BD_PARTIAL_LSE : BD_PARTIAL_SUM;
}

bd_sharding bd_split_result(const bd_index_map *map, const bd_mesh *mesh,
                            const int8_t split[BD_MAX_AXES], int result) {
  bd_sharding sharding = bd_sharding_replicated();
  for (int axis = 0; axis < mesh->axes; ++axis)
    if (split[axis] >= 0)
      sharding.at[axis] = find_dim(map, map->out[result], split[axis],
                                   map->loop[split[axis]].inner_out >> result & 1u,
                                   partial_of(&map->loop[split[axis]]));
  return sharding;
}

// Floating-point operations per point of the op's loops, where it is not one. A multiply-add is
// two. Transcendental functions count as the polynomials that compute them; attention is two
// products forward and five backward; normalizations read their dimension twice.
static const double point_flops[BD_OP_KIND_COUNT] = {
    [BD_OP_EXP] = 10,
    [BD_OP_LOG] = 10,
    [BD_OP_SQRT] = 4,
    [BD_OP_TANH] = 12,
    [BD_OP_SIGMOID] = 12,
    [BD_OP_GELU] = 18,
    [BD_OP_GELU_GRAD] = 24,
    [BD_OP_GELU_ERF] = 20,
    [BD_OP_GELU_ERF_GRAD] = 30,
    [BD_OP_SILU] = 13,
    [BD_OP_SILU_GRAD] = 17,
    [BD_OP_DROPOUT] = 20,
    [BD_OP_CONTRACT] = 2,
    [BD_OP_GROUPED_CONTRACT] = 2,
    [BD_OP_GROUPED_CONTRACT_DW] = 2,
    [BD_OP_LAYERNORM] = 8,
    [BD_OP_LAYERNORM_DX] = 11,
    [BD_OP_LAYERNORM_DW] = 5,
    [BD_OP_RMSNORM] = 5,
    [BD_OP_RMSNORM_DX] = 9,
    [BD_OP_RMSNORM_DW] = 3,
    [BD_OP_ROPE] = 6,
    [BD_OP_ATTENTION] = 4,
    [BD_OP_ATTENTION_GRAD] = 10,
    [BD_OP_SINK_ATTENTION] = 4,
    [BD_OP_ROW_PRODUCTS] = 2,
    [BD_OP_SINKS_GRAD] = 13,
    [BD_OP_RELATIVE_ATTENTION] = 4,
    [BD_OP_RELATIVE_ATTENTION_GRAD] = 10,
    [BD_OP_LSE] = 12,
    [BD_OP_XENT] = 2,
    [BD_OP_XENT_GRAD] = 13,
    [BD_OP_CONV] = 2,
    [BD_OP_CONV_DX] = 2,
    [BD_OP_CONV_DW] = 2,
    [BD_OP_SIN] = 16,
    [BD_OP_COS] = 16,
    [BD_OP_ERF] = 18,
    [BD_OP_POW] = 40,
    [BD_OP_MOD] = 8,
};

static int64_t parts_of(const bd_mesh *mesh, const int8_t split[BD_MAX_AXES], int loop) {
  int64_t parts = 1;
  for (int axis = 0; axis < mesh->axes; ++axis)
    if (split[axis] == loop) parts *= mesh->size[axis];
  return parts;
}

// Points of the loop nest on one rank, over loops that are not indexed by data: of those, a point
// touches one row.
static double loop_points(const bd_index_map *map, const bd_mesh *mesh,
                          const int8_t split[BD_MAX_AXES], int64_t batch) {
  double points = 1;
  for (int i = 0; i < map->loops; ++i) {
    if (map->loop[i].gather) continue;
    int64_t parts = parts_of(mesh, split, i);
    int64_t extent = bd_extent(map->loop[i].extent, batch);
    points *= (double)(extent / parts + (extent % parts != 0));
  }
  return points;
}

// Reshape names only the loops it can split, and moves its elements without arithmetic, as do the
// other ops of no computation.
static bool only_moves(bd_op_kind kind) {
  return kind == BD_OP_RESHAPE || kind == BD_OP_PERMUTE || kind == BD_OP_SLICE ||
         kind == BD_OP_PAD || kind == BD_OP_BROADCAST || kind == BD_OP_EMBED ||
         kind == BD_OP_CONSTANT || kind == BD_OP_IOTA || kind == BD_OP_CONCAT ||
         kind == BD_OP_ALTERNATE || kind == BD_OP_INTERLEAVE || kind == BD_OP_GATHER ||
         kind == BD_OP_ROUTE || kind == BD_OP_UNFOLD;
}

// Of the scores of a rank, those that a causal mask leaves to the one that has the last queries: of
// n parts of the queries the last sees all keys before it, and half of its own.
static double causal_share(const bd_index_map *map, const bd_mesh *mesh,
                           const int8_t split[BD_MAX_AXES]) {
  return 1 - 0.5 / (double)parts_of(mesh, split, bd_index_find(map, 't'));
}

// The same where queries see the last `window` of the keys before them alone. With places from 0 to
// 1 the query at x sees min(x, w), and the last rank has those from 1 - 1/n on: where the window
// does not reach back over all before them, each of the rank's sees w; else those before w see x.
static double window_share(const bd_index_map *map, const bd_mesh *mesh,
                           const int8_t split[BD_MAX_AXES], int64_t window) {
  int t = bd_index_find(map, 't'), s = bd_index_find(map, 's');
  double queries = (double)map->loop[t].extent, keys = (double)map->loop[s].extent;
  double part = 1 / (double)parts_of(mesh, split, t), first = 1 - part;
  double w = (double)window / queries;
  if (w >= 1) return causal_share(map, mesh, split);
  double seen = w * part;
  if (w > first) seen -= 0.5 * (w - first) * (w - first);
  return seen / part * (queries / keys);
}

// Loops count the width of queries and keys. As wide as values are one of two products forward, and
// two of five backward.
static double width_share(const bd_function *function, const bd_op *op) {
  bool gradient = bd_op_is_attention_grad(op->kind);
  const bd_id *in = op->in + gradient;
  double keys = (double)function->values[in[1]].type.dims[3];
  double own = (double)function->values[in[2]].type.dims[3];
  return gradient ? (3 * keys + 2 * own) / (5 * keys) : (keys + own) / (2 * keys);
}

double bd_op_flops(const bd_function *function, const bd_op *op, const bd_index_map *map,
                   const bd_mesh *mesh, const int8_t split[BD_MAX_AXES], int64_t batch) {
  if (only_moves(op->kind)) return 0;
  double flops = loop_points(map, mesh, split, batch);
  if (point_flops[op->kind] > 0) flops *= point_flops[op->kind];
  if (bd_op_attends(op->kind)) flops *= width_share(function, op);
  int64_t window = bd_op_int(op, "window", 0);
  if (window > 0)
    flops *= window_share(map, mesh, split, window);
  else if (bd_op_find_attr(op, "chunk"))
    flops *= 0.5; // with the rank's other chunk exactly half of what both could see
  else if (bd_op_int(op, "causal", 0))
    flops *= causal_share(map, mesh, split);
  if (!bd_op_is_grouped(op->kind)) return flops;
  int64_t rows = function->values[op->in[0]].type.dims[1];
  return flops * (double)bd_op_int(op, "filled", rows) / (double)rows;
}

double bd_op_bytes(const bd_function *function, const bd_op *op, const bd_index_map *map,
                   const bd_mesh *mesh, const int8_t split[BD_MAX_AXES], int64_t batch) {
  double points = loop_points(map, mesh, split, batch);
  double bytes = 0;
  int read = op->in_count;
  if (op->kind == BD_OP_ROUTE) { // the way back is the gradient's
    points /= (double)map->loop[map->loops - 1].extent;
    read = 2;
  }
  for (int i = 0; i < read; ++i) {
    const bd_type *type = &function->values[op->in[i]].type;
    bd_sharding sharding = bd_split_operand(map, mesh, split, i);
    double elements = (double)bd_local_elements(mesh, &sharding, type, batch);
    bool gathered = false;
    for (int d = 0; d < type->rank; ++d)
      gathered |= map->in[i][d] >= 0 && map->loop[map->in[i][d]].gather;
    if (gathered && elements > points) elements = points;
    bytes += elements * (double)bd_dtype_bytes(type->dtype);
  }
  for (int i = 0; i < op->out_count; ++i) {
    const bd_type *type = &function->values[op->out[i]].type;
    bd_sharding sharding = bd_split_result(map, mesh, split, i);
    bytes += (double)bd_local_elements(mesh, &sharding, type, batch) *
             (double)bd_dtype_bytes(type->dtype);
  }
  return bytes;
}
