#include "tests/unit/ir/support_spmd.h"
#include "ir/pool.h"
#include "tests/unit/samples.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static int64_t elements_of(const bd_type *type) {
  return bd_type_elements(type, 1);
}

static bd_type bound(const bd_module *module, bd_type type) {
  for (int d = 0; d < type.rank; ++d)
    type.dims[d] = bd_extent(type.dims[d], module->micro_batch);
  return type;
}

static bd_tensor copy_tensor(bd_ctx *ctx, const bd_tensor *from) {
  bd_tensor copy = *from;
  int64_t count = elements_of(&from->type);
  copy.data = BD_NEW_ARRAY(ctx->arena, double, count);
  for (int64_t i = 0; i < count; ++i)
    copy.data[i] = from->data[i];
  return copy;
}

// Puts `fill` outside the part of `rank`.
static void mask(const bd_module *module, const bd_sharding *sharding, int rank, double fill,
                 bd_tensor *tensor) {
  int64_t start[BD_MAX_RANK], count[BD_MAX_RANK], total = elements_of(&tensor->type);
  for (int d = 0; d < tensor->type.rank; ++d)
    bd_local_range(&module->mesh, sharding, d, tensor->type.dims[d], rank, &start[d], &count[d]);
  for (int64_t i = 0; i < total; ++i) {
    int64_t rest = i;
    for (int d = tensor->type.rank - 1; d >= 0; --d) {
      int64_t index = rest % tensor->type.dims[d];
      rest /= tensor->type.dims[d];
      if (index < start[d] || index >= start[d] + count[d]) tensor->data[i] = fill;
    }
  }
}

spmd_value spmd_scatter(bd_ctx *ctx, const bd_module *module, const bd_sharding *sharding,
                        const bd_tensor *whole) {
  int ranks = bd_mesh_devices(&module->mesh);
  spmd_value value = {BD_NEW_ARRAY(ctx->arena, bd_tensor, ranks)};
  for (int r = 0; r < ranks; ++r) {
    value.rank[r] = copy_tensor(ctx, whole);
    mask(module, sharding, r, 0, &value.rank[r]);
  }
  return value;
}

static double join(const char *combiner, double a, double b) {
  if (strcmp(combiner, "sum") == 0) return a + b;
  double high = a > b ? a : b, low = a > b ? b : a;
  if (strcmp(combiner, "max") == 0) return high;
  return high + log1p(exp(low - high));
}

// Every rank gets the combination over the ranks that differ from it along `axis` only.
static spmd_value combine(bd_ctx *ctx, const bd_module *module, int axis, const char *combiner,
                          const spmd_value *in) {
  int ranks = bd_mesh_devices(&module->mesh), stride = 1;
  for (int later = axis + 1; later < module->mesh.axes; ++later)
    stride *= module->mesh.size[later];
  spmd_value out = {BD_NEW_ARRAY(ctx->arena, bd_tensor, ranks)};
  for (int r = 0; r < ranks; ++r) {
    int coord = r / stride % module->mesh.size[axis], first = r - coord * stride;
    out.rank[r] = copy_tensor(ctx, &in->rank[first]);
    for (int i = 1; i < module->mesh.size[axis]; ++i)
      for (int64_t e = 0; e < elements_of(&out.rank[r].type); ++e)
        out.rank[r].data[e] =
            join(combiner, out.rank[r].data[e], in->rank[first + i * stride].data[e]);
  }
  return out;
}

double spmd_difference(bd_ctx *ctx, const bd_module *module, const bd_sharding *sharding,
                       const spmd_value *value, const bd_tensor *whole) {
  spmd_value sum = *value;
  for (int axis = 0; axis < module->mesh.axes; ++axis)
    if (sharding->at[axis] == BD_PARTIAL_SUM) sum = combine(ctx, module, axis, "sum", &sum);
  spmd_value wanted = spmd_scatter(ctx, module, sharding, whole);
  double worst = 0, scale = 1e-3;
  int64_t count = elements_of(&whole->type);
  for (int64_t i = 0; i < count; ++i)
    scale = fmax(scale, fabs(whole->data[i]));
  for (int r = 0; r < bd_mesh_devices(&module->mesh); ++r)
    for (int64_t i = 0; i < count; ++i) {
      double difference = fabs(sum.rank[r].data[i] - wanted.rank[r].data[i]) / scale;
      if (!(difference <= worst)) worst = isnan(difference) ? INFINITY : difference;
    }
  return worst;
}

