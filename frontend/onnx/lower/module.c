#include "frontend/onnx/lower/draws.h"
#include "frontend/onnx/lower/places.h"
#include "frontend/onnx/summary.h"
#include <string.h>

// Whether any node that runs takes the value.
static const bool *find_used(bd_onnx_lowering *l, const bool *running) {
  bool *used = BD_NEW_ARRAY(l->ctx->arena, bool, l->model->value_count);
  for (int n = 0; n < l->model->node_count; n++)
    for (int i = 0; running[n] && i < l->model->nodes[n].in_count; i++)
      if (bd_onnx_takes(l->facts, &l->model->nodes[n], i)) used[l->model->nodes[n].in[i]] = true;
  return used;
}

static bool keeps_elements(const char *op) {
  static const char *const ops[] = {"Reshape",   "Cast",    "Squeeze",
                                    "Unsqueeze", "Flatten", "Identity"};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (strcmp(op, ops[i]) == 0) return true;
  return false;
}

// The input that a value is, in another shape or type; -1 when it is none.
static int whole_input(const bd_onnx_model *model, int value) {
  while (model->values[value].producer >= 0) {
    const bd_onnx_node *node = &model->nodes[model->values[value].producer];
    if (!keeps_elements(node->op) || node->in_count < 1) return -1;
    value = node->in[0];
  }
  return model->values[value].initializer ? -1 : value;
}

static int find_target(const bd_onnx_lowering *l, const bool *running) {
  for (int n = 0; n < l->model->node_count; n++)
    if (running[n] && bd_onnx_trains(l, &l->model->nodes[n]))
      return whole_input(l->model, l->model->nodes[n].in[1]);
  return -1;
}

// The graph's type of an input: every extent, also 1.
static bd_status input_type(bd_onnx_lowering *l, int value, bd_type *out) {
  const bd_onnx_fact *fact = &l->facts[value];
  bool real = bd_onnx_is_float(fact->dtype);
  bool good = fact->rank >= 1 && fact->dims[0].batch &&
              (real || fact->dtype == BD_ONNX_INT64 || fact->dtype == BD_ONNX_INT32);
  *out = (bd_type){.dtype = BD_I32, .rank = fact->rank};
  if (real) good = good && bd_onnx_element_type(fact->dtype, &out->dtype);
  for (int d = 0; d < fact->rank; d++) {
    good = good && fact->dims[d].integer >= (fact->dims[d].batch ? 1 : 0) &&
           fact->dims[d].batch == (d == 0) && fact->dims[d].integer != 0 &&
           (d > 0 || fact->dims[d].integer == 1);
    out->dims[d] = fact->dims[d].batch ? BD_DIM_BATCH : fact->dims[d].integer;
  }
  if (good) return BD_OK;
  return bd_fail(
      l->ctx, BD_UNSUPPORTED, l->graph.loc,
      "input \"%s\" is %s %s; an input has reals, int32 or int64, and the batch, a symbol, "
      "as its first dimension and no other (PyTorch: dynamic_axes={\"%s\": {0: \"batch\"}})",
      l->model->values[value].name, bd_onnx_dtype_name(fact->dtype),
      bd_onnx_dims_text(l->ctx, fact->rank, fact->dims), l->model->values[value].name);
}

// An input of main and the parameter of the function for it; in the model's layout it has no
// extents of 1.
static bd_status add_input(bd_onnx_lowering *l, int value) {
  bd_type type;
  BD_TRY(input_type(l, value, &type));
  const char *name = bd_onnx_graph_name(l, l->model->values[value].name);
  bd_input_kind kind = bd_dtype_is_float(type.dtype) ? BD_INPUT_REALS
                       : value == l->target          ? BD_INPUT_TARGETS
                                                     : BD_INPUT_TOKENS;
  bd_graph_input(&l->graph, name, kind, type);
  l->sources[l->graph.function->param_count] = value;
  l->parts[value].id = bd_graph_param(&l->graph, name, type, false);
  return l->graph.status;
}

