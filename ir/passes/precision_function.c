// One function of the pass `precision`: each op computes on narrow operands where it has any, casts
// stand where an op needs another width, and what must stay wide is wide from where it is summed.
// What is exact in either width is made in the one that an op takes it in.
#include "ir/free_names.h"
#include "ir/passes/precision.h"

#include <string.h>

static bool is_float(const bd_function *function, bd_id value) {
  return bd_dtype_is_float(function->values[value].type.dtype);
}

// Whether operand i is neither an index nor a statistic.
static bool is_element(const bd_function *function, const bd_op *op, int i) {
  const bd_dtype_rule *rule = bd_op_dtypes(op->kind);
  return is_float(function, op->in[i]) && !((rule->index_in | rule->statistic_in) >> i & 1);
}

static bool is_statistic_result(const bd_op *op, int i) {
  return bd_op_dtypes(op->kind)->statistic_out >> i & 1;
}

void bd_precision_propagate(const bd_function *function, const bool *narrow_param,
                            bool *out_narrow) {
  for (int i = 0; i < function->param_count; i++)
    out_narrow[function->params[i]] = narrow_param[i];
  for (int i = 0; i < function->op_count; i++) {
    const bd_op *op = &function->ops[i];
    bool any = false;
    for (int k = 0; k < op->in_count; k++)
      any |= is_element(function, op, k) && out_narrow[op->in[k]];
    for (int k = 0; k < op->out_count; k++)
      out_narrow[op->out[k]] = any && is_float(function, op->out[k]) && !is_statistic_result(op, k);
  }
}

typedef struct rewriter {
  bd_ctx *ctx;
  const bd_function *from;
  const bd_narrowed *forward; // of a backward function
  bd_function *to;
  bd_id *moved;        // per value of `from`; of an exact one BD_NO_ID until an op takes it
  bd_id *other;        // per value of `from`: the moved one in the other width, or BD_NO_ID
  uint8_t *exact;      // per value of `from`: of bd_precision_exactness
  bool *wide;          // per value of `from`: wanted wide, not only as a cast of what is narrow
  bd_free_names names; // unlike those of both functions
  bd_dtype narrow;
} rewriter;

// An op that sums narrow operands into a wide result by itself.
static bool sums_wide(const bd_op *op) {
  return bd_op_dtypes(op->kind)->widens;
}

// From the results backwards: a value is wanted wide when it is a wide result, or when all its
// users are ops that make something wide and take wide operands for it.
static void find_wide(rewriter *r, const bool *narrow_result) {
  const bd_function *from = r->from;
  int *uses = BD_NEW_ARRAY(r->ctx->arena, int, from->value_count);
  int *wide_uses = BD_NEW_ARRAY(r->ctx->arena, int, from->value_count);
  for (int i = 0; i < from->result_count; i++) {
    uses[from->results[i]]++;
    if (!narrow_result[i]) wide_uses[from->results[i]]++;
  }
  for (int i = from->op_count - 1; i >= 0; i--) {
    const bd_op *op = &from->ops[i];
    bool wide = false;
    for (int k = 0; k < op->out_count; k++) {
      bd_id v = op->out[k];
      r->wide[v] = uses[v] > 0 && uses[v] == wide_uses[v];
      wide |= r->wide[v] && !is_statistic_result(op, k);
    }
    for (int k = 0; k < op->in_count; k++) {
      uses[op->in[k]]++;
      if (wide && !sums_wide(op) && is_element(from, op, k)) wide_uses[op->in[k]]++;
    }
  }
}

static const char *free_name(rewriter *r, bd_id value, bd_dtype dtype) {
  const char *wanted =
      bd_intern_f(r->ctx, "%s.%s", r->from->values[value].name, bd_dtype_name(dtype));
  return bd_free_names_take(&r->names, wanted);
}

static bd_dtype dtype_of(const rewriter *r, bd_id id) {
  return r->to->values[id].type.dtype;
}

static bool is_narrow(const rewriter *r, bd_id id) {
  return dtype_of(r, id) == r->narrow;
}

// Appends `cast` of `id` under a name of its own or, when given, `name`.
static bd_id add_cast(rewriter *r, bd_id id, bd_dtype dtype, const char *name, bd_loc loc) {
  bd_type type = r->to->values[id].type;
  type.dtype = dtype;
  bd_id out = bd_function_add_value(r->ctx, r->to, name, type);
  bd_op *op = bd_function_add_op(r->ctx, r->to, BD_OP_CAST, 1, &id, 1, &out, loc);
  bd_op_set_attr(r->ctx, op, bd_attr_string(r->ctx, "dtype", bd_dtype_name(dtype)));
  if (r->to->role == BD_ROLE_BACKWARD) op->group = -1;
  return out;
}

