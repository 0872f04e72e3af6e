// The insides of a plan's strategies, read for display: the model is not at hand.
#include "cli/explain.h"
#include "ir/balance.h"
#include "ir/op.h"
#include "ir/parts.h"
#include <string.h>

static bd_status read_cuts(bd_ctx *ctx, const bd_plan *plan, const bd_json *item, bd_told_op *out) {
  const bd_json *cuts;
  if (!bd_json_find(item, "cuts") || !bd_json_find(item, "recomputed"))
    return bd_fail(ctx, BD_INVALID, item->loc,
                   "the op holds no notes; 'braid compile --plan FILE --emit plan' adds them");
  BD_TRY(bd_json_bool(ctx, item, "recomputed", true, &out->recomputed));
  BD_TRY(bd_json_array(ctx, item, "cuts", true, &cuts));
  if (cuts->count != (size_t)plan->mesh.axes)
    return bd_fail(ctx, BD_INVALID, cuts->loc, "'cuts' wants a word or null per mesh axis");
  for (size_t axis = 0; axis < cuts->count; axis++) {
    const bd_json *cut = &cuts->items[axis];
    if (cut->kind != BD_JSON_STRING) continue;
    int found = BD_CUT_NONE + 1;
    while (found < BD_CUT_COUNT && strcmp(bd_cut_name((bd_cut)found), cut->string) != 0)
      found++;
    if (found == BD_CUT_COUNT)
      return bd_fail(ctx, BD_INVALID, cut->loc,
                     "unknown kind of cut; known are samples, tokens "
                     "and features");
    out->cut[axis] = (bd_cut)found;
  }
  return BD_OK;
}

static bd_status read_bf16(bd_ctx *ctx, const bd_json *item, bd_told_op *row) {
  unsigned char set;
  BD_TRY(bd_products_parse(ctx, item, &set));
  row->bf16 = "";
  for (int i = 0; i < BD_PRODUCT_COUNT; i++)
    if (set >> i & 1)
      row->bf16 = bd_intern_f(ctx, "%s%s%s", row->bf16, *row->bf16 ? " " : "",
                              bd_product_name((bd_product_of)i));
  return BD_OK;
}

static bd_status read_ops(bd_ctx *ctx, const bd_plan *plan, const bd_json *strategy,
                          bd_told_strategy *out) {
  const bd_json *ops;
  BD_TRY(bd_json_array(ctx, strategy, "ops", true, &ops));
  out->op_count = (int)ops->count;
  out->ops = BD_NEW_ARRAY(ctx->arena, bd_told_op, ops->count);
  for (int i = 0; i < out->op_count; i++) {
    const bd_json *item = &ops->items[i];
    bd_told_op *row = &out->ops[i];
    BD_TRY(bd_json_string(ctx, item, "op", true, &row->op));
    BD_TRY(bd_json_string(ctx, item, "result", true, &row->result));
    BD_TRY(bd_json_string(ctx, item, "split", true, &row->split));
    if (strlen(row->split) != (size_t)plan->mesh.axes)
      return bd_fail(ctx, BD_INVALID, item->loc, "'split' wants one letter or '-' per mesh axis");
    BD_TRY(read_cuts(ctx, plan, item, row));
    for (int pass = 0; pass < BD_PARTS_PASSES; pass++) {
      int64_t parts = 1;
      BD_TRY(bd_json_int(ctx, item, bd_parts_key(pass), false, 1, BD_MAX_PARTS, &parts));
      row->parts[pass] = (int)parts;
    }
    BD_TRY(read_bf16(ctx, item, row));
    BD_TRY(bd_json_bool(ctx, item, BD_BALANCED_ATTR, false, &row->balanced));
  }
  return BD_OK;
}

static bd_told_op *find_op(const bd_told_strategy *strategy, const char *result) {
  for (int i = 0; i < strategy->op_count; i++)
    if (strcmp(strategy->ops[i].result, result) == 0) return &strategy->ops[i];
  return NULL;
}

// `*out` stays as it is where the key may be missing and is.
static bd_status read_form(bd_ctx *ctx, const bd_plan *plan, const bd_json *item, const char *key,
                           bool required, const char **out) {
  const bd_json *dims = NULL;
  BD_TRY(bd_json_array(ctx, item, key, required, &dims));
  if (!dims) return BD_OK;
  if (dims->count != (size_t)plan->mesh.axes)
    return bd_fail(ctx, BD_INVALID, dims->loc, "'%s' wants a dimension or null per mesh axis", key);
  const char *words = "";
  bool whole = true;
  for (size_t axis = 0; axis < dims->count; axis++) {
    int64_t dim = 0;
    bool cut = dims->items[axis].kind != BD_JSON_NULL;
    if (cut && !bd_json_whole(&dims->items[axis], 0, BD_MAX_RANK - 1, &dim))
      return bd_fail(ctx, BD_INVALID, dims->items[axis].loc, "not a dimension of a value");
    whole = whole && !cut;
    words = bd_intern_f(ctx, "%s%s%s", words, axis ? ", " : "",
                        cut ? bd_intern_f(ctx, "%d", (int)dim) : "null");
  }
  *out = whole ? bd_intern_z(ctx, "whole") : bd_intern_f(ctx, "[%s]", words);
  return BD_OK;
}

