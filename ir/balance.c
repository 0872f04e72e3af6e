#include "ir/balance.h"

int64_t bd_balance_chunk(const bd_op *op, const bd_index_map *map, const bd_mesh *mesh,
                         const int8_t split[BD_MAX_AXES]) {
  int queries = bd_index_find(map, 't');
  if (!bd_op_attends(op->kind) || !bd_op_int(op, "causal", 0) || bd_op_find_attr(op, "window") ||
      bd_op_find_attr(op, "chunk"))
    return 0;
  int64_t parts = 1, extent = map->loop[queries].extent;
  for (int axis = 0; axis < mesh->axes; ++axis)
    if (split[axis] == queries) parts *= mesh->size[axis];
  int64_t chunk = extent / (2 * parts), unit = map->loop[queries].unit;
  bool even = extent % (2 * parts) == 0 && (unit <= 1 || chunk % unit == 0);
  return parts > 1 && even ? chunk : 0;
}

int64_t bd_balance_queries(const bd_op *op, int64_t queries) {
  return bd_op_find_attr(op, "chunk") ? 2 * queries : queries;
}

int bd_balance_dim(const bd_index_map *map, const int8_t dims[BD_MAX_RANK]) {
  int queries = bd_index_find(map, 't');
  for (int d = 0; d < BD_MAX_RANK; ++d)
    if (dims[d] == queries) return d;
  return -1;
}
