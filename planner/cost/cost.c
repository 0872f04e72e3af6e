// Ops, conversions and whole functions.
#include "planner/cost/cost.h"
#include <math.h>

bd_cluster bd_cost_unite(const bd_cluster *cluster, int devices) {
  bd_cluster whole = *cluster;
  whole.flops.f32 *= devices;
  whole.flops.bf16 *= devices;
  whole.flops.f16 *= devices;
  whole.flops.f8 *= devices;
  whole.memory_bytes_per_second *= devices;
  whole.work.transcendental_seconds /= devices;
  whole.work.starters = devices;
  for (int kind = 0; kind < BD_OP_KIND_COUNT; kind++)
    whole.work.point_seconds[kind] /= devices;
  return whole;
}

double bd_cost_update_rate(const bd_cluster *cluster) {
  double measured = cluster->work.update_bytes_per_second;
  return measured > 0 ? measured : cluster->memory_bytes_per_second;
}

double bd_cost_update_pass(const bd_cluster *cluster, double bytes) {
  return bytes / bd_cost_update_rate(cluster) + cluster->kernel_seconds;
}

static double roofline(const bd_cost_model *model, double arithmetic, double bytes) {
  const bd_cluster *cluster = model->cluster;
  return fmax(arithmetic, bytes / cluster->memory_bytes_per_second) + cluster->kernel_seconds;
}

double bd_cost_op(const bd_cost_model *model, const bd_function *function, const bd_op *op,
                  const bd_index_map *map, const int8_t split[BD_MAX_AXES]) {
  double bytes = bd_op_bytes(function, op, map, &model->mesh, split, model->micro_batch);
  return roofline(model, bd_cost_arithmetic(model, function, op, map, split), bytes);
}

double bd_cost_choose_op(const bd_cost_model *model, const bd_function *function, const bd_op *op,
                         const bd_index_map *map, const int8_t split[BD_MAX_AXES]) {
  double bytes = bd_op_bytes(function, op, map, &model->mesh, split, model->micro_batch);
  double seconds =
      roofline(model, bd_cost_choose_arithmetic(model, function, op, map, split), bytes);
  if (!bd_op_attends(op->kind)) return seconds;
  return fmin(seconds, bd_cost_balanced_at_least(model, function, op, map, split));
}

double bd_cost_local_elements(const bd_cost_model *model, const bd_type *type,
                              const bd_sharding *sharding) {
  return (double)bd_local_elements(&model->mesh, sharding, type, model->micro_batch);
}

double bd_cost_local_bytes(const bd_cost_model *model, const bd_type *type,
                           const bd_sharding *sharding) {
  return bd_cost_local_elements(model, type, sharding) * (double)bd_dtype_bytes(type->dtype);
}

double bd_cost_value_bytes(const bd_cost_model *model, const bd_value *value) {
  return bd_cost_local_bytes(model, &value->type, &value->sharding);
}

// `in` and `out` bytes lie on a rank before and after.
static double collective_seconds(const bd_cost_model *model, bd_op_kind kind, int axis, double in,
                                 double out) {
  double seconds = (in + out) / model->cluster->memory_bytes_per_second;
  if (kind == BD_OP_ALL_REDUCE)
    seconds = bd_cost_all_reduce(model, axis, in);
  else if (kind == BD_OP_ALL_TO_ALL)
    seconds = bd_cost_all_to_all(model, axis, fmax(in, out));
  else if (kind == BD_OP_MIRROR)
    seconds = bd_cost_mirror(model, axis, in);
  else if (kind != BD_OP_SHARD)
    seconds = bd_cost_exchange(model, axis, fmax(in, out));
  return seconds + model->cluster->kernel_seconds;
}

double bd_cost_reshard_step(const bd_cost_model *model, const bd_type *type,
                            const bd_reshard_step *step) {
  return collective_seconds(model, step->kind, step->axis,
                            bd_cost_local_bytes(model, type, &step->before),
                            bd_cost_local_bytes(model, type, &step->after));
}

