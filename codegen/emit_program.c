// main.c: what the runtime has to know about memory, stages and the step.
#include "codegen/emit.h"
#include "ir/inputs.h"
#include "ir/optimizer.h"
#include "ir/plan_details.h"
#include "runtime/braid_rt_abi.h"
#include <string.h>

_Static_assert((int)BD_OPTIMIZER_SGD == BD_RT_SGD && (int)BD_OPTIMIZER_ADAMW == BD_RT_ADAMW &&
                   (int)BD_OPTIMIZER_MOMENTUM == BD_RT_MOMENTUM &&
                   (int)BD_OPTIMIZER_ADAM == BD_RT_ADAM &&
                   (int)BD_OPTIMIZER_ADAFACTOR == BD_RT_ADAFACTOR,
               "optimizers have the same numbers in the compiler and the runtime");

typedef struct writer {
  bd_emitter *e;
  const bd_layout *layouts;
  bd_text *text;
} writer;

// Room for the ends of groups of any function that the stage calls.
static int64_t most_ends(const bd_module *module, int stage) {
  int64_t most = 0;
  for (int i = 0; i < module->main->op_count; ++i) {
    const bd_op *op = &module->main->ops[i];
    if (op->kind != BD_OP_CALL || op->stage != stage) continue;
    int64_t ends = bd_emit_ends(bd_module_find(module, op->callee));
    if (ends > most) most = ends;
  }
  return most;
}

static void add_stages(const writer *w) {
  const bd_module *module = w->e->module;
  bd_text_add(w->text, "\n");
  for (int s = 0; s < module->stages; ++s)
    bd_text_addf(w->text, "void stage%d_step(bd_rt *rt);\nvoid stage%d_forward(bd_rt *rt);\n", s,
                 s);
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
    int64_t ends = most_ends(module, s);
    if (ends > 0) bd_text_addf(w->text, " .most_ends = %lld,", (long long)ends);
    bd_text_addf(w->text,
                 "\n     .weight_count = %d, .run_count = sizeof runs%d / sizeof *runs%d, "
                 ".runs = runs%d,\n     .step = stage%d_step, .forward = stage%d_forward},\n",
                 layout->weight_count, s, s, s, s, s);
  }
  bd_text_add(w->text, "};\n");
}

// How the generated kernels are launched, and where the device code lies.
static void add_kernels(const writer *w) {
  bd_text_add(w->text, "\nstatic const bd_rt_kernel kernels[] = {\n");
  for (int i = 0; i < w->e->kernel_count; ++i)
    bd_text_addf(w->text, "    {.threads = %d},\n", bd_kernel_set_launch(w->e->kernels, i).threads);
  // The table may not be empty.
  if (w->e->kernel_count == 0) bd_text_add(w->text, "    {0},\n");
  bd_text_add(w->text, "};\n\n"
                       "// Of device_code.s.\n"
                       "extern const char braid_device_code[], braid_device_code_end[];\n"
                       "extern const char braid_architectures[];\n");
}

// What a profile tells apart; the first rows are the runtime's own.
static void add_instructions(const writer *w) {
  bd_text_add(w->text, "\nstatic const bd_rt_instruction instructions[] = {\n"
                       "    {-1, -1, \"other\"},\n    {-1, -1, \"clear gradients\"},\n"
                       "    {-1, -1, \"update\"},\n");
  bd_text_add_n(w->text, w->e->instructions->data, w->e->instructions->length);
  bd_text_add(w->text, "};\n");
}

BD_NODISCARD static bd_status add_ids(const writer *w) {
  const bd_module *module = w->e->module;
  int count = 0;
  for (int i = 0; i < module->input_count; ++i) {
    if (module->inputs[i] != BD_INPUT_IDS) continue;
    bd_text_add(w->text,
                count++ == 0 ? "\nstatic const bd_rt_ids_input ids[] = {\n    {" : "    {");
    bd_text_add_c_string(w->text, module->main->values[module->main->params[i]].name);
    bd_text_addf(w->text, ", .elements = %lld, .bound = %lld},\n",
                 (long long)bd_input_elements(module, i),
                 (long long)bd_input_indexes(module, BD_OP_EMBED, i, false));
  }
  if (count > 0) bd_text_add(w->text, "};\n");
  if (count <= BD_RT_MAX_IDS) return BD_OK;
  return bd_fail(w->e->ctx, BD_UNSUPPORTED, module->main->loc,
                 "programs have at most %d inputs of kind ids, not %d", BD_RT_MAX_IDS, count);
}

