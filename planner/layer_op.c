#include "planner/layer_op.h"

static bool joins(const bd_function *f, int op) {
  if (op <= 0 || op >= f->op_count) return false;
  const bd_op *a = &f->ops[op - 1], *b = &f->ops[op];
  unsigned both = bd_op_get_info(a->kind)->traits & bd_op_get_info(b->kind)->traits;
  return (both & BD_POINTWISE) &&
         bd_type_equal(&f->values[a->out[0]].type, &f->values[b->out[0]].type);
}

// Whether a value may live and die inside the row from `first` to `last`. Whether the tape keeps it
// is the strategy's choice and does not count here.
static bool stays_inside(const bd_function *f, bd_id value, int first, int last) {
  int producer = f->values[value].producer;
  if (producer < first || producer > last) return false;
  for (int i = 0; i < f->result_count; i++)
    if (f->results[i] == value) return false;
  for (int i = last + 1; i < f->op_count; i++)
    for (int k = 0; k < f->ops[i].in_count; k++)
      if (f->ops[i].in[k] == value) return false;
  return true;
}

// The ops that may be fused with this one.
static void find_row(const bd_function *f, int op, int *first, int *last) {
  *first = *last = op;
  while (joins(f, *first))
    --*first;
  while (joins(f, *last + 1))
    ++*last;
}

double bd_layer_op_seconds(const bd_cost_model *cost, const bd_function *f, int index,
                           const bd_index_map *map, const int8_t split[BD_MAX_AXES]) {
  int first, last;
  find_row(f, index, &first, &last);
  const bd_op *op = &f->ops[index];
  if (first == last) return bd_cost_op(cost, f, op, map, split);
  double bytes = 0;
  for (int k = 0; k < op->in_count; k++) {
    bd_sharding sharding = bd_split_operand(map, &cost->mesh, split, k);
    if (!stays_inside(f, op->in[k], first, last))
      bytes += bd_cost_local_bytes(cost, &f->values[op->in[k]].type, &sharding);
  }
  for (int k = 0; k < op->out_count; k++) {
    bd_sharding sharding = bd_split_result(map, &cost->mesh, split, k);
    if (!stays_inside(f, op->out[k], first, last))
      bytes += bd_cost_local_bytes(cost, &f->values[op->out[k]].type, &sharding);
  }
  double launch = index == first ? cost->cluster->kernel_seconds : 0;
  return bytes / cost->cluster->memory_bytes_per_second + launch;
}

double bd_layer_even_seconds(const bd_cost_model *cost, const bd_function *f, int index,
                             const bd_index_map *map) {
  static const int8_t unsplit[BD_MAX_AXES] = {-1, -1, -1, -1};
  int ranks = bd_mesh_devices(&cost->mesh);
  bd_cluster whole = bd_cost_unite(cost->cluster, ranks);
  bd_cost_model even = {&whole, {1, {1}}, cost->micro_batch};
  return bd_layer_op_seconds(&even, f, index, map, unsplit);
}

double bd_layer_kept_seconds(const bd_cost_model *cost, const bd_function *f, bd_id value,
                             const bd_sharding *sharding) {
  int first, last, moves = 1;
  find_row(f, f->values[value].producer, &first, &last);
  if (first == last || !stays_inside(f, value, first, last)) return 0;
  for (int i = first; i <= last; i++)
    for (int k = 0; k < f->ops[i].in_count; k++)
      moves += f->ops[i].in[k] == value;
  return moves * bd_cost_local_bytes(cost, &f->values[value].type, sharding) /
         cost->cluster->memory_bytes_per_second;
}

double bd_layer_clone_seconds(const bd_cost_model *cost, const bd_function *f, int index,
                              const bd_index_map *map, const int8_t split[BD_MAX_AXES]) {
  const bd_op *op = &f->ops[index];
  if (!(bd_op_get_info(op->kind)->traits & BD_POINTWISE))
    return bd_cost_op(cost, f, op, map, split);
  return bd_op_flops(f, op, map, &cost->mesh, split, cost->micro_batch) / cost->cluster->flops_f32;
}