// The same without main, of any type and shape that has elements.
static bd_status add_plain_input(bd_onnx_lowering *l, int value) {
  const bd_onnx_fact *fact = &l->facts[value];
  bd_type type = {.rank = fact->rank};
  bool good = bd_onnx_element_type(fact->dtype, &type.dtype);
  for (int d = 0; d < fact->rank; d++) {
    good =
        good && fact->dims[d].integer > 0 && (!fact->dims[d].batch || fact->dims[d].integer == 1);
    type.dims[d] = fact->dims[d].batch ? BD_DIM_BATCH : fact->dims[d].integer;
  }
  if (!good)
    return bd_fail(l->ctx, BD_UNSUPPORTED, l->graph.loc,
                   "input \"%s\" is %s %s, of which the graph has no value",
                   l->model->values[value].name, bd_onnx_dtype_name(fact->dtype),
                   bd_onnx_dims_text(l->ctx, fact->rank, fact->dims));
  l->sources[l->graph.function->param_count] = value;
  const char *name = bd_onnx_graph_name(l, l->model->values[value].name);
  l->parts[value].id = bd_graph_param(&l->graph, name, type, false);
  return l->graph.status;
}

static bd_status strip_input(bd_onnx_lowering *l, int value) {
  const bd_onnx_fact *fact = &l->facts[value];
  bd_onnx_factors factors[BD_MAX_RANK] = {{0}};
  for (int d = 0; d < fact->rank; d++)
    factors[d] = bd_onnx_factors_plain(l, fact->dims[d]);
  return bd_onnx_refit(l, NULL, fact->rank, factors, &l->parts[value]);
}

// The dimension of the first output that is the classes.
static int classes_of(const bd_onnx_lowering *l, bd_onnx_loss loss) {
  return loss == BD_ONNX_LOSS_DICE ? 1 : l->facts[l->model->outputs[0]].rank - 1;
}

// Targets for the classes of the first output.
static bd_status add_targets(bd_onnx_lowering *l, bd_onnx_loss loss, bd_id *out_param) {
  const bd_onnx_fact *fact = &l->facts[l->model->outputs[0]];
  bd_type type = {.dtype = BD_I32};
  bool dice = loss == BD_ONNX_LOSS_DICE;
  bool good = fact->rank >= (dice ? 3 : 2) && bd_onnx_is_float(fact->dtype);
  for (int d = 0; good && d < fact->rank; d++) {
    good = fact->dims[d].batch == (d == 0) && fact->dims[d].integer > 0;
    if (d != classes_of(l, loss))
      type.dims[type.rank++] = d == 0 ? BD_DIM_BATCH : fact->dims[d].integer;
  }
  if (!good || fact->dims[0].integer != 1)
    return bd_fail(l->ctx, BD_INVALID, l->graph.loc,
                   "--loss %s needs scores [B, %s] as the first output; \"%s\" is %s %s",
                   dice ? "dice" : "cross-entropy", dice ? "classes, places.." : ".., classes",
                   l->model->values[l->model->outputs[0]].name, bd_onnx_dtype_name(fact->dtype),
                   bd_onnx_dims_text(l->ctx, fact->rank, fact->dims));
  if (!dice && fact->rank > 3)
    bd_warn(l->ctx, l->graph.loc,
            "--loss cross-entropy takes the last dimension of the first output, %s, for the "
            "classes; where they are dimension 1, export the model with a transpose behind it",
            bd_onnx_dims_text(l->ctx, fact->rank, fact->dims));
  const char *name = bd_onnx_graph_name(l, "targets");
  bd_graph_input(&l->graph, name, BD_INPUT_TARGETS, type);
  *out_param = bd_graph_param(&l->graph, name, type, false);
  return l->graph.status;
}

bd_onnx_step bd_onnx_lower_step(const bd_onnx_lowering *l, const bd_onnx_node *node) {
  bd_onnx_step step = {.ctx = l->ctx,
                       .model = l->model,
                       .node = node,
                       .rule = bd_onnx_rule_of(node),
                       .in_count = node->in_count,
                       .out_count = node->out_count};
  step.in = BD_NEW_ARRAY(l->ctx->arena, bd_onnx_fact *, node->in_count + BD_ONNX_LEAST_OPERANDS);
  step.out = BD_NEW_ARRAY(l->ctx->arena, bd_onnx_fact, node->out_count);
  for (int i = 0; i < node->in_count; i++)
    if (node->in[i] != BD_ONNX_ABSENT) step.in[i] = &l->facts[node->in[i]];
  for (int i = 0; i < node->out_count; i++)
    if (node->out[i] != BD_ONNX_ABSENT) step.out[i] = l->facts[node->out[i]];
  return step;
}

