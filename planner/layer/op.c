#include "planner/layer/op.h"
#include "ir/fuse.h"

static bool is_pointwise(const bd_op *op) {
  return (bd_op_get_info(op->kind)->traits & BD_POINTWISE) != 0;
}

static bool joins(const bd_function *f, int op) {
  if (op <= 0 || op >= f->op_count) return false;
  const bd_op *a = &f->ops[op - 1], *b = &f->ops[op];
  return is_pointwise(a) && is_pointwise(b) &&
         bd_fuse_types(&f->values[a->out[0]].type, &f->values[b->out[0]].type);
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

static const int8_t unsplit[BD_MAX_AXES] = {-1, -1, -1, -1};

// One device as fast as all of the mesh, which becomes `*whole`.
static bd_cost_model unite(const bd_cost_model *cost, bd_cluster *whole) {
  *whole = bd_cost_unite(cost->cluster, bd_mesh_devices(&cost->mesh));
  return (bd_cost_model){whole, {1, {1}}, cost->micro_batch};
}

double bd_layer_even_seconds(const bd_cost_model *cost, const bd_function *f, int index,
                             const bd_index_map *map) {
  bd_cluster whole;
  bd_cost_model even = unite(cost, &whole);
  return bd_layer_op_seconds(&even, f, index, map, unsplit);
}

double bd_layer_even_bytes(const bd_cost_model *cost, const bd_type *type) {
  bd_sharding whole = bd_sharding_replicated();
  return bd_cost_local_bytes(cost, type, &whole) / bd_mesh_devices(&cost->mesh);
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

// Whether backward reads a value that it computes again in a kernel apart from the one that makes
// it: all but the first row of gradients, which the last of the copies may be fused with.
static bool is_read_later(const bd_function *f, const bd_function *backward, bd_id value) {
  int first = 0, last = -1;
  if (backward->op_count && is_pointwise(&backward->ops[0])) find_row(backward, 0, &first, &last);
  for (int r = 0; r < backward->restore_count; r++) {
    if (f->saves[r] != value) continue;
    for (int i = last + 1; i < backward->op_count; i++)
      for (int k = 0; k < backward->ops[i].in_count; k++)
        if (backward->ops[i].in[k] == backward->params[r]) return true;
  }
  return false;
}

// Whether backward has the value in memory where it computes on with it: it is there before, or
// written in any case.
static bool is_stored(const bd_function *f, const bd_function *backward, bd_id value) {
  int producer = f->values[value].producer;
  return producer < 0 || !is_pointwise(&f->ops[producer]) || is_read_later(f, backward, value);
}

double bd_layer_clone_seconds(const bd_cost_model *cost, const bd_function *f,
                              const bd_function *backward, int index, const bd_index_map *map,
                              const int8_t split[BD_MAX_AXES]) {
  const bd_op *op = &f->ops[index];
  if (!is_pointwise(op)) return bd_cost_op(cost, f, op, map, split);
  double bytes = 0;
  if (!is_read_later(f, backward, op->out[0])) return 0;
  for (int k = 0; k < op->in_count; k++) {
    bd_sharding sharding = bd_split_operand(map, &cost->mesh, split, k);
    if (is_stored(f, backward, op->in[k]))
      bytes += bd_cost_local_bytes(cost, &f->values[op->in[k]].type, &sharding);
  }
  bd_sharding sharding = bd_split_result(map, &cost->mesh, split, 0);
  bytes += bd_cost_local_bytes(cost, &f->values[op->out[0]].type, &sharding);
  return bytes / cost->cluster->memory_bytes_per_second;
}

double bd_layer_even_clone_seconds(const bd_cost_model *cost, const bd_function *f,
                                   const bd_function *backward, int index,
                                   const bd_index_map *map) {
  bd_cluster whole;
  bd_cost_model even = unite(cost, &whole);
  return bd_layer_clone_seconds(&even, f, backward, index, map, unsplit);
}
