#include "frontend/onnx/infer/step.h"
#include <string.h>

typedef struct walk {
  bd_ctx *ctx;
  const bd_onnx_model *model;
  bd_onnx_fact *facts;
  int room;
  bd_onnx_fact **in;
  bd_onnx_fact *out;
  bd_onnx_members members;
} walk;

static void make_room(walk *w, const bd_onnx_node *node) {
  int wanted = node->in_count > node->out_count ? node->in_count : node->out_count;
  if (wanted < BD_ONNX_LEAST_OPERANDS) wanted = BD_ONNX_LEAST_OPERANDS;
  if (wanted > w->room) {
    w->room = 2 * wanted;
    w->in = BD_NEW_ARRAY(w->ctx->arena, bd_onnx_fact *, w->room);
    w->out = BD_NEW_ARRAY(w->ctx->arena, bd_onnx_fact, w->room);
  }
  for (int i = 0; i < w->room; i++) {
    bool there = i < node->in_count && node->in[i] != BD_ONNX_ABSENT;
    w->in[i] = there ? &w->facts[node->in[i]] : NULL;
    w->out[i] = (bd_onnx_fact){.dtype = BD_ONNX_UNDEFINED};
  }
}

// The bool that an If asks for.
static bd_status read_condition(const bd_onnx_step *step, bd_onnx_fact *fact, bool *out) {
  bool one = bd_onnx_plain(fact) && bd_onnx_count(fact) == 1;
  if (fact->dtype != BD_ONNX_BOOL || !one)
    return bd_onnx_step_fail(step, BD_INVALID, "the condition of an If is not one bool");
  if (!bd_onnx_is_known(fact))
    return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                             "the condition of an If depends on the model's inputs; export the "
                             "model with one of its branches only");
  BD_TRY(bd_onnx_load(step, fact));
  *out = bd_onnx_at(fact, 0).integer != 0;
  return BD_OK;
}

// Whether the node stands in branches that are taken.
static bd_status is_reached(walk *w, const bd_onnx_step *step, const bd_onnx_guard *guard,
                            bool *out) {
  bool value;
  *out = true;
  if (guard) BD_TRY(is_reached(w, step, guard->outer, out));
  if (!guard || !*out) return BD_OK;
  BD_TRY(read_condition(step, &w->facts[guard->condition], &value));
  *out = value == guard->taken_if;
  return BD_OK;
}

// An If's results are those of the branch that is taken.
static bd_status choose(walk *w, const bd_onnx_step *step) {
  const bd_onnx_node *node = step->node;
  bool value;
  BD_TRY(read_condition(step, step->in[0], &value));
  for (int i = 0; i < node->out_count; i++)
    if (node->out[i] != BD_ONNX_ABSENT)
      w->facts[node->out[i]] = *step->in[1 + (value ? 0 : node->out_count) + i];
  return BD_OK;
}

static bd_status infer_node(walk *w, const bd_onnx_node *node) {
  make_room(w, node);
  bd_onnx_step step = {.ctx = w->ctx,
                       .model = w->model,
                       .node = node,
                       .in_count = node->in_count,
                       .out_count = node->out_count,
                       .in = w->in,
                       .out = w->out,
                       .members = &w->members};
  bool reached;
  BD_TRY(is_reached(w, &step, node->guard, &reached));
  if (!reached) return BD_OK;
  if (bd_onnx_is_if(node)) return choose(w, &step);
  BD_TRY(bd_onnx_find_rule(w->ctx, w->model, node, &step.rule));
  BD_TRY(bd_onnx_check_signature(&step));
  BD_TRY(step.rule->infer(&step));
  BD_TRY(bd_onnx_check_selected(&step));
  for (int i = 0; i < node->out_count; i++)
    if (node->out[i] != BD_ONNX_ABSENT) w->facts[node->out[i]] = step.out[i];
  return BD_OK;
}

