// main.c: what the runtime has to know about weights, memory and stages.
#include "codegen/emit.h"
#include <string.h>

typedef struct writer {
  bd_emitter *e;
  const bd_layout *layouts;
  bd_text *text;
} writer;

static int other_holder(const writer *w, int stage, int weight) {
  for (int s = 0; s < w->e->module->stages; ++s)
    for (int i = 0; s != stage && i < w->layouts[s].weight_count; ++i)
      if (w->layouts[s].weights[i] == weight) return s;
  return -1;
}

// The forward call that a gradient (a result of main) derives from: the order of its accumulation.
static int forward_call(const writer *w, bd_id gradient) {
  const bd_function *main = w->e->module->main;
  int producer = main->values[gradient].producer;
  return producer < 0 ? -1 : (int)bd_op_int(&main->ops[producer], "of", producer);
}

// The accumulators of a weight on a stage, in the order of its uses.
static int find_gradients(const writer *w, int stage, int weight, bd_id *out) {
  const bd_module *module = w->e->module;
  int count = 0;
  for (int i = 1; i < module->main->result_count; ++i) {
    bd_id id = module->main->results[i];
    if (module->gradient_weight[i - 1] != weight ||
        w->layouts[stage].values[id].segment != BD_SEGMENT_GRADIENTS)
      continue;
    int at = count++;
    for (; at > 0 && forward_call(w, out[at - 1]) > forward_call(w, id); --at)
      out[at] = out[at - 1];
    out[at] = id;
  }
  return count;
}

static long long address(const bd_layout *layout, const bd_place *place) {
  return (long long)(layout->segment_start[place->segment] + place->offset_bytes);
}

static void add_gradients(const writer *w, int stage) {
  const bd_module *module = w->e->module;
  bd_id *ids = BD_NEW_ARRAY(w->e->ctx->arena, bd_id, module->main->result_count);
  bd_text offsets = bd_text_init(w->e->ctx->arena), partial = bd_text_init(w->e->ctx->arena);
  for (int i = 0; i < w->layouts[stage].weight_count; ++i) {
    int count = find_gradients(w, stage, w->layouts[stage].weights[i], ids);
    for (int k = 0; k < count; ++k) {
      const bd_value *value = &module->main->values[ids[k]];
      bd_text_addf(&offsets, "  %lld,\n",
                   address(&w->layouts[stage], &w->layouts[stage].values[ids[k]]));
      bd_text_addf(&partial, "  0x%xu,\n", bd_emit_axes(module, &value->sharding, BD_PARTIAL_SUM));
    }
  }
  // A last entry keeps the arrays from being empty.
  bd_text_addf(w->text, "\nstatic const int64_t gradients%d[] = {\n%s  0};\n", stage, offsets.data);
  bd_text_addf(w->text, "static const uint32_t partial%d[] = {\n%s  0};\n", stage, partial.data);
}

static void add_dims(bd_text *text, const int64_t *dims, int rank, int64_t batch) {
  bd_text_add(text, "{");
  for (int d = 0; d < rank; ++d)
    bd_text_addf(text, "%s%lld", d ? ", " : "", (long long)bd_extent(dims[d], batch));
  bd_text_add(text, rank ? "}" : "0}");
}

static void add_layout(const writer *w, const bd_value *value) {
  bd_text_addf(w->text, "{%d, %d, ", value->type.dtype, value->type.rank);
  add_dims(w->text, value->type.dims, value->type.rank, w->e->module->micro_batch);
  bd_text_add(w->text, ", {");
  for (int axis = 0; axis < BD_MAX_AXES; ++axis)
    bd_text_addf(w->text, "%s%d", axis ? ", " : "",
                 axis < w->e->module->mesh.axes ? value->sharding.at[axis] : BD_REPLICATED);
  bd_text_add(w->text, "}}");
}