// Every rank gets the part of the rank at the mirrored place along the axis, in its own place. Parts
// are equal.
static spmd_value mirror(bd_ctx *ctx, const bd_module *module, const bd_sharding *sharding, int axis,
                         int dim, const spmd_value *in) {
  int ranks = bd_mesh_devices(&module->mesh), stride = 1, size = module->mesh.size[axis];
  for (int later = axis + 1; later < module->mesh.axes; ++later)
    stride *= module->mesh.size[later];
  spmd_value out = {BD_NEW_ARRAY(ctx->arena, bd_tensor, ranks)};
  for (int r = 0; r < ranks; ++r) {
    int coord = r / stride % size, other = r + (size - 1 - 2 * coord) * stride;
    const bd_type *type = &in->rank[r].type;
    int64_t from, to, count, inner = 1, total = elements_of(type);
    bd_local_range(&module->mesh, sharding, dim, type->dims[dim], other, &from, &count);
    bd_local_range(&module->mesh, sharding, dim, type->dims[dim], r, &to, &count);
    for (int d = dim + 1; d < type->rank; ++d)
      inner *= type->dims[d];
    out.rank[r] = copy_tensor(ctx, &in->rank[r]);
    for (int64_t i = 0; i < total; ++i) {
      int64_t at = i / inner % type->dims[dim];
      bool own = at >= to && at < to + count;
      out.rank[r].data[i] = own ? in->rank[other].data[i + (from - to) * inner] : 0;
    }
  }
  return out;
}

static spmd_value run_collective(bd_ctx *ctx, const bd_module *module, const bd_function *function,
                                 const bd_op *op, const spmd_value *in) {
  const bd_sharding *from = &function->values[op->in[0]].sharding;
  const bd_sharding *to = &function->values[op->out[0]].sharding;
  int axis = (int)bd_op_int(op, "axis", -1);
  for (int other = 0; other < BD_MAX_AXES; ++other)
    assert(other == axis || from->at[other] == to->at[other]);
  if (op->kind == BD_OP_MIRROR) {
    int dim = (int)bd_op_int(op, "dim", -1);
    assert(bd_sharding_equal(from, to) && from->at[axis] == dim);
    return mirror(ctx, module, from, axis, dim, in);
  }
  const char *combiner = bd_op_string(op, "combiner");
  bool cuts = op->kind == BD_OP_SHARD;
  assert(!cuts || from->at[axis] == BD_REPLICATED);
  assert(op->kind != BD_OP_ALL_GATHER || from->at[axis] == bd_op_int(op, "dim", -1));
  assert(op->kind != BD_OP_REDUCE_SCATTER || from->at[axis] == BD_PARTIAL_SUM);
  assert(op->kind != BD_OP_ALL_REDUCE || from->at[axis] <= BD_PARTIAL_SUM);
  assert(op->kind != BD_OP_ALL_TO_ALL ||
         (from->at[axis] == bd_op_int(op, "from", -1) && to->at[axis] == bd_op_int(op, "to", -1)));
  // Parts are disjoint and zero elsewhere, so adding them up puts them together. Combiners other
  // than sums see zeros outside their part along the other axes; those are masked again.
  spmd_value out = cuts ? spmd_scatter(ctx, module, from, &in->rank[0])
                        : combine(ctx, module, axis, combiner ? combiner : "sum", in);
  for (int r = 0; r < bd_mesh_devices(&module->mesh); ++r) {
    if (cuts) out.rank[r] = copy_tensor(ctx, &in->rank[r]);
    mask(module, to, r, 0, &out.rank[r]);
  }
  return out;
}

// What the rules of an op say about content outside a part: a log-sum-exp skips it, and a loss
// skips targets whose logit another rank holds.
static void prepare(const bd_module *module, const bd_function *function, const bd_op *op, int rank,
                    bd_ctx *ctx, bd_tensor *in) {
  if (!op->in_count) return;
  const bd_sharding *sharding = &function->values[op->in[0]].sharding;
  if (op->kind == BD_OP_LSE || op->kind == BD_OP_REDUCE_MAX) {
    in[0] = copy_tensor(ctx, &in[0]);
    mask(module, sharding, rank, -INFINITY, &in[0]);
  }
  if (op->kind != BD_OP_XENT) return;
  int64_t start, count, last = in[0].type.rank - 1;
  bd_local_range(&module->mesh, sharding, (int)last, in[0].type.dims[last], rank, &start, &count);
  in[1] = copy_tensor(ctx, &in[1]);
  for (int64_t i = 0; i < elements_of(&in[1].type); ++i)
    if (in[1].data[i] < (double)start || in[1].data[i] >= (double)(start + count))
      in[1].data[i] = -1;
}

