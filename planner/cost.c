#include "planner/cost.h"

bd_link bd_cost_link(const bd_cost_model *model, int axis) {
  const bd_cluster *cluster = model->cluster;
  int stride = 1, size = model->mesh.size[axis], node = cluster->devices_per_node;
  for (int a = model->mesh.axes - 1; a > axis; a--)
    stride *= model->mesh.size[a];
  if (stride * size <= node && node % (stride * size) == 0) return cluster->intra;
  int near = stride < node && node % stride == 0 ? node / stride : 1; // ranks of a ring in a node
  if (near > size) near = size;
  const bd_link *intra = &cluster->intra, *inter = &cluster->inter;
  double latency = ((near - 1) * intra->latency_seconds + inter->latency_seconds) / near;
  double rate = near * inter->bytes_per_second;
  if (near > 1 && rate > intra->bytes_per_second) rate = intra->bytes_per_second;
  return (bd_link){.latency_seconds = latency, .bytes_per_second = rate};
}

const bd_link *bd_cost_stage_link(const bd_cost_model *model) {
  const bd_cluster *cluster = model->cluster;
  return cluster->nodes == 1 ? &cluster->intra : &cluster->inter;
}

double bd_cost_all_reduce(bd_link link, int ranks, double bytes) {
  if (ranks <= 1) return 0;
  return 2 * (ranks - 1) * (link.latency_seconds + bytes / ranks / link.bytes_per_second);
}

double bd_cost_exchange(bd_link link, int ranks, double bytes) {
  if (ranks <= 1) return 0;
  return (ranks - 1) * (link.latency_seconds + bytes / ranks / link.bytes_per_second);
}

// The cluster's arithmetic rate for an op: library calls on halves run on the units for them,
// everything else in f32.
static double rate_of(const bd_cluster *cluster, const bd_function *function, const bd_op *op) {
  bool library = bd_op_get_info(op->kind)->traits & BD_LIBRARY;
  bool half = op->in_count > 0 && bd_dtype_bytes(function->values[op->in[0]].type.dtype) == 2;
  return library && half ? cluster->flops_bf16 : cluster->flops_f32;
}

static double roofline(const bd_cluster *cluster, double arithmetic, double bytes) {
  double traffic = bytes / cluster->memory_bytes_per_second;
  return arithmetic > traffic ? arithmetic : traffic;
}

double bd_cost_op(const bd_cost_model *model, const bd_function *function, const bd_op *op,
                  const bd_index_map *map, const int8_t split[BD_MAX_AXES]) {
  double flops = bd_op_flops(function, op, map, &model->mesh, split, model->micro_batch);
  double bytes = bd_op_bytes(function, op, map, &model->mesh, split, model->micro_batch);
  double arithmetic = flops / rate_of(model->cluster, function, op);
  return roofline(model->cluster, arithmetic, bytes) + model->cluster->kernel_seconds;
}

static double local_bytes(const bd_cost_model *model, const bd_type *type,
                          const bd_sharding *sharding) {
  bd_type local = bd_local_type(&model->mesh, sharding, type, model->micro_batch);
  return (double)bd_type_elements(&local, 1) * (double)bd_dtype_bytes(local.dtype);
}

static double value_bytes(const bd_cost_model *model, const bd_value *value) {
  return local_bytes(model, &value->type, &value->sharding);
}

// `in` and `out` bytes lie on a rank before and after.
static double collective_seconds(const bd_cost_model *model, bd_op_kind kind, int axis, double in,
                                 double out) {
  int ranks = model->mesh.size[axis];
  double seconds = (in + out) / model->cluster->memory_bytes_per_second;
  if (kind == BD_OP_ALL_REDUCE)
    seconds = bd_cost_all_reduce(bd_cost_link(model, axis), ranks, in);
  else if (kind != BD_OP_SHARD)
    seconds = bd_cost_exchange(bd_cost_link(model, axis), ranks, in > out ? in : out);
  return seconds + model->cluster->kernel_seconds;
}

double bd_cost_reshard(const bd_cost_model *model, const bd_type *type, const bd_sharding *from,
                       const bd_sharding *to) {
  bd_reshard_step steps[BD_MAX_RESHARD_STEPS];
  int count = bd_reshard_steps(&model->mesh, from, to, steps);
  double seconds = 0;
  for (int i = 0; i < count; i++)
    seconds += collective_seconds(model, steps[i].kind, steps[i].axis,
                                  local_bytes(model, type, &steps[i].before),
                                  local_bytes(model, type, &steps[i].after));
  return seconds;
}

double bd_cost_collective(const bd_cost_model *model, const bd_function *function,
                          const bd_op *op) {
  if (op->kind == BD_OP_SEND || op->kind == BD_OP_RECV) {
    const bd_value *moved = &function->values[op->kind == BD_OP_SEND ? op->in[0] : op->out[0]];
    const bd_link *link = bd_cost_stage_link(model);
    return link->latency_seconds + value_bytes(model, moved) / link->bytes_per_second;
  }
  return collective_seconds(model, op->kind, (int)bd_op_int(op, "axis", 0),
                            value_bytes(model, &function->values[op->in[0]]),
                            value_bytes(model, &function->values[op->out[0]]));
}

// A fused run: its arithmetic, and the traffic of what enters and leaves it.
bd_status bd_cost_step(bd_ctx *ctx, const bd_cost_model *model, const bd_function *function,
                       const bd_fusion *fusion, int step, double *out_seconds) {
  double arithmetic = 0, bytes = 0;
  for (int i = 0; i < fusion->step_ops[step]; i++) {
    const bd_op *op = &function->ops[fusion->first_op[step] + i];
    if (bd_op_get_info(op->kind)->level == BD_COLLECTIVE) {
      *out_seconds = bd_cost_collective(model, function, op);
      return BD_OK;
    }
    bd_index_map map;
    bd_type types[BD_MAX_RESULTS];
    BD_TRY(bd_op_infer(ctx, function, op, &map, types));
    arithmetic += bd_op_flops(function, op, &map, &model->mesh, op->split, model->micro_batch) /
                  rate_of(model->cluster, function, op);
    if (fusion->step_ops[step] == 1)
      bytes += bd_op_bytes(function, op, &map, &model->mesh, op->split, model->micro_batch);
    for (int o = 0; fusion->step_ops[step] > 1 && o < op->in_count; o++)
      if (!fusion->inner[op->in[o]]) bytes += value_bytes(model, &function->values[op->in[o]]);
    for (int o = 0; fusion->step_ops[step] > 1 && o < op->out_count; o++)
      if (!fusion->inner[op->out[o]]) bytes += value_bytes(model, &function->values[op->out[o]]);
  }
  *out_seconds = roofline(model->cluster, arithmetic, bytes) + model->cluster->kernel_seconds;
  return BD_OK;
}

bd_status bd_cost_function(bd_ctx *ctx, const bd_cost_model *model, const bd_module *module,
                           const bd_function *function, double *out_seconds) {
  bd_fusion fusion;
  bd_fuse(ctx, module, function, &fusion);
  *out_seconds = 0;
  for (int step = 0; step < fusion.step_count; step++) {
    double seconds;
    BD_TRY(bd_cost_step(ctx, model, function, &fusion, step, &seconds));
    *out_seconds += seconds;
  }
  return BD_OK;
}