static void add_weight(const writer *w, int stage, int index, int *first_gradient) {
  const bd_module *module = w->e->module;
  const bd_layout *layout = &w->layouts[stage];
  const bd_weight *weight = &module->weights[index];
  bd_id id = module->main->params[module->input_count + index];
  bd_id *gradients = BD_NEW_ARRAY(w->e->ctx->arena, bd_id, module->main->result_count);
  int gradient_count = find_gradients(w, stage, index, gradients);
  bd_text *text = w->text;
  bd_text_add(text, "    {.stored_name = ");
  bd_text_add_c_string(text, weight->storage.name);
  bd_text_addf(text, ", .stored_rank = %d, .stored_dims = ", weight->storage.rank);
  add_dims(text, weight->storage.dims, weight->storage.rank, 0);
  bd_text_addf(text,
               ",\n     .slice_dim = %d, .slice_start = %lld, .slice_size = %lld, .transpose = %d,",
               weight->storage.slice_dim, (long long)weight->storage.slice_start,
               (long long)weight->storage.slice_size, weight->storage.transpose);
  bd_text_add(text, "\n     .layout = ");
  add_layout(w, &module->main->values[id]);
  bd_text_addf(text, ",\n     .weight_offset = %lld, .gradient_count = %d,",
               address(layout, &layout->values[id]), gradient_count);
  bd_text_addf(text, " .gradient_offsets = gradients%d + %d, .gradient_partial = partial%d + %d,\n",
               stage, *first_gradient, stage, *first_gradient);
  *first_gradient += gradient_count;
  bd_text_addf(text, "     .state_offset = %lld, .state_elements = %lld, .global_index = %d, ",
               address(layout, &layout->states[index]), (long long)layout->state_elements[index],
               index);
  bd_text_addf(text, ".init = %d, .init_scale = (float)", weight->init);
  bd_text_add_double(text, weight->init_scale);
  bd_text_addf(text, ",\n     .decay = %d, .tied_stage = %d},\n", weight->decay,
               other_holder(w, stage, index));
}

static void add_weights(const writer *w, int stage) {
  int first_gradient = 0;
  add_gradients(w, stage);
  bd_text_addf(w->text, "\nstatic const bd_rt_weight weights%d[] = {\n", stage);
  for (int i = 0; i < w->layouts[stage].weight_count; ++i)
    add_weight(w, stage, w->layouts[stage].weights[i], &first_gradient);
  bd_text_add(w->text, "    {.stored_name = \"\"}};\n");
}

static void add_stages(const writer *w) {
  const bd_module *module = w->e->module;
  bd_text_add(w->text, "\n");
  for (int s = 0; s < module->stages; ++s)
    bd_text_addf(w->text, "void stage%d_step(bd_rt *rt);\n", s);
  bd_text_add(w->text, "\nstatic const bd_rt_stage stages[] = {\n");
  for (int s = 0; s < module->stages; ++s) {
    const bd_layout *layout = &w->layouts[s];
    bd_text_addf(w->text, "    {.arena_bytes = %lld, .segment_bytes = {",
                 (long long)layout->memory.total_bytes);
    for (int segment = 0; segment < BD_SEGMENT_COUNT; ++segment)
      bd_text_addf(w->text, "%s%lld", segment ? ", " : "",
                   (long long)layout->memory.bytes[segment]);
    bd_text_addf(w->text,
                 "},\n     .library_offset = %lld, .library_bytes = %lld, .send_offset = %lld, "
                 ".send_bytes = %lld,",
                 (long long)layout->segment_start[BD_SEGMENT_LIBRARY],
                 (long long)layout->memory.bytes[BD_SEGMENT_LIBRARY],
                 (long long)layout->segment_start[BD_SEGMENT_SENDS],
                 (long long)layout->memory.bytes[BD_SEGMENT_SENDS]);
    bd_text_addf(w->text,
                 "\n     .weight_count = %d, .weights = weights%d, .step = stage%d_step},\n",
                 layout->weight_count, s, s);
  }
  bd_text_add(w->text, "};\n");
}

// The value that collectives made this one of.
static bd_id origin(const bd_function *function, bd_id id) {
  int producer = function->values[id].producer;
  while (producer >= 0 && bd_op_get_info(function->ops[producer].kind)->level == BD_COLLECTIVE &&
         function->ops[producer].in_count == 1) {
    id = function->ops[producer].in[0];
    producer = function->values[id].producer;
  }
  return id;
}