// Whether a node makes indices of places, which are followed instead of computed.
static bool makes_places(const bd_onnx_lowering *l, const bd_onnx_node *node) {
  for (int i = 0; i < node->out_count; i++)
    if (node->out[i] != BD_ONNX_ABSENT && l->places[node->out[i]]) return true;
  return false;
}

static bd_status lower_nodes(bd_onnx_lowering *l, const bool *running) {
  const bd_onnx_draw *draws = NULL;
  l->places = bd_onnx_find_places(l, running);
  BD_TRY(bd_onnx_find_draws(l, running, &draws));
  for (int n = 0; n < l->model->node_count; n++) {
    bool followed = draws[n].kind == BD_ONNX_DRAW_PART || makes_places(l, &l->model->nodes[n]);
    if (!running[n] || followed) continue;
    bd_onnx_step step = bd_onnx_lower_step(l, &l->model->nodes[n]);
    BD_TRY(draws[n].kind == BD_ONNX_DRAW_MASK ? bd_onnx_lower_mask(l, &step, draws[n].kept)
                                              : bd_onnx_lower_node(l, &step));
  }
  return BD_OK;
}

// The loss that an output of the model is.
static bd_status own_loss(bd_onnx_lowering *l, bd_id *out) {
  for (int i = 0; i < l->model->output_count; i++) {
    int value = l->model->outputs[i], producer = l->model->values[value].producer;
    bool is_loss = producer >= 0 && l->parts[value].id != BD_NO_ID &&
                   bd_onnx_trains(l, &l->model->nodes[producer]);
    if (!is_loss) continue;
    *out = l->parts[value].id;
    if (l->target >= 0) return BD_OK;
    return bd_onnx_node_fail(
        l->ctx, l->model, &l->model->nodes[producer], BD_UNSUPPORTED,
        "its targets are not a whole input of the model, in any shape, so that "
        "their number is not known; export the model without its loss, and "
        "import it with --loss cross-entropy");
  }
  return bd_fail(
      l->ctx, BD_INVALID, l->graph.loc,
      "no output of the model is a loss that braid knows (SoftmaxCrossEntropyLoss); give it "
      "one with --loss cross-entropy or dice");
}

// Scores as the graph has them: targets get the structure of all but their classes.
static bd_status added_loss(bd_onnx_lowering *l, bd_onnx_loss loss, bd_id targets, bd_id *out) {
  int value = l->model->outputs[0], classes = classes_of(l, loss);
  bd_onnx_part part = l->parts[value];
  if (part.id == BD_NO_ID || part.first[classes + 1] - part.first[classes] != 1 ||
      part.first[1] != 1)
    return bd_fail(l->ctx, BD_UNSUPPORTED, l->graph.loc,
                   "the first output is known beforehand, or its classes are no single dimension");
  bd_type type = *bd_onnx_type(l, part.id);
  int64_t dims[BD_MAX_RANK];
  int rank = 0;
  for (int d = 0; d < type.rank; d++)
    if (d != part.first[classes]) dims[rank++] = type.dims[d];
  BD_TRY(bd_onnx_emit_reshape(l, targets, rank, dims, &targets));
  return (loss == BD_ONNX_LOSS_DICE ? bd_onnx_dice : bd_onnx_cross_entropy)(l, part.id, targets,
                                                                            out);
}

static bd_status call_function(bd_onnx_lowering *l, bd_id loss, bd_module **out_graph) {
  bd_function *main = l->graph.module->main;
  bd_graph_result(&l->graph, loss);
  bd_id out = bd_graph_call(&l->graph, l->graph.function, main->param_count, main->params, "loss");
  return bd_graph_finish(&l->graph, out, out_graph);
}

