// The sources of a program that evaluates functions.
#include "codegen/emit.h"
#include "codegen/evaluation.h"
#include "ir/base/file.h"
#include "ir/memory.h"

// ", base + offset" for each of the values, one after another.
static void add_places(const bd_emitter *e, const bd_function *f, const char *base, int count,
                       const bd_id *values) {
  int64_t offset = 0;
  for (int i = 0; i < count; i++) {
    bd_text_addf(e->text, ", %s + %lld", base, (long long)offset);
    offset += bd_memory_value_bytes(e->module, &f->values[values[i]]);
  }
}

// What calls a function with everything in its place.
static void add_caller(const bd_emitter *e, int number) {
  const bd_function *f = e->module->functions[number];
  bd_text_addf(e->text, "\nstatic void call%d(bd_rt *rt, char *in, char *work, char *out) {\n",
               number);
  bd_text_add(e->text, "  (void)in, (void)work, (void)out;\n");
  if (bd_emit_uses_random(f)) bd_text_add(e->text, "  const bd_rt_random random = {.seed = 1};\n");
  bd_text_addf(e->text, "  f%d(rt%s", number, bd_emit_uses_random(f) ? ", &random" : "");
  add_places(e, f, "in", f->param_count, f->params);
  add_places(e, f, "out", f->result_count, f->results);
  bd_text_addf(e->text, "%s);\n}\n", bd_emit_uses_workspace(f) ? ", work" : "");
}

static bd_status add_functions(bd_emitter *e, bd_text *table) {
  for (int i = 0; i < e->module->function_count; i++) {
    bd_function *f = e->module->functions[i];
    int64_t work_bytes;
    BD_TRY(bd_memory_place_workspace(e->ctx, e->module, f, &work_bytes));
    BD_TRY(bd_emit_function(e, i));
    add_caller(e, i);
    bd_text_addf(table, "    {%lld, %lld, %lld, call%d},\n",
                 (long long)bd_evaluation_bytes(e->module, f, f->param_count, f->params),
                 (long long)work_bytes,
                 (long long)bd_evaluation_bytes(e->module, f, f->result_count, f->results), i);
  }
  return BD_OK;
}

static bd_status write_all(bd_emitter *e, const char *folder) {
  bd_arena *arena = e->ctx->arena;
  bd_text body = bd_text_init(arena), table = bd_text_init(arena), header = bd_text_init(arena),
          makefile = bd_text_init(arena), instructions = bd_text_init(arena);
  e->text = &body;
  e->instructions = &instructions;
  e->prefetch = bd_prefetch_find(e->ctx, e->module);
  e->fused = bd_fused_find(e->ctx, e->module, e->prefetch);
  bd_text_add(&body, "// Functions, each run once on the parameters in a file.\n"
                     "#include \"kernels.h\"\n");
  BD_TRY(add_functions(e, &table));
  bd_text_add(&body, "\nstatic const bd_rt_evaluation evaluations[] = {\n");
  bd_text_add_n(&body, table.data, table.length);
  bd_text_addf(&body,
               "};\n\nint main(int argc, char **argv) {\n"
               "  return bd_rt_evaluate_main(argc, argv, %d, evaluations);\n}\n",
               e->module->function_count);
  bd_emit_kernel_header(e, &header);
  bd_emit_evaluation_makefile(e, &makefile);
  BD_TRY(bd_file_write_unsynced(e->ctx, bd_path_join(e->ctx, folder, "main.c"), body.data,
                                body.length));
  BD_TRY(bd_file_write_unsynced(e->ctx, bd_path_join(e->ctx, folder, "kernels.h"), header.data,
                                header.length));
  BD_TRY(bd_file_write_unsynced(e->ctx, bd_path_join(e->ctx, folder, "Makefile"), makefile.data,
                                makefile.length));
  return bd_kernel_set_write(e->ctx, e->kernels, bd_path_join(e->ctx, folder, "kernels"));
}

static void destroy_kernels(void *kernels) {
  bd_kernel_set_destroy(kernels);
}

bd_status bd_emit_evaluation(bd_ctx *ctx, const bd_module *evaluation, const char *folder) {
  bd_emitter e = {.ctx = ctx, .module = bd_module_clone(ctx, evaluation)};
  e.step_kernel = BD_NEW_ARRAY(ctx->arena, int *, evaluation->function_count);
  BD_TRY(bd_kernel_set_create(ctx, false, NULL, &e.kernels));
  bd_owned held;
  bd_own(ctx, &held, destroy_kernels, e.kernels);
  bd_status status = write_all(&e, folder);
  bd_disown(ctx, &held);
  bd_kernel_set_destroy(e.kernels);
  return status;
}
