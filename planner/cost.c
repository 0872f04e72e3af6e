#include "planner/cost.h"
#include "ir/fuse.h"

static int devices_spanned(const bd_mesh *mesh, int axis) {
  int stride = 1;
  for (int a = mesh->axes - 1; a > axis; a--)
    stride *= mesh->size[a];
  return stride * mesh->size[axis];
}

const bd_link *bd_cost_link(const bd_cost_model *model, int axis) {
  int span = devices_spanned(&model->mesh, axis), node = model->cluster->devices_per_node;
  return span <= node && node % span == 0 ? &model->cluster->intra : &model->cluster->inter;
}

const bd_link *bd_cost_stage_link(const bd_cost_model *model) {
  const bd_cluster *cluster = model->cluster;
  return cluster->nodes == 1 ? &cluster->intra : &cluster->inter;
}

double bd_cost_all_reduce(const bd_link *link, int ranks, double bytes) {
  if (ranks <= 1) return 0;
  return 2 * (ranks - 1) * (link->latency_seconds + bytes / ranks / link->bytes_per_second);
}

double bd_cost_exchange(const bd_link *link, int ranks, double bytes) {
  if (ranks <= 1) return 0;
  return (ranks - 1) * (link->latency_seconds + bytes / ranks / link->bytes_per_second);
}

double bd_cost_rate(const bd_cluster *cluster, const bd_function *function, const bd_op *op) {
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
  double arithmetic = flops / bd_cost_rate(model->cluster, function, op);
  return roofline(model->cluster, arithmetic, bytes) + model->cluster->kernel_seconds;
}

static double value_bytes(const bd_cost_model *model, const bd_value *value) {
  bd_type local = bd_local_type(&model->mesh, &value->sharding, &value->type, model->micro_batch);
  return (double)bd_type_elements(&local, 1) * (double)bd_dtype_bytes(local.dtype);
}

double bd_cost_collective(const bd_cost_model *model, const bd_function *function,
                          const bd_op *op) {
  if (op->kind == BD_OP_SEND || op->kind == BD_OP_RECV) {
    const bd_value *moved = &function->values[op->kind == BD_OP_SEND ? op->in[0] : op->out[0]];
    const bd_link *link = bd_cost_stage_link(model);
    return link->latency_seconds + value_bytes(model, moved) / link->bytes_per_second;
  }
  int axis = (int)bd_op_int(op, "axis", 0), ranks = model->mesh.size[axis];
  const bd_link *link = bd_cost_link(model, axis);
  double in = value_bytes(model, &function->values[op->in[0]]);
  double out = value_bytes(model, &function->values[op->out[0]]);
  double seconds = (in + out) / model->cluster->memory_bytes_per_second;
  if (op->kind == BD_OP_ALL_REDUCE)
    seconds = bd_cost_all_reduce(link, ranks, in);
  else if (op->kind != BD_OP_SHARD)
    seconds = bd_cost_exchange(link, ranks, in > out ? in : out);
  return seconds + model->cluster->kernel_seconds;
}

// A fused run: its arithmetic, and the traffic of what enters and leaves it.
static bd_status step_seconds(bd_ctx *ctx, const bd_cost_model *model, const bd_function *function,
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
                  bd_cost_rate(model->cluster, function, op);
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
    BD_TRY(step_seconds(ctx, model, function, &fusion, step, &seconds));
    *out_seconds += seconds;
  }
  return BD_OK;
}