static bd_onnx_lowering begin(bd_ctx *ctx, const bd_onnx_model *model, bd_onnx_fact *facts) {
  bd_onnx_lowering l = {
      .ctx = ctx, .model = model, .facts = facts, .names = bd_name_map_init(ctx->arena)};
  l.graph = bd_graph_begin(ctx, model->name[0] ? model->name : "model", bd_loc_file(model->path));
  bd_graph_function(&l.graph, "model");
  l.sources = BD_NEW_ARRAY(ctx->arena, int, model->value_count + 1);
  l.parts = BD_NEW_ARRAY(ctx->arena, bd_onnx_part, model->value_count);
  for (int i = 0; i < model->value_count; i++) {
    l.parts[i].id = BD_NO_ID;
    for (int d = 0; d <= BD_MAX_RANK; d++)
      l.parts[i].first[d] = (int8_t)d; // of inputs, until they are stripped
  }
  return l;
}

// PyTorch, in evaluation mode, stores parameters of equal values once, such as all zero biases of a
// fresh model, with an Identity for each of the others.
static void warn_of_merged(const bd_onnx_lowering *l, const bool *running) {
  const char *first = NULL;
  int count = 0;
  for (int n = 0; n < l->model->node_count; n++) {
    const bd_onnx_node *node = &l->model->nodes[n];
    bool merged = running[n] && strcmp(node->op, "Identity") == 0 && node->domain[0] == '\0' &&
                  l->model->values[node->in[0]].initializer && l->facts[node->in[0]].weight;
    if (merged && count++ == 0) first = l->model->values[node->in[0]].name;
  }
  if (count > 0)
    bd_warn(l->ctx, l->graph.loc,
            "%d parameter%s the same as %s (\"%s\"), as exporters in evaluation mode make "
            "parameters of equal values one, which then train as one; export in training mode "
            "(docs/onnx.md)",
            count, count == 1 ? " is" : "s are", count == 1 ? "another" : "others", first);
}

bd_status bd_onnx_lower(bd_ctx *ctx, const bd_onnx_model *model, bd_onnx_fact *facts,
                        bd_onnx_loss loss, bd_module **out_graph) {
  bd_onnx_lowering l = begin(ctx, model, facts);
  const bool *running = bd_onnx_running(ctx, model, facts);
  bd_id targets = BD_NO_ID, made = BD_NO_ID;
  l.used = find_used(&l, running);
  l.target = find_target(&l, running);
  warn_of_merged(&l, running);
  if (model->output_count == 0)
    return bd_fail(ctx, BD_INVALID, l.graph.loc, "the model has no outputs");
  for (int i = 0; i < model->input_count; i++)
    if (l.used[model->inputs[i]]) BD_TRY(add_input(&l, model->inputs[i]));
  if (loss != BD_ONNX_LOSS_OWN) BD_TRY(add_targets(&l, loss, &targets));
  for (int i = 0; i < model->input_count; i++)
    if (l.used[model->inputs[i]]) BD_TRY(strip_input(&l, model->inputs[i]));
  BD_TRY(lower_nodes(&l, running));
  BD_TRY(targets == BD_NO_ID ? own_loss(&l, &made) : added_loss(&l, loss, targets, &made));
  return call_function(&l, made, out_graph);
}

bd_status bd_onnx_lower_function(bd_ctx *ctx, const bd_onnx_model *model, bd_onnx_fact *facts,
                                 bd_onnx_program *out_program) {
  bd_onnx_lowering l = begin(ctx, model, facts);
  const bool *running = bd_onnx_running(ctx, model, facts);
  int *results = BD_NEW_ARRAY(ctx->arena, int, model->output_count), count = 0;
  l.used = find_used(&l, running);
  l.target = -1;
  for (int i = 0; i < model->input_count; i++)
    if (l.used[model->inputs[i]]) BD_TRY(add_plain_input(&l, model->inputs[i]));
  for (int i = 0; i < model->input_count; i++)
    if (l.used[model->inputs[i]]) BD_TRY(strip_input(&l, model->inputs[i]));
  BD_TRY(lower_nodes(&l, running));
  for (int i = 0; i < model->output_count; i++) {
    bd_id made = l.parts[model->outputs[i]].id;
    if (made == BD_NO_ID) continue;
    bd_graph_result(&l.graph, made);
    results[count++] = i;
  }
  *out_program = (bd_onnx_program){l.graph.module, l.graph.function, l.sources, results};
  return l.graph.status;
}