static bd_status read_values(bd_ctx *ctx, const bd_plan *plan, const bd_json *strategy,
                             bd_told_strategy *out) {
  const bd_json *values;
  BD_TRY(bd_json_array(ctx, strategy, "values", true, &values));
  out->value_count = (int)values->count;
  out->values = BD_NEW_ARRAY(ctx->arena, bd_told_value, values->count);
  for (int i = 0; i < out->value_count; i++) {
    const bd_json *item = &values->items[i];
    bd_told_value *row = &out->values[i];
    BD_TRY(bd_json_string(ctx, item, "value", true, &row->name));
    BD_TRY(read_form(ctx, plan, item, "dims", true, &row->form));
    BD_TRY(read_form(ctx, plan, item, "gradient", false, &row->gradient));
    if (row->gradient && strcmp(row->gradient, row->form) == 0) row->gradient = NULL;
    BD_TRY(bd_json_bool(ctx, item, "saved", true, &row->saved));
    BD_TRY(bd_json_string(ctx, item, "kept", false, &row->kept));
    bd_told_op *op = find_op(out, row->name);
    row->is_result = op != NULL;
    if (!op) continue;
    op->saved = row->saved;
    op->kept = row->kept;
  }
  return BD_OK;
}

bd_status bd_explain_read(bd_ctx *ctx, const bd_plan *plan, const bd_json *root,
                          bd_told_strategy **out_strategies) {
  const bd_json *list;
  BD_TRY(bd_json_array(ctx, root, "strategies", true, &list));
  bd_told_strategy *all = BD_NEW_ARRAY(ctx->arena, bd_told_strategy, list->count);
  for (size_t i = 0; i < list->count; i++) {
    BD_TRY(bd_json_string(ctx, &list->items[i], "name", true, &all[i].name));
    BD_TRY(bd_json_string(ctx, &list->items[i], "function", true, &all[i].function));
    BD_TRY(read_ops(ctx, plan, &list->items[i], &all[i]));
    BD_TRY(read_values(ctx, plan, &list->items[i], &all[i]));
  }
  for (int i = 0; i < plan->range_count; i++)
    all[plan->ranges[i].strategy].calls += plan->ranges[i].count;
  *out_strategies = all;
  return BD_OK;
}

bool bd_explain_has_ranks(const bd_plan *plan, int axis) {
  bool any = false;
  for (int stage = 0; stage < plan->stages; stage++)
    any = any || bd_plan_mesh(plan, stage)->size[axis] > 1;
  return any;
}

bd_axis_use bd_explain_axis(const bd_plan *plan, const bd_told_strategy *strategies, int axis) {
  bd_axis_use use = {0};
  for (int s = 0; s < plan->strategy_count; s++)
    for (int i = 0; i < strategies[s].op_count; i++) {
      use.ops[strategies[s].ops[i].cut[axis]] += strategies[s].calls;
      use.all += strategies[s].calls;
    }
  return use;
}

const char *bd_parallelism_name(bd_cut cut) {
  static const char *const names[BD_CUT_COUNT] = {"idle", "data", "sequence", "tensor"};
  return names[cut];
}

// By what most of the matrix products and the like are cut.
static bd_cut axis_cut(const bd_plan *plan, const bd_told_strategy *strategies, int axis) {
  int64_t large[BD_CUT_COUNT] = {0}, all[BD_CUT_COUNT] = {0};
  for (int s = 0; s < plan->strategy_count; s++)
    for (int i = 0; i < strategies[s].op_count; i++) {
      const bd_told_op *op = &strategies[s].ops[i];
      bd_op_kind kind;
      bool library = bd_op_find(op->op, &kind) && (bd_op_get_info(kind)->traits & BD_LIBRARY);
      all[op->cut[axis]] += strategies[s].calls;
      if (library) large[op->cut[axis]] += strategies[s].calls;
    }
  bool any = false;
  for (int cut = 0; cut < BD_CUT_COUNT; cut++)
    any = any || large[cut];
  const int64_t *counts = any ? large : all;
  bd_cut most = BD_CUT_NONE;
  for (int cut = BD_CUT_NONE + 1; cut < BD_CUT_COUNT; cut++)
    if (counts[cut] > counts[most]) most = (bd_cut)cut;
  return most;
}

bd_degrees bd_explain_degrees(const bd_plan *plan, const bd_told_strategy *strategies) {
  int64_t degree[BD_CUT_COUNT] = {1, 1, 1, 1};
  for (int axis = 0; axis < plan->mesh.axes; axis++)
    degree[axis_cut(plan, strategies, axis)] *= plan->mesh.size[axis];
  return (bd_degrees){degree[BD_CUT_SAMPLES], degree[BD_CUT_TOKENS], degree[BD_CUT_FEATURES],
                      degree[BD_CUT_NONE]};
}