static bool is_input(const bd_module *module, bd_id id, bd_input_kind kind) {
  for (int i = 0; i < module->input_count; ++i)
    if (module->main->params[i] == origin(module->main, id)) return module->inputs[i] == kind;
  return false;
}

// Whether the operand of an op inside the callee is an input of main.
static bool reads_input(const bd_module *module, const bd_op *call, const bd_function *callee,
                        bd_id operand, bd_input_kind kind) {
  bd_id id = origin(callee, operand);
  for (int i = 0; i < call->in_count; ++i)
    if (callee->params[i] == id) return is_input(module, call->in[i], kind);
  return false;
}

// The extent of a dimension of operand 0 of the op of `kind` whose operand 1 is an input of main,
// or 0: rows of the token table, classes of the loss.
static int64_t indexed_extent(const bd_module *module, bd_op_kind kind, bd_input_kind input,
                              bool last) {
  for (int c = 0; c < module->main->op_count; ++c) {
    const bd_op *call = &module->main->ops[c];
    if (call->kind != BD_OP_CALL || bd_op_find_attr(call, "of")) continue;
    const bd_function *f = bd_module_find(module, call->callee);
    for (int i = 0; i < f->op_count; ++i) {
      const bd_op *op = &f->ops[i];
      if (op->kind != kind || !reads_input(module, call, f, op->in[1], input)) continue;
      const bd_type *type = &f->values[op->in[0]].type;
      return type->dims[last ? type->rank - 1 : 0];
    }
  }
  return 0;
}

// Targets of one sample.
static int64_t targets_per_sample(const bd_module *module) {
  for (int i = 0; i < module->input_count; ++i)
    if (module->inputs[i] == BD_INPUT_TARGETS)
      return bd_type_elements(&module->main->values[module->main->params[i]].type, 1);
  return 1;
}

bd_status bd_emit_program(bd_emitter *emitter, const bd_layout *layouts, bd_text *text) {
  const writer w = {emitter, layouts, text};
  const bd_module *module = emitter->module;
  const bd_plan *plan = emitter->plan;
  bd_text_add(text, "// The program: its weights, its stages, and how a step is cut.\n"
                    "#include \"runtime/braid_rt.h\"\n");
  for (int s = 0; s < module->stages; ++s)
    add_weights(&w, s);
  add_stages(&w);
  bd_text_add(text, "\nstatic const bd_rt_program program = {\n"
                    "    .version = BD_RT_VERSION,\n    .model = ");
  bd_text_add_c_string(text, module->name);
  bd_text_addf(text, ",\n    .stages = %d, .axes = %d, .mesh = {", module->stages,
               module->mesh.axes);
  for (int axis = 0; axis < BD_MAX_AXES; ++axis)
    bd_text_addf(text, "%s%d", axis ? ", " : "",
                 axis < module->mesh.axes ? module->mesh.size[axis] : 1);
  bd_text_addf(text, "},\n    .threads_per_rank = %d, .zero_axes = 0x%xu,\n",
               plan->threads_per_rank, plan->zero_axes);
  bd_text_addf(text, "    .global_batch = %lld, .micro_batch = %lld, .sequence = %lld,\n",
               (long long)plan->global_batch, (long long)plan->micro_batch,
               (long long)targets_per_sample(module));
  int64_t vocabulary = indexed_extent(module, BD_OP_EMBED, BD_INPUT_TOKENS, false);
  int64_t classes = indexed_extent(module, BD_OP_XENT, BD_INPUT_TARGETS, true);
  bd_text_addf(text, "    .optimizer = %d, .vocabulary = %lld, .classes = %lld, .tensors = %d,\n",
               strcmp(plan->optimizer, "adamw") == 0, (long long)vocabulary, (long long)classes,
               module->weight_count);
  bd_text_add(text, "    .stage = stages,\n};\n\n"
                    "int main(int argc, char **argv) {\n"
                    "  return bd_rt_main(argc, argv, &program);\n}\n");
  return BD_OK;
}
