#include "planner/layer/op.h"
#include "ir/fuse.h"

static bool is_pointwise(const bd_op *op) {
  return (bd_op_get_info(op->kind)->traits & BD_POINTWISE) != 0;
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
  while (bd_fuse_joins(f, *first))
    --*first;
  while (bd_fuse_joins(f, *last + 1))
    ++*last;
}

// The first row of gradients, which copies may be fused with; none: `*last` is -1.
static void find_first_row(const bd_function *backward, int *first, int *last) {
  *first = 0;
  *last = -1;
  if (backward->op_count && is_pointwise(&backward->ops[0])) find_row(backward, 0, first, last);
}

// Whether backward reads a value that it computes again in a kernel apart from the one that makes
// it: all but the first row of gradients, which the last of the copies may be fused with.
static bool is_read_later(const bd_function *f, const bd_function *backward, bd_id value) {
  int first, last;
  find_first_row(backward, &first, &last);
  for (int r = 0; r < backward->restore_count; r++) {
    if (f->saves[r] != value) continue;
    for (int i = last + 1; i < backward->op_count; i++)
      for (int k = 0; k < backward->ops[i].in_count; k++)
        if (backward->ops[i].in[k] == backward->params[r]) return true;
  }
  return false;
}

// The forward value that one of a backward function is; BD_NO_ID: none.
static bd_id restored_value(const bd_function *forward, const bd_function *backward, bd_id value) {
  int at = forward ? bd_ids_find(backward->params, backward->restore_count, value) : -1;
  return at < 0 ? BD_NO_ID : forward->saves[at];
}

// Whether a value lives and dies in the kernel of backward's first row when it is computed again.
static bool may_be_copied(const bd_function *forward, const bd_function *backward, bd_id value) {
  int producer = value == BD_NO_ID ? -1 : forward->values[value].producer;
  return producer >= 0 && is_pointwise(&forward->ops[producer]) &&
         !is_read_later(forward, backward, value);
}

// Whether an op of a row from `first` on reads the operand from memory whatever the tape keeps.
static bool is_read(const bd_function *f, const bd_function *forward, bd_id value, int first,
                    int last) {
  if (stays_inside(f, value, first, last)) return false;
  return first > 0 || !may_be_copied(forward, f, restored_value(forward, f, value));
}

static bool is_alone(const bd_function *f, const bd_function *forward, int op) {
  for (int k = 0; k < f->ops[op].in_count; k++)
    if (!is_read(f, forward, f->ops[op].in[k], op, op)) return false;
  return true;
}

double bd_layer_op_seconds(const bd_cost_model *cost, const bd_function *f,
                           const bd_function *forward, int index, const bd_index_map *map,
                           const int8_t split[BD_MAX_AXES]) {
  int first, last;
  find_row(f, index, &first, &last);
  const bd_op *op = &f->ops[index];
  if (first == last && (!is_pointwise(op) || is_alone(f, forward, index)))
    return bd_cost_choose_op(cost, f, op, map, split);
  double bytes = 0;
  for (int k = 0; k < op->in_count; k++) {
    bd_sharding sharding = bd_split_operand(map, &cost->mesh, split, k);
    if (is_read(f, forward, op->in[k], first, last))
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

double bd_layer_even_seconds(const bd_cost_model *cost, const bd_function *f,
                             const bd_function *forward, int index, const bd_index_map *map) {
  bd_cluster whole;
  bd_cost_model even = unite(cost, &whole);
  return bd_layer_op_seconds(&even, f, forward, index, map, unsplit);
}

double bd_layer_even_bytes(const bd_cost_model *cost, const bd_type *type) {
  bd_sharding whole = bd_sharding_replicated();
  return bd_cost_local_bytes(cost, type, &whole) / bd_mesh_devices(&cost->mesh);
}

// By ops of the first row of gradients.
static int reads_of_first_row(const bd_function *f, const bd_function *backward, bd_id value) {
  int first, last, count = 0;
  find_first_row(backward, &first, &last);
  for (int i = first; i <= last; i++)
    for (int k = 0; k < backward->ops[i].in_count; k++)
      count += restored_value(f, backward, backward->ops[i].in[k]) == value;
  return count;
}

double bd_layer_kept_seconds(const bd_cost_model *cost, const bd_function *f,
                             const bd_function *backward, bd_id value,
                             const bd_sharding *sharding) {
  int first, last, moves = 1;
  double bytes = 0;
  if (may_be_copied(f, backward, value))
    bytes +=
        reads_of_first_row(f, backward, value) * bd_layer_even_bytes(cost, &f->values[value].type);
  find_row(f, f->values[value].producer, &first, &last);
  if (first < last && stays_inside(f, value, first, last)) {
    for (int i = first; i <= last; i++)
      for (int k = 0; k < f->ops[i].in_count; k++)
        moves += f->ops[i].in[k] == value;
    bytes += moves * bd_cost_local_bytes(cost, &f->values[value].type, sharding);
  }
  return bytes / cost->cluster->memory_bytes_per_second;
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
  if (!is_pointwise(op)) return bd_cost_choose_op(cost, f, op, map, split);
  double bytes = 0;
  for (int k = 0; k < op->in_count; k++) {
    bd_sharding sharding = bd_split_operand(map, &cost->mesh, split, k);
    if (is_stored(f, backward, op->in[k]))
      bytes += bd_cost_local_bytes(cost, &f->values[op->in[k]].type, &sharding);
  }
  bd_sharding sharding = bd_split_result(map, &cost->mesh, split, 0);
  if (is_read_later(f, backward, op->out[0]))
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