double bd_cost_reshard(const bd_cost_model *model, const bd_type *type, const bd_sharding *from,
                       const bd_sharding *to) {
  bd_reshard_step steps[BD_MAX_RESHARD_STEPS];
  int count = bd_reshard_steps(&model->mesh, from, to, steps);
  double seconds = 0;
  for (int i = 0; i < count; i++)
    seconds += bd_cost_reshard_step(model, type, &steps[i]);
  return seconds;
}

double bd_cost_collective_part(const bd_cost_model *model, const bd_function *function,
                               const bd_op *op, int parts) {
  return collective_seconds(model, op->kind, (int)bd_op_int(op, "axis", 0),
                            bd_cost_value_bytes(model, &function->values[op->in[0]]) / parts,
                            bd_cost_value_bytes(model, &function->values[op->out[0]]) / parts);
}

double bd_cost_collective(const bd_cost_model *model, const bd_function *function,
                          const bd_op *op) {
  if (op->kind == BD_OP_SEND)
    return bd_cost_copy(model, bd_cost_value_bytes(model, &function->values[op->in[0]]));
  if (op->kind == BD_OP_RECV)
    return bd_cost_receive(model, (int)bd_op_int(op, "from", 0), op->stage,
                           bd_cost_value_bytes(model, &function->values[op->out[0]]));
  return bd_cost_collective_part(model, function, op, 1);
}

// A fused run: its arithmetic, and the traffic of what enters and leaves it.
bd_status bd_cost_step(bd_ctx *ctx, const bd_cost_model *model, const bd_module *module,
                       const bd_function *function, const bd_fusion *fusion, int step,
                       double *out_seconds) {
  double arithmetic = 0, bytes = 0;
  for (int i = 0; i < fusion->step_ops[step]; i++) {
    const bd_op *op = &function->ops[fusion->first_op[step] + i];
    if (bd_op_get_info(op->kind)->level == BD_COLLECTIVE)
      return bd_cost_exposed(ctx, model, module, function, fusion->first_op[step] + i, out_seconds);
    bd_index_map map;
    bd_type types[BD_MAX_RESULTS];
    BD_TRY(bd_op_infer(ctx, function, op, &map, types));
    arithmetic += bd_cost_arithmetic(model, function, op, &map, op->split);
    if (fusion->step_ops[step] == 1)
      bytes += bd_op_bytes(function, op, &map, &model->mesh, op->split, model->micro_batch);
    for (int o = 0; fusion->step_ops[step] > 1 && o < op->in_count; o++)
      if (!fusion->inner[op->in[o]])
        bytes += bd_cost_value_bytes(model, &function->values[op->in[o]]);
    for (int o = 0; fusion->step_ops[step] > 1 && o < op->out_count; o++)
      if (!fusion->inner[op->out[o]])
        bytes += bd_cost_value_bytes(model, &function->values[op->out[o]]);
  }
  *out_seconds = roofline(model, arithmetic, bytes);
  return BD_OK;
}

bd_status bd_cost_main_op(bd_ctx *ctx, const bd_cost_model *model, const bd_function *main,
                          const bd_op *op, double *out_seconds) {
  if (bd_op_get_info(op->kind)->level == BD_COLLECTIVE) {
    *out_seconds = bd_cost_collective(model, main, op);
    return BD_OK;
  }
  bd_index_map map;
  bd_type types[BD_MAX_RESULTS];
  BD_TRY(bd_op_infer(ctx, main, op, &map, types));
  *out_seconds = bd_cost_op(model, main, op, &map, op->split);
  return BD_OK;
}

bd_status bd_cost_function(bd_ctx *ctx, const bd_cost_model *model, const bd_module *module,
                           const bd_function *function, double *out_seconds) {
  bd_fusion fusion;
  bd_fuse(ctx, module, function, &fusion);
  *out_seconds = 0;
  for (int step = 0; step < fusion.step_count; step++) {
    double seconds;
    BD_TRY(bd_cost_step(ctx, model, module, function, &fusion, step, &seconds));
    *out_seconds += seconds;
  }
  return BD_OK;
}
