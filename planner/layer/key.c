#include "planner/layer/key.h"
#include "ir/base/text.h"
#include <string.h>

static void add_type(const bd_type *type, bd_text *text) {
  bd_text_addf(text, "%d:", (int)type->dtype);
  for (int d = 0; d < type->rank; d++)
    bd_text_addf(text, "%lld,", (long long)type->dims[d]);
}

// Lengths come first, so that no text can be read in two ways.
static void add_string(const char *string, bd_text *text) {
  size_t length = strlen(string);
  bd_text_addf(text, "%zu'", length);
  bd_text_add_n(text, string, length);
}

static void add_attr(const bd_attr *attr, bd_text *text) {
  add_string(attr->name, text);
  bd_text_addf(text, "%d=%lld,%a,%d(", (int)attr->kind, (long long)attr->integer, attr->real,
               attr->count);
  for (int i = 0; attr->kind == BD_ATTR_INTS && i < attr->count; i++)
    bd_text_addf(text, "%lld,", (long long)attr->ints[i]);
  for (int i = 0; attr->kind == BD_ATTR_REALS && i < attr->count; i++)
    bd_text_addf(text, "%a,", attr->reals[i]);
  bd_text_add(text, ")");
  if (attr->string) add_string(attr->string, text);
}

// Sites and the like differ between functions that cost the same.
static bool matters(const bd_attr *attr) {
  return strcmp(attr->name, "site") != 0;
}

static void add_ids(const bd_id *ids, int count, bd_text *text) {
  bd_text_addf(text, "%d[", count);
  for (int i = 0; i < count; i++)
    bd_text_addf(text, "%d,", ids[i]);
  bd_text_add(text, "]");
}

static void add_function(const bd_function *f, bd_text *text) {
  bd_text_addf(text, "values %d", f->value_count);
  for (int v = 0; v < f->value_count; v++)
    add_type(&f->values[v].type, text);
  for (int i = 0; i < f->op_count; i++) {
    const bd_op *op = &f->ops[i];
    bd_text_addf(text, "\n%d/%d", (int)op->kind, op->group);
    add_ids(op->in, op->in_count, text);
    add_ids(op->out, op->out_count, text);
    for (int a = 0; a < op->attr_count; a++)
      if (matters(&op->attrs[a])) add_attr(&op->attrs[a], text);
  }
  add_ids(f->params, f->param_count, text);
  add_ids(f->results, f->result_count, text);
  add_ids(f->saves, f->save_count, text);
  bd_text_addf(text, "%d;", f->restore_count);
  for (int p = 0; p < f->param_count; p++)
    bd_text_addf(text, "%d", f->is_weight[p]);
  for (int r = 0; f->role == BD_ROLE_BACKWARD && r < f->result_count; r++)
    bd_text_addf(text, ",%d", f->gradient_of[r]);
}

static void add_sharding(const bd_sharding *sharding, bd_text *text) {
  for (int axis = 0; axis < BD_MAX_AXES; axis++)
    bd_text_addf(text, "%d,", sharding->at[axis]);
}

static void add_pin(const bd_strategy_pin *pin, const bd_function *f, bd_text *text) {
  for (int i = 0; i < f->op_count; i++)
    bd_text_addf(text, "%.*s%d,", BD_MAX_AXES, pin->split[i], pin->balanced[i]);
  for (int v = 0; v < f->value_count; v++)
    bd_text_addf(text, "%d,", pin->saved[v]);
}

const char *bd_layer_key(bd_ctx *ctx, const bd_layer_request *request) {
  const bd_function *f = request->function;
  bd_text text = bd_text_init(ctx->arena);
  for (int axis = 0; axis < request->cost.mesh.axes; axis++)
    bd_text_addf(&text, "%dx", request->cost.mesh.size[axis]);
  bd_text_addf(&text, " batch %lld sequence %lld passes %d zero %d recompute %d whole %d ",
               (long long)request->cost.micro_batch, (long long)request->sequence, request->passes,
               request->zero, request->recompute, request->whole_queries);
  add_string(request->optimizer, &text);
  bd_text_addf(&text, " masters %s gradients %s forms %d ", bd_masters_name(request->masters),
               bd_gradients_name(request->gradients), request->form_count);
  for (int i = 0; i < request->form_count; i++)
    add_sharding(&request->forms[i], &text);
  bd_text_add(&text, " uses ");
  for (int p = 0; p < f->param_count; p++)
    bd_text_addf(&text, "%d%s %a %a ", request->weight_uses[p].calls,
                 request->weight_uses[p].whole ? " whole" : "", request->weight_uses[p].share[0],
                 request->weight_uses[p].share[1]);
  add_sharding(&request->tied_form, &text);
  if (request->pin) add_pin(request->pin, f, &text);
  bd_text_add(&text, "\nforward ");
  add_function(f, &text);
  bd_text_add(&text, "\nbackward ");
  add_function(bd_layer_backward(request->train, f), &text);
  return bd_intern(ctx, text.data, text.length);
}