static void check_operands(bd_ctx *ctx, const bd_module *module, const bd_function *function,
                           const bd_op *op) {
  bd_index_map map;
  bd_type types[BD_MAX_RESULTS];
  bd_status status = bd_op_infer(ctx, function, op, &map, types);
  assert(status == BD_OK);
  (void)status;
  const bd_sharding *made = &function->values[op->out[0]].sharding;
  static const bd_op_kind linear[] = {BD_OP_ADD, BD_OP_SCALE,   BD_OP_NEG,     BD_OP_SLICE,
                                      BD_OP_PAD, BD_OP_RESHAPE, BD_OP_PERMUTE, BD_OP_REDUCE_SUM};
  bool is_linear = false;
  for (size_t i = 0; i < sizeof linear / sizeof linear[0]; ++i)
    is_linear = is_linear || op->kind == linear[i];
  for (int i = 0; i < op->in_count; ++i) {
    bd_sharding need = bd_split_operand(&map, &module->mesh, op->split, i);
    const bd_sharding *have = &function->values[op->in[i]].sharding;
    for (int axis = 0; axis < BD_MAX_AXES; ++axis) {
      bool summands = is_linear && have->at[axis] == BD_PARTIAL_SUM &&
                      made->at[axis] == BD_PARTIAL_SUM && op->split[axis] < 0;
      assert(summands || have->at[axis] == need.at[axis]);
      (void)summands;
    }
  }
}

// Whether an operand or result of an op has samples, of which a rank holds some.
static bool has_samples(const bd_value *value) {
  return value->type.rank > 0 && value->type.dims[0] == BD_DIM_BATCH;
}

// On the samples that the rank holds alone, counted from its first on.
static void evaluate_pool(bd_ctx *ctx, const bd_module *module, const bd_function *function,
                          const bd_op *op, int rank, const bd_random_key *key, const bd_tensor *in,
                          bd_tensor *out) {
  bd_tensor own_in[BD_MAX_OPERANDS], own_out[BD_MAX_RESULTS];
  int64_t first = 0, count = 0;
  for (int k = 0; k < op->in_count; ++k) {
    const bd_value *value = &function->values[op->in[k]];
    own_in[k] = in[k];
    if (!has_samples(value)) continue;
    bd_local_range(&module->mesh, &value->sharding, 0, module->micro_batch, rank, &first, &count);
    own_in[k] = samples_take(ctx, &in[k], first, count);
  }
  for (int k = 0; k < op->out_count; ++k)
    own_out[k] = has_samples(&function->values[op->out[k]])
                     ? samples_take(ctx, &out[k], first, count)
                     : out[k];
  bd_op_get_eval(op->kind)(op, own_in, own_out, key, ctx->arena);
  for (int k = 0; k < op->out_count; ++k)
    if (has_samples(&function->values[op->out[k]])) samples_put(&out[k], first, &own_out[k]);
}

static void run_op(bd_ctx *ctx, const bd_module *module, const bd_function *function,
                   const bd_op *op, const bd_random_key *key, spmd_value *values) {
  int ranks = bd_mesh_devices(&module->mesh);
  check_operands(ctx, module, function, op);
  for (int k = 0; k < op->out_count; ++k)
    values[op->out[k]].rank = BD_NEW_ARRAY(ctx->arena, bd_tensor, ranks);
  for (int r = 0; r < ranks; ++r) {
    bd_tensor in[BD_MAX_OPERANDS], out[BD_MAX_RESULTS];
    for (int k = 0; k < op->in_count; ++k)
      in[k] = values[op->in[k]].rank[r];
    prepare(module, function, op, r, ctx, in);
    for (int k = 0; k < op->out_count; ++k) {
      out[k].type = bound(module, function->values[op->out[k]].type);
      out[k].data = BD_NEW_ARRAY(ctx->arena, double, elements_of(&out[k].type));
    }
    if (bd_op_pools(op))
      evaluate_pool(ctx, module, function, op, r, key, in, out);
    else
      bd_op_get_eval(op->kind)(op, in, out, key, ctx->arena);
    for (int k = 0; k < op->out_count; ++k) {
      mask(module, &function->values[op->out[k]].sharding, r, 0, &out[k]);
      values[op->out[k]].rank[r] = out[k];
    }
  }
}

void spmd_run_one(bd_ctx *ctx, const bd_module *module, const bd_function *function,
                  const bd_op *op, const bd_random_key *key, spmd_value *values) {
  if (bd_op_get_info(op->kind)->level == BD_COLLECTIVE)
    values[op->out[0]] = run_collective(ctx, module, function, op, &values[op->in[0]]);
  else
    run_op(ctx, module, function, op, key, values);
}

spmd_value *spmd_run(bd_ctx *ctx, const bd_module *module, const bd_function *function,
                     const spmd_value *in, const bd_random_key *key) {
  spmd_value *values = BD_NEW_ARRAY(ctx->arena, spmd_value, function->value_count);
  for (int i = 0; i < function->param_count; ++i)
    values[function->params[i]] = in[i];
  for (int i = 0; i < function->op_count; ++i)
    spmd_run_one(ctx, module, function, &function->ops[i], key, values);
  return values;
}
