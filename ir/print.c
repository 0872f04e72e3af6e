#include "ir/print.h"

#include "ir/name_map.h"
#include <math.h>
#include <string.h>

// What printing one function needs to know.
typedef struct printer {
  bd_text *text;
  const bd_module *module;
  const bd_function *function;
} printer;

static void add_symbol(bd_text *text, const char *name) {
  bd_text_add(text, "@");
  if (bd_is_identifier(name))
    bd_text_add(text, name);
  else
    bd_text_add_json_string(text, name);
}

static void add_type(bd_text *text, const bd_type *type) {
  bd_text_addf(text, "%s[", bd_dtype_name(type->dtype));
  for (int i = 0; i < type->rank; ++i) {
    if (i > 0) bd_text_add(text, ",");
    if (type->dims[i] == BD_DIM_BATCH)
      bd_text_add(text, "B");
    else
      bd_text_addf(text, "%lld", (long long)type->dims[i]);
  }
  bd_text_add(text, "]");
}

static void add_ints(bd_text *text, const int64_t *values, int count) {
  bd_text_add(text, "[");
  for (int i = 0; i < count; ++i)
    bd_text_addf(text, "%s%lld", i ? "," : "", (long long)values[i]);
  bd_text_add(text, "]");
}

// A real always shows a point, an exponent or a word, so that it never reads as an integer.
static void add_real(bd_text *text, double value) {
  size_t start = text->length;
  bd_text_add_double(text, value);
  if (isfinite(value) && !strpbrk(text->data + start, ".e")) bd_text_add(text, ".0");
}

static void add_reals(bd_text *text, const double *values, int count) {
  bd_text_add(text, "[");
  for (int i = 0; i < count; ++i) {
    if (i > 0) bd_text_add(text, ",");
    add_real(text, values[i]);
  }
  bd_text_add(text, "]");
}

static void add_sharding(const printer *p, const bd_sharding *sharding) {
  static const char *const partials[] = {"-", "sum", "max", "lse"};
  bd_text_add(p->text, " sharded [");
  for (int axis = 0; axis < p->module->mesh.axes; ++axis) {
    int at = sharding->at[axis];
    if (axis > 0) bd_text_add(p->text, ",");
    if (at >= 0)
      bd_text_addf(p->text, "%d", at);
    else
      bd_text_add(p->text, partials[-1 - at]);
  }
  bd_text_add(p->text, "]");
}

static void add_value_type(const printer *p, bd_id id) {
  const bd_value *value = &p->function->values[id];
  add_type(p->text, &value->type);
  if (value->has_sharding) add_sharding(p, &value->sharding);
  if (value->segment != BD_SEGMENT_NONE)
    bd_text_addf(p->text, " at %s+%lld", bd_segment_name(value->segment),
                 (long long)value->offset_bytes);
}

static void add_value_name(const printer *p, bd_id id) {
  bd_text_addf(p->text, "%%%s", p->function->values[id].name);
}

static void add_value_names(const printer *p, const bd_id *ids, int count) {
  for (int i = 0; i < count; ++i) {
    if (i > 0) bd_text_add(p->text, ", ");
    add_value_name(p, ids[i]);
  }
}

static void add_attrs(bd_text *text, const bd_op *op) {
  if (op->attr_count == 0) return;
  bd_text_add(text, " {");
  for (int i = 0; i < op->attr_count; ++i) {
    const bd_attr *attr = &op->attrs[i];
    bd_text_addf(text, "%s%s=", i ? ", " : "", attr->name);
    switch (attr->kind) {
    case BD_ATTR_INT:
      bd_text_addf(text, "%lld", (long long)attr->integer);
      break;
    case BD_ATTR_REAL:
      add_real(text, attr->real);
      break;
    case BD_ATTR_STRING:
      bd_text_add_json_string(text, attr->string);
      break;
    case BD_ATTR_INTS:
      add_ints(text, attr->ints, attr->count);
      break;
    case BD_ATTR_REALS:
      add_reals(text, attr->reals, attr->count);
      break;
    }
  }
  bd_text_add(text, "}");
}

static void add_split(const printer *p, const bd_op *op) {
  bd_text_add(p->text, " split [");
  for (int axis = 0; axis < p->module->mesh.axes; ++axis) {
    if (axis > 0) bd_text_add(p->text, ",");
    if (op->split[axis] < 0)
      bd_text_add(p->text, "-");
    else
      bd_text_addf(p->text, "%d", op->split[axis]);
  }
  bd_text_add(p->text, "]");
}

static void add_op(const printer *p, int index) {
  const bd_op *op = &p->function->ops[index];
  bd_text_add(p->text, "    ");
  add_value_names(p, op->out, op->out_count);
  if (op->out_count > 0) bd_text_add(p->text, " = ");
  bd_text_add(p->text, bd_op_get_info(op->kind)->name);
  if (op->callee) {
    bd_text_add(p->text, " ");
    add_symbol(p->text, op->callee);
  }
  bd_text_add(p->text, "(");
  add_value_names(p, op->in, op->in_count);
  bd_text_add(p->text, ")");
  add_attrs(p->text, op);
  if (op->group != index) bd_text_addf(p->text, " group %d", op->group);
  if (op->has_split) add_split(p, op);
  if (op->recomputed) bd_text_add(p->text, " recomputed");
  if (op->stage != -1) bd_text_addf(p->text, " stage %d", op->stage);
  for (int i = 0; i < op->out_count; ++i) {
    bd_text_add(p->text, i ? ", " : " : ");
    add_value_type(p, op->out[i]);
  }
  bd_text_add(p->text, "\n");
}

