#include "cli/explain.h"
#include <string.h>

typedef struct value_row {
  const char *name;
  const bd_json *dims;
  bool saved;
} value_row;

typedef struct op_row {
  const char *op, *result, *split;
  const value_row *value; // of the result, or NULL
} op_row;

typedef struct strategy_table {
  const char *name, *function;
  int op_count, value_count;
  op_row *ops;
  value_row *values;
} strategy_table;

static bd_status read_values(bd_ctx *ctx, const bd_json *strategy, strategy_table *out) {
  const bd_json *values;
  BD_TRY(bd_json_array(ctx, strategy, "values", true, &values));
  out->value_count = (int)values->count;
  out->values = BD_NEW_ARRAY(ctx->arena, value_row, values->count);
  for (int i = 0; i < out->value_count; i++) {
    value_row *row = &out->values[i];
    BD_TRY(bd_json_string(ctx, &values->items[i], "value", true, &row->name));
    BD_TRY(bd_json_array(ctx, &values->items[i], "dims", true, &row->dims));
    BD_TRY(bd_json_bool(ctx, &values->items[i], "saved", true, &row->saved));
  }
  return BD_OK;
}

static bd_status read_table(bd_ctx *ctx, const bd_plan *plan, const bd_json *strategy,
                            strategy_table *out) {
  const bd_json *ops;
  BD_TRY(bd_json_string(ctx, strategy, "name", true, &out->name));
  BD_TRY(bd_json_string(ctx, strategy, "function", true, &out->function));
  BD_TRY(read_values(ctx, strategy, out));
  BD_TRY(bd_json_array(ctx, strategy, "ops", true, &ops));
  out->op_count = (int)ops->count;
  out->ops = BD_NEW_ARRAY(ctx->arena, op_row, ops->count);
  for (int i = 0; i < out->op_count; i++) {
    op_row *row = &out->ops[i];
    const bd_json *item = &ops->items[i];
    BD_TRY(bd_json_string(ctx, item, "op", true, &row->op));
    BD_TRY(bd_json_string(ctx, item, "result", true, &row->result));
    BD_TRY(bd_json_string(ctx, item, "split", true, &row->split));
    if (strlen(row->split) != (size_t)plan->mesh.axes)
      return bd_fail(ctx, BD_INVALID, item->loc, "'split' wants one letter or '-' per mesh axis");
    for (int v = 0; v < out->value_count; v++)
      if (strcmp(out->values[v].name, row->result) == 0) row->value = &out->values[v];
  }
  return BD_OK;
}

// The dimension of a value that the axis splits, or -1.
static int dim_at(const value_row *value, int axis) {
  if (!value || axis >= (int)value->dims->count) return -1;
  const bd_json *dim = &value->dims->items[axis];
  return dim->kind == BD_JSON_INT ? (int)dim->integer : -1;
}

static bool is_parameter(const strategy_table *table, const value_row *value) {
  for (int i = 0; i < table->op_count; i++)
    if (table->ops[i].value == value) return false;
  return true;
}

static void add_plural(bd_text *text, int count, const char *one, const char *many) {
  bd_text_addf(text, "%d %s", count, count == 1 ? one : many);
}

// Which ops the axis cuts: by the dimension of their results, or in a loop that is joined again.
static void add_axis(const bd_plan *plan, const strategy_table *table, int axis, bd_text *text) {
  int by_dim[BD_MAX_RANK] = {0}, joined = 0, parameters = 0;
  for (int i = 0; i < table->op_count; i++) {
    if (table->ops[i].split[axis] == '-') continue;
    int dim = dim_at(table->ops[i].value, axis);
    if (dim >= 0 && dim < BD_MAX_RANK)
      by_dim[dim]++;
    else
      joined++;
  }
  for (int v = 0; v < table->value_count; v++)
    parameters += dim_at(&table->values[v], axis) >= 0 && is_parameter(table, &table->values[v]);
  bd_text_addf(text, "    axis %d, %d ranks, splits", axis, plan->mesh.size[axis]);
  const char *comma = " ";
  for (int dim = 0; dim < BD_MAX_RANK; dim++) {
    if (!by_dim[dim]) continue;
    bd_text_addf(text, "%sdimension %d%s of ", comma, dim, dim ? "" : " (mostly the samples)");
    add_plural(text, by_dim[dim], "result", "results");
    comma = ", ";
  }
  if (joined) {
    bd_text_add(text, comma);
    add_plural(text, joined, "op whose result is joined", "ops whose results are joined");
    comma = ", ";
  }
  if (parameters) {
    bd_text_add(text, comma);
    add_plural(text, parameters, "parameter", "parameters");
    comma = ", ";
  }
  bd_text_add(text, *comma == ' ' ? " nothing\n" : "\n");
}

static void add_name(bd_text *text, const char *name, int width) {
  size_t start = text->length;
  bd_text_add_printable(text, name, strlen(name));
  while (text->length < start + (size_t)width) bd_text_add(text, " ");
}

static void add_ops(const bd_plan *plan, const strategy_table *table, bd_text *text) {
  bd_text_add(text, "    op             result             loop split per axis, result's dimension\n");
  for (int i = 0; i < table->op_count; i++) {
    const op_row *op = &table->ops[i];
    bd_text_add(text, "    ");
    add_name(text, op->op, 15);
    add_name(text, op->result, 19);
    for (int axis = 0; axis < plan->mesh.axes; axis++) {
      int dim = dim_at(op->value, axis);
      bd_text_addf(text, "%c", op->split[axis] >= ' ' && op->split[axis] < 127 ? op->split[axis] : '?');
      if (dim >= 0)
        bd_text_addf(text, ":%d ", dim);
      else
        bd_text_add(text, "   ");
    }
    bd_text_add(text, op->value && op->value->saved ? " saved\n" : "\n");
  }
}

bd_status bd_explain_strategies(bd_ctx *ctx, const bd_plan *plan, const bd_json *root,
                                bd_text *text) {
  const bd_json *list;
  BD_TRY(bd_json_array(ctx, root, "strategies", true, &list));
  bd_text_add(text, "\nstrategies (a result that is not saved is recomputed where backward needs it)\n");
  for (size_t i = 0; i < list->count; i++) {
    strategy_table table = {0};
    BD_TRY(read_table(ctx, plan, &list->items[i], &table));
    bd_text_add(text, "  ");
    add_name(text, table.name, 0);
    int saved = 0;
    for (int v = 0; v < table.value_count; v++) saved += table.values[v].saved;
    bd_text_add(text, ": function ");
    add_name(text, table.function, 0);
    bd_text_addf(text, ", %d of %d values saved\n", saved, table.value_count);
    for (int axis = 0; axis < plan->mesh.axes; axis++) add_axis(plan, &table, axis, text);
    add_ops(plan, &table, text);
  }
  return BD_OK;
}