static int moved_group(const rewriter *r, const bd_op *op) {
  return op->group < 0 ? -1 : r->forward->op_moved[op->group];
}

static bd_id as(rewriter *r, bd_id value, bd_dtype dtype, bd_loc loc);

// Appends the op that makes an exact value, so that it makes `dtype`. Such ops are few in a row.
static bd_id add_exact(rewriter *r, bd_id value, bd_dtype dtype, const char *name) {
  const bd_op *op = &r->from->ops[r->from->values[value].producer];
  bd_id in[BD_MAX_OPERANDS];
  for (int k = 0; k < op->in_count; k++)
    in[k] = is_float(r->from, op->in[k]) ? as(r, op->in[k], dtype, op->loc) : r->moved[op->in[k]];
  bd_type type = r->from->values[value].type;
  type.dtype = dtype;
  bd_id out = bd_function_add_value(r->ctx, r->to, name, type);
  bd_op *made = bd_function_add_op(r->ctx, r->to, op->kind, op->in_count, in, 1, &out, op->loc);
  for (int i = 0; i < op->attr_count; i++)
    bd_op_set_attr(r->ctx, made, op->attrs[i]);
  if (bd_op_dtypes(op->kind)->names)
    bd_op_set_attr(r->ctx, made, bd_attr_string(r->ctx, "dtype", bd_dtype_name(dtype)));
  if (r->forward) made->group = moved_group(r, op);
  return out;
}

// The moved value of `value`, in `dtype`.
static bd_id as(rewriter *r, bd_id value, bd_dtype dtype, bd_loc loc) {
  bd_id *moved = &r->moved[value], *other = &r->other[value];
  if (*moved == BD_NO_ID) *moved = add_exact(r, value, dtype, r->from->values[value].name);
  if (dtype_of(r, *moved) == dtype) return *moved;
  if (*other == BD_NO_ID) {
    const char *name = free_name(r, value, dtype);
    *other =
        r->exact[value] ? add_exact(r, value, dtype, name) : add_cast(r, *moved, dtype, name, loc);
  }
  return *other;
}

typedef struct operand_widths {
  bool any_wide, any_narrow; // of the elements, as they were moved
} operand_widths;

// Exact ones follow the others; without others they stay wide.
static operand_widths find_widths(const rewriter *r, const bd_op *op) {
  operand_widths widths = {false, false};
  bool any_exact = false;
  for (int k = 0; k < op->in_count; k++) {
    if (!is_element(r->from, op, k)) continue;
    if (r->exact[op->in[k]]) {
      any_exact = true;
      continue;
    }
    bool narrow = is_narrow(r, r->moved[op->in[k]]);
    widths.any_narrow |= narrow;
    widths.any_wide |= !narrow;
  }
  widths.any_wide |= any_exact && !widths.any_narrow;
  return widths;
}

// Appends the op on operands of the chosen width, and its results under temporary or final names.
static bd_status add_op(rewriter *r, const bd_op *op, bool compute_wide, bool sum_wide,
                        const char *const *names, int *out_index) {
  bd_id in[BD_MAX_OPERANDS];
  for (int k = 0; k < op->in_count; k++) {
    bool element = is_element(r->from, op, k);
    in[k] = !is_float(r->from, op->in[k])
                ? r->moved[op->in[k]]
                : as(r, op->in[k], element && !compute_wide ? r->narrow : BD_F32, op->loc);
  }
  bd_op *made =
      bd_function_add_op(r->ctx, r->to, op->kind, op->in_count, in, op->out_count, NULL, op->loc);
  int index = r->to->op_count - 1;
  for (int i = 0; i < op->attr_count; i++)
    bd_op_set_attr(r->ctx, made, op->attrs[i]);
  if (sum_wide)
    bd_op_set_attr(r->ctx, made, bd_attr_string(r->ctx, "dtype", bd_dtype_name(BD_F32)));
  bd_index_map map;
  bd_type types[BD_MAX_RESULTS];
  BD_TRY(bd_op_infer(r->ctx, r->to, made, &map, types));
  for (int k = 0; k < op->out_count; k++) {
    bd_id out = bd_function_add_value(r->ctx, r->to, names[k], types[k]);
    made->out[k] = out;
    r->to->values[out].producer = index;
    r->to->values[out].result = k;
  }
  *out_index = index;
  return BD_OK;
}

// Whether the model says that a sum is wide.
static bool is_said_wide(const bd_op *op) {
  return sums_wide(op) && bd_op_string(op, "dtype") && op->kind == BD_OP_CONTRACT;
}