// What the model says of its outputs holds for what was inferred.
static bd_status check_output(walk *w, int value) {
  const bd_onnx_declared *declared = w->model->values[value].declared;
  const bd_onnx_fact *fact = &w->facts[value];
  if (fact->sequence)
    return bd_fail(
        w->ctx, BD_UNSUPPORTED, bd_loc_file(w->model->path),
        "the output \"%s\" is no tensor but a sequence; export the model with tensors as "
        "outputs",
        w->model->values[value].name);
  if (bd_onnx_selected_dim(fact) >= 0)
    return bd_fail(w->ctx, BD_UNSUPPORTED, bd_loc_file(w->model->path),
                   "the shape of the output \"%s\" depends on the contents of the model's inputs; "
                   "export the model so that shapes follow from shapes",
                   w->model->values[value].name);
  bool same = declared->dtype == fact->dtype || declared->dtype == BD_ONNX_UNDEFINED;
  bool ranked = declared->rank >= 0;
  same = same && (!ranked || declared->rank == fact->rank);
  for (int d = 0; same && ranked && d < fact->rank; d++)
    same = declared->dims[d].value < 0 || bd_onnx_is(fact->dims[d], declared->dims[d].value) ||
           fact->dims[d].batch;
  if (same) return BD_OK;
  return bd_fail(w->ctx, BD_INVALID, bd_loc_file(w->model->path),
                 "the output \"%s\" is declared with another type or shape than its node makes: "
                 "%s %s",
                 w->model->values[value].name, bd_onnx_dtype_name(fact->dtype),
                 bd_onnx_dims_text(w->ctx, fact->rank, fact->dims));
}

static void take_initializers(walk *w) {
  for (int i = 0; i < w->model->value_count; i++) {
    const bd_onnx_tensor *tensor = w->model->values[i].initializer;
    if (!tensor) continue;
    bd_onnx_number *dims = BD_NEW_ARRAY(w->ctx->arena, bd_onnx_number, tensor->rank);
    for (int d = 0; d < tensor->rank; d++)
      dims[d] = bd_onnx_whole(tensor->dims[d]);
    w->facts[i] = (bd_onnx_fact){.dtype = tensor->dtype,
                                 .rank = tensor->rank,
                                 .dims = dims,
                                 .tensor = tensor,
                                 .weight = bd_onnx_is_float(tensor->dtype) && tensor->rank > 0};
  }
}

bd_status bd_onnx_infer(bd_ctx *ctx, const bd_onnx_model *model, const bd_onnx_options *options,
                        bd_onnx_fact **out_facts) {
  walk w = {.ctx = ctx, .model = model};
  w.facts = BD_NEW_ARRAY(ctx->arena, bd_onnx_fact, model->value_count);
  if (model->opset > BD_ONNX_NEWEST_OPSET)
    return bd_fail(ctx, BD_UNSUPPORTED, bd_loc_file(model->path),
                   "the model is of operator set %lld; braid knows up to %d: export it with "
                   "opset_version=%d",
                   (long long)model->opset, BD_ONNX_NEWEST_OPSET, BD_ONNX_NEWEST_OPSET);
  take_initializers(&w);
  BD_TRY(bd_onnx_bind_inputs(ctx, model, options, w.facts));
  for (int i = 0; i < model->node_count; i++)
    BD_TRY(infer_node(&w, &model->nodes[i]));
  for (int i = 0; i < model->output_count; i++)
    BD_TRY(check_output(&w, model->outputs[i]));
  // The others served those that are made of them, and are computed when the model runs.
  for (int i = 0; i < model->value_count; i++)
    if (bd_onnx_form_of(&w.facts[i]).kind == BD_ONNX_DIAGONALS_NONE) w.facts[i].diagonals = NULL;
  *out_facts = w.facts;
  return BD_OK;
}

// A shape is known without the elements that have it.
static bool looks_at_shape_alone(const bd_onnx_node *node) {
  return strcmp(node->op, "Shape") == 0 || strcmp(node->op, "Size") == 0;
}

const bool *bd_onnx_wanted(bd_ctx *ctx, const bd_onnx_model *model) {
  bool *wanted = BD_NEW_ARRAY(ctx->arena, bool, model->value_count);
  for (int n = model->node_count - 1; n >= 0; n--) {
    const bd_onnx_node *node = &model->nodes[n];
    const bd_onnx_rule *rule = bd_onnx_rule_of(node);
    bool all = false;
    for (int i = 0; i < node->out_count; i++)
      all = all || (node->out[i] != BD_ONNX_ABSENT && wanted[node->out[i]]);
    all = (all && !looks_at_shape_alone(node)) || bd_onnx_is_if(node);
    for (int i = 0; i < node->in_count; i++)
      if (node->in[i] != BD_ONNX_ABSENT && (all || (rule && i < 32 && (rule->known >> i & 1))))
        wanted[node->in[i]] = true;
  }
  return wanted;
}
