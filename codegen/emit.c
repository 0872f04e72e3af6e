// Writes the folder of an emitted program.
#include "codegen/emit.h"
#include "ir/base/file.h"

static bd_status write_file(const bd_emitter *e, const char *folder, const char *name,
                            const bd_text *text) {
  return bd_file_write_unsynced(e->ctx, bd_path_join(e->ctx, folder, name), text->data,
                                text->length);
}

static bool is_called(const bd_emitter *e, const bd_function *function) {
  const bd_function *main = e->module->main;
  for (int i = 0; i < main->op_count; ++i)
    if (main->ops[i].kind == BD_OP_CALL && main->ops[i].stage == e->layout.stage &&
        bd_module_find(e->module, main->ops[i].callee) == function)
      return true;
  return false;
}

static void add_parts(const bd_emitter *e, bd_text *text) {
  if (e->range_count > 0)
    bd_text_add(text, "\n// This rank's part of an extent that is split over mesh axes.\n");
  for (int i = 0; i < e->range_count; ++i)
    bd_text_addf(text, "static struct { int64_t start, count; } part%d; // of %lld, axes 0x%x\n", i,
                 (long long)e->ranges[i].extent, e->ranges[i].axes);
  bd_text_add(text, "\nstatic void set_parts(bd_rt *rt) {\n");
  if (e->range_count == 0) bd_text_add(text, "  (void)rt;\n");
  for (int i = 0; i < e->range_count; ++i)
    bd_text_addf(text, "  bd_rt_range(rt, %lld, 0x%xu, &part%d.start, &part%d.count);\n",
                 (long long)e->ranges[i].extent, e->ranges[i].axes, i, i);
  bd_text_add(text, "}\n");
}

static bd_status emit_stage(bd_emitter *e, const bd_layout *layout, const char *folder) {
  bd_arena *arena = e->ctx->arena;
  bd_text body = bd_text_init(arena), tables = bd_text_init(arena), whole = bd_text_init(arena);
  e->layout = *layout;
  e->text = &body;
  e->tables = &tables;
  e->range_count = e->table_count = 0;
  for (int i = 0; i < e->module->function_count; ++i)
    if (is_called(e, e->module->functions[i])) BD_TRY(bd_emit_function(e, i));
  BD_TRY(bd_emit_stage_main(e));
  bd_text_addf(&whole,
               "// Pipeline stage %d of %d: one micro-batch forward and backward, and a step.\n"
               "#include \"kernels.h\"\n",
               layout->stage, e->module->stages);
  add_parts(e, &whole);
  if (tables.length > 0) bd_text_add(&whole, "\n");
  bd_text_add_n(&whole, tables.data, tables.length);
  bd_text_add_n(&whole, body.data, body.length);
  return write_file(e, folder, bd_intern_f(e->ctx, "stage%d.c", layout->stage), &whole);
}

static bd_status emit_all(bd_emitter *e, const char *folder) {
  bd_layout *layouts = BD_NEW_ARRAY(e->ctx->arena, bd_layout, e->module->stages);
  bd_text program = bd_text_init(e->ctx->arena), header = bd_text_init(e->ctx->arena),
          makefile = bd_text_init(e->ctx->arena), readme = bd_text_init(e->ctx->arena),
          instructions = bd_text_init(e->ctx->arena);
  e->instructions = &instructions;
  for (int s = 0; s < e->module->stages; ++s)
    BD_TRY(bd_layout_of_stage(e->ctx, e->module, s, e->plan->schedule,
                              bd_plan_micro_batches(e->plan), e->plan->optimizer,
                              e->plan->zero_axes, &layouts[s]));
  e->prefetch = bd_prefetch_find(e->ctx, e->module);
  e->fused = bd_fused_find(e->ctx, e->module, e->prefetch);
  for (int s = 0; s < e->module->stages; ++s)
    BD_TRY(emit_stage(e, &layouts[s], folder));
  BD_TRY(bd_emit_program(e, layouts, &program));
  bd_emit_kernel_header(e, &header);
  bd_emit_makefile(e, &makefile);
  bd_emit_readme(e, &readme);
  BD_TRY(write_file(e, folder, "main.c", &program));
  BD_TRY(write_file(e, folder, "kernels.h", &header));
  BD_TRY(write_file(e, folder, "Makefile", &makefile));
  BD_TRY(write_file(e, folder, "README", &readme));
  if (e->module->cuda) {
    bd_text device_code = bd_text_init(e->ctx->arena);
    bd_emit_device_code(&device_code);
    BD_TRY(write_file(e, folder, "device_code.s", &device_code));
  }
  return bd_kernel_set_write(e->ctx, e->kernels, bd_path_join(e->ctx, folder, "kernels"));
}

static void destroy_kernels(void *kernels) {
  bd_kernel_set_destroy(kernels);
}

bd_status bd_emit(bd_ctx *ctx, const bd_module *exec, const bd_plan *plan, int extra_count,
                  const bd_emit_extra *extras, const char *folder) {
  bd_emitter e = {.ctx = ctx,
                  .module = bd_module_clone(ctx, exec),
                  .plan = plan,
                  .extra_count = extra_count,
                  .extras = extras};
  e.step_kernel = BD_NEW_ARRAY(ctx->arena, int *, exec->function_count);
  e.sum_kernel = BD_NEW_ARRAY(ctx->arena, int, exec->main->op_count);
  for (int i = 0; i < exec->main->op_count; ++i)
    e.sum_kernel[i] = -1;
  BD_TRY(bd_kernel_set_create(ctx, exec->cuda, NULL, &e.kernels));
  bd_owned held;
  bd_own(ctx, &held, destroy_kernels, e.kernels);
  bd_status status = emit_all(&e, folder);
  bd_disown(ctx, &held);
  bd_kernel_set_destroy(e.kernels);
  return status;
}