// The runtime updates f32: the weight itself, the master of a half, or what is rounded to bf16.
BD_NODISCARD static bd_status check_weight_types(const bd_emitter *e) {
  for (int i = 0; i < e->module->weight_count; ++i) {
    const bd_weight *weight = &e->module->weights[i];
    bool half = bd_dtype_bytes(weight->type.dtype) == 2 && weight->wide == BD_F32;
    if (weight->type.dtype != BD_F32 && !half)
      return bd_fail(e->ctx, BD_UNSUPPORTED, e->module->main->loc,
                     "weight @%s is %s; programs train weights in f32, or in bf16 or f16 with a "
                     "master or rounded",
                     weight->name, bd_dtype_name(weight->type.dtype));
  }
  return BD_OK;
}

// Whether any product is in 8 bits.
static bool has_float8(const bd_module *module) {
  for (int i = 0; i < module->function_count; ++i)
    for (int k = 0; k < module->functions[i]->op_count; ++k)
      if (bd_op_find_attr(&module->functions[i]->ops[k], "fp8")) return true;
  return false;
}

bd_status bd_emit_program(bd_emitter *emitter, const bd_layout *layouts, bd_text *text) {
  const writer w = {emitter, layouts, text};
  const bd_module *module = emitter->module;
  const bd_plan *plan = emitter->plan;
  BD_TRY(check_weight_types(emitter));
  bd_text_add(text, "// The program: its weights, its stages, and how a step is cut.\n"
                    "#include \"runtime/braid_rt.h\"\n");
  for (int s = 0; s < module->stages; ++s)
    bd_emit_weights(emitter, layouts, s, text);
  add_stages(&w);
  if (module->cuda) add_kernels(&w);
  add_instructions(&w);
  BD_TRY(add_ids(&w));
  int tokens = bd_input_find(module, BD_INPUT_TOKENS),
      targets = bd_input_find(module, BD_INPUT_TARGETS);
  bd_text_addf(text, "\nstatic %sbd_rt_program program = {\n", module->cuda ? "" : "const ");
  bd_text_add(text, "    .version = BD_RT_VERSION,\n    .model = ");
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
               (long long)(targets < 0 ? 1 : bd_input_elements(module, targets)));
  int64_t vocabulary = tokens < 0 ? 0 : bd_input_indexes(module, BD_OP_EMBED, tokens, false);
  int64_t classes = targets < 0 ? 0 : bd_input_indexes(module, BD_OP_XENT, targets, true);
  bd_text_addf(text,
               "    .optimizer = %d, .precision = %s, .vocabulary = %lld, .classes = %lld,\n    "
               ".tensors = %d, .stage = stages,\n",
               (int)bd_optimizer_find(plan->optimizer)->kind,
               bd_emit_dtype(plan->precision == BD_F8 ? BD_BF16 : plan->precision),
               (long long)vocabulary, (long long)classes, module->weight_count);
  bd_text_addf(text, "    .instruction_count = %d, .instructions = instructions,\n",
               BD_RT_MARKS + emitter->instruction_count);
  if (module->cuda && plan->details) {
    bd_text_add(text, "    .model_flops = ");
    bd_text_add_double(text, plan->details->model_flops);
    bd_text_add(text, ", .flops_per_second = ");
    bd_text_add_double(text, plan->details->flops_per_second);
    bd_text_add(text, ",\n");
  }
  if (bd_input_find(module, BD_INPUT_IDS) >= 0)
    bd_text_add(text, "    .ids_count = sizeof ids / sizeof *ids, .ids = ids,\n");
  if (module->cuda)
    bd_text_addf(text,
                 "    .kernel_count = %d, .kernels = kernels, .device_code = braid_device_code,\n"
                 "    .architectures = braid_architectures,\n",
                 emitter->kernel_count);
  if (module->cuda && has_float8(module)) bd_text_add(text, "    .has_f8_products = 1,\n");
  bd_text_add(text, "};\n\nint main(int argc, char **argv) {\n");
  if (module->cuda)
    bd_text_add(text, "  program.device_code_bytes = braid_device_code_end - braid_device_code;\n");
  bd_text_add(text, "  return bd_rt_main(argc, argv, &program);\n}\n");
  return BD_OK;
}
