// Attention whose ranks swap halves of their queries.
#include "ir/balance.h"
#include "planner/cost/cost.h"
#include <math.h>

// Axes of one size take each other's place where work is priced: the fastest of them counts.
static double mirror_seconds(const bd_cost_model *model, int axis, double bytes) {
  double least = INFINITY;
  for (int other = 0; other < model->mesh.axes; other++)
    if (model->mesh.size[other] == model->mesh.size[axis])
      least = fmin(least, bd_cost_mirror(model, other, bytes));
  return least + model->cluster->kernel_seconds;
}

// Half of what a rank has of a value goes over; on this side it is made of the whole, or the whole
// of both halves.
static double swap_seconds(const bd_cost_model *model, const bd_index_map *map,
                           const int8_t split[BD_MAX_AXES], double bytes, bool back) {
  const bd_cluster *cluster = model->cluster;
  double copied = back ? 2 * bytes : 2 * 1.5 * bytes;
  double seconds =
      copied / cluster->memory_bytes_per_second + (back ? 1 : 2) * cluster->kernel_seconds;
  for (int axis = 0; axis < model->mesh.axes; axis++)
    if (split[axis] == bd_index_find(map, 't') && model->mesh.size[axis] > 1)
      seconds += mirror_seconds(model, axis, bytes / 2);
  return seconds;
}

double bd_cost_balanced_at_least(const bd_cost_model *model, const bd_function *function,
                                 const bd_op *op, const bd_index_map *map,
                                 const int8_t split[BD_MAX_AXES]) {
  const bd_cluster *cluster = model->cluster;
  int64_t chunk = bd_balance_chunk(op, map, &model->mesh, split);
  if (!chunk || cluster->work.attention_materialized) return INFINITY;
  double parts = (double)(map->loop[bd_index_find(map, 't')].extent / (2 * chunk));
  double even = parts / (2 * parts - 1); // of what the last of the parts in order does
  double arithmetic = even * bd_cost_arithmetic(model, function, op, map, split);
  double bytes = bd_op_bytes(function, op, map, &model->mesh, split, model->micro_batch);
  double seconds =
      fmax(arithmetic, bytes / cluster->memory_bytes_per_second) + 2 * cluster->kernel_seconds;
  bd_sharding in = bd_split_operand(map, &model->mesh, split, 0),
              out = bd_split_result(map, &model->mesh, split, 0);
  seconds += swap_seconds(
      model, map, split, bd_cost_local_bytes(model, &function->values[op->in[0]].type, &in), false);
  seconds +=
      swap_seconds(model, map, split,
                   bd_cost_local_bytes(model, &function->values[op->out[0]].type, &out), true);
  // Two summands are read, where whoever reads the sum would have read it.
  for (int i = 1; i < op->out_count; i++) {
    bd_sharding made = bd_split_result(map, &model->mesh, split, i);
    if (bd_balance_dim(map, map->out[i]) < 0)
      seconds += bd_cost_local_bytes(model, &function->values[op->out[i]].type, &made) /
                 cluster->memory_bytes_per_second;
  }
  return seconds;
}