static void add_params(const printer *p) {
  const bd_function *function = p->function;
  bool is_main = function == p->module->main;
  bd_text_add(p->text, "(");
  for (int i = 0; i < function->param_count; ++i) {
    if (i > 0) bd_text_add(p->text, ", ");
    add_value_name(p, function->params[i]);
    bd_text_add(p->text, ": ");
    add_value_type(p, function->params[i]);
    if (is_main && i < p->module->input_count)
      bd_text_addf(p->text, " %s", bd_input_kind_name(p->module->inputs[i]));
    else if (function->is_weight && function->is_weight[i])
      bd_text_add(p->text, " weight");
  }
  bd_text_add(p->text, ")");
}

static void add_return(const printer *p) {
  const bd_function *function = p->function;
  const bd_module *module = p->module;
  bd_text_add(p->text, "    return");
  for (int i = 0; i < function->result_count; ++i) {
    bd_text_add(p->text, i ? ", " : " ");
    add_value_name(p, function->results[i]);
    if (function == module->main && i > 0 && module->gradient_weight) {
      bd_text_add(p->text, " of ");
      add_symbol(p->text, module->weights[module->gradient_weight[i - 1]].name);
    } else if (function->role == BD_ROLE_BACKWARD && function->gradient_of) {
      bd_text_addf(p->text, " of %d", function->gradient_of[i]);
    }
  }
  bd_text_add(p->text, "\n");
}

static void add_function(bd_text *text, const bd_module *module, const bd_function *function) {
  const printer p = {text, module, function};
  if (function == module->main) {
    bd_text_add(text, "\n  main");
  } else {
    bd_text_add(text, "\n  func ");
    add_symbol(text, function->name);
  }
  add_params(&p);
  if (function->role == BD_ROLE_BACKWARD) bd_text_add(text, " backward");
  if (function->peer) {
    bd_text_add(text, " peer ");
    add_symbol(text, function->peer);
  }
  if (function->restore_count > 0) bd_text_addf(text, " restores %d", function->restore_count);
  bd_text_add(text, " {\n");
  for (int i = 0; i < function->op_count; ++i)
    add_op(&p, i);
  if (function->save_count > 0) {
    bd_text_add(text, "    save ");
    add_value_names(&p, function->saves, function->save_count);
    bd_text_add(text, "\n");
  }
  add_return(&p);
  bd_text_add(text, "  }\n");
}

static void add_weight(bd_text *text, const bd_weight *weight) {
  static const char *const inits[] = {"zeros", "ones", "normal", "uniform"};
  const bd_storage *storage = &weight->storage;
  bd_text_add(text, "  weight ");
  add_symbol(text, weight->name);
  bd_text_add(text, " : ");
  add_type(text, &weight->type);
  if (weight->wide != weight->type.dtype)
    bd_text_addf(text, " %s %s", bd_weight_has_master(weight) ? "master" : "rounded",
                 bd_dtype_name(weight->wide));
  if (weight->gradients != BD_GRADIENTS_F32)
    bd_text_addf(text, " gradients %s", bd_gradients_name(weight->gradients));
  bd_text_add(text, " stored ");
  bd_text_add_json_string(text, storage->name);
  if (storage->stack > 0) {
    bd_text_addf(text, " stack %lld ", (long long)storage->stack);
    bd_text_add_json_string(text, storage->stack_rest);
    if (storage->stack_first > 0 || storage->stack_gap > 0)
      bd_text_addf(text, " from %lld by %lld", (long long)storage->stack_first,
                   (long long)storage->stack_gap + 1);
  }
  bd_text_add(text, " ");
  add_ints(text, storage->dims, storage->rank);
  if (storage->slice_dim >= 0)
    bd_text_addf(text, " slice %d %lld %lld", storage->slice_dim, (long long)storage->slice_start,
                 (long long)storage->slice_size);
  if (storage->slice_every > 0) bd_text_addf(text, " every %lld", (long long)storage->slice_every);
  if (storage->transpose) bd_text_add(text, " transpose");
  bd_text_addf(text, " init %s", inits[weight->init]);
  if (weight->init == BD_INIT_NORMAL || weight->init == BD_INIT_UNIFORM) {
    bd_text_add(text, " ");
    add_real(text, weight->init_scale);
  }
  if (weight->decay) bd_text_add(text, " decay");
  if (weight->average > 0) {
    bd_text_add(text, " average ");
    add_real(text, weight->average);
  }
  bd_text_add(text, "\n");
}

void bd_module_print(const bd_module *module, bd_text *text) {
  bd_text_addf(text, "braid %s ", bd_stage_name(module->stage));
  bd_text_add_json_string(text, module->name);
  bd_text_add(text, " {\n");
  if (module->stage >= BD_STAGE_SHARDED) {
    bd_text_add(text, "  mesh [");
    for (int axis = 0; axis < module->mesh.axes; ++axis)
      bd_text_addf(text, "%s%d", axis ? "," : "", module->mesh.size[axis]);
    bd_text_addf(text, "] stages %d micro_batch %lld%s%s\n", module->stages,
                 (long long)module->micro_batch, module->cuda ? " cuda" : "",
                 module->cuda && module->one_head ? " one_head" : "");
  }
  for (int i = 0; i < module->weight_count; ++i)
    add_weight(text, &module->weights[i]);
  for (int i = 0; i < module->function_count; ++i)
    if (module->functions[i] != module->main) add_function(text, module, module->functions[i]);
  if (module->main) add_function(text, module, module->main);
  bd_text_add(text, "}\n");
}