// Wide arithmetic gives a narrow result where an operand is narrow and nobody wants more.
static bd_status move_op(rewriter *r, const bd_op *op, int *out_index) {
  operand_widths widths = find_widths(r, op);
  bool wanted = false;
  for (int k = 0; k < op->out_count; k++)
    wanted |= r->wide[op->out[k]] && !is_statistic_result(op, k);
  bool sum_wide = (wanted || is_said_wide(op)) && sums_wide(op) && !widths.any_wide;
  bool compute_wide = widths.any_wide || (wanted && !sum_wide);
  const char *names[BD_MAX_RESULTS];
  bool narrow[BD_MAX_RESULTS];
  for (int k = 0; k < op->out_count; k++) {
    bd_id v = op->out[k];
    narrow[k] = compute_wide && widths.any_narrow && !r->wide[v] && is_float(r->from, v) &&
                !is_statistic_result(op, k);
    names[k] = narrow[k] ? free_name(r, v, BD_F32) : r->from->values[v].name;
  }
  BD_TRY(add_op(r, op, compute_wide, sum_wide, names, out_index));
  for (int k = 0; k < op->out_count; k++) {
    bd_id v = op->out[k], made = r->to->ops[*out_index].out[k];
    r->moved[v] = made;
    if (!narrow[k]) continue;
    r->moved[v] = add_cast(r, made, r->narrow, r->from->values[v].name, op->loc);
    r->other[v] = made;
  }
  return BD_OK;
}

static void move_params(rewriter *r, const bool *narrow_param) {
  for (int i = 0; i < r->from->param_count; i++) {
    const bd_value *value = &r->from->values[r->from->params[i]];
    bd_type type = value->type;
    if (narrow_param[i]) type.dtype = r->narrow;
    r->moved[r->from->params[i]] = bd_function_add_param(r->ctx, r->to, value->name, type);
    r->to->is_weight[i] = r->from->is_weight[i];
  }
}

static void move_results(rewriter *r, const bool *narrow_result) {
  for (int i = 0; i < r->from->result_count; i++) {
    bd_id v = r->from->results[i];
    bd_dtype dtype = narrow_result[i] ? r->narrow : r->from->values[v].type.dtype;
    bd_function_add_result(r->ctx, r->to, as(r, v, dtype, r->from->loc));
    if (r->from->gradient_of) r->to->gradient_of[i] = r->from->gradient_of[i];
  }
}

static bd_status move_ops(rewriter *r, int *op_moved) {
  for (int i = 0; i < r->from->op_count; i++) {
    const bd_op *op = &r->from->ops[i];
    int exact = bd_precision_exactness(r->from, op, r->narrow, r->exact);
    if (exact) {
      r->exact[op->out[0]] = (uint8_t)exact;
      r->moved[op->out[0]] = BD_NO_ID;
      op_moved[i] = -1;
      continue;
    }
    BD_TRY(move_op(r, op, &op_moved[i]));
    if (r->forward) r->to->ops[op_moved[i]].group = moved_group(r, op);
  }
  return BD_OK;
}

static bd_id saved(rewriter *r, bd_id value) {
  return r->moved[value] == BD_NO_ID ? as(r, value, BD_F32, r->from->loc) : r->moved[value];
}

bd_status bd_precision_rewrite(bd_ctx *ctx, bd_narrowed *narrowed, const bd_narrowed *forward) {
  const bd_function *from = narrowed->from;
  bd_arena *arena = ctx->arena;
  rewriter r = {.ctx = ctx,
                .from = from,
                .forward = forward,
                .to = bd_function_create(ctx, from->name),
                .moved = BD_NEW_ARRAY(arena, bd_id, from->value_count),
                .other = BD_NEW_ARRAY(arena, bd_id, from->value_count),
                .exact = BD_NEW_ARRAY(arena, uint8_t, from->value_count),
                .wide = BD_NEW_ARRAY(arena, bool, from->value_count),
                .names = bd_free_names_of(ctx, from),
                .narrow = narrowed->dtype};
  for (bd_id v = 0; v < from->value_count; v++)
    r.other[v] = BD_NO_ID;
  r.to->role = from->role;
  r.to->peer = from->peer;
  r.to->loc = from->loc;
  r.to->restore_count = from->restore_count;
  narrowed->to = r.to;
  narrowed->moved = r.moved;
  narrowed->op_moved = BD_NEW_ARRAY(arena, int, from->op_count);
  find_wide(&r, narrowed->narrow_result);
  move_params(&r, narrowed->narrow_param);
  BD_TRY(move_ops(&r, narrowed->op_moved));
  move_results(&r, narrowed->narrow_result);
  for (int i = 0; i < from->save_count; i++)
    bd_function_add_save(ctx, r.to, saved(&r, from->saves[i]));
  return BD_OK;
}
