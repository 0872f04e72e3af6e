// Writes the folder of an emitted program.
#include "codegen/emit.h"
#include "ir/base/file.h"

void bd_emit_kernel_header(const bd_emitter *emitter, bd_text *text) {
  bd_text_add(
      text,
      "// Generated kernels (kernels.s; to read: kernels.ll) and how they run.\n"
      "#ifndef KERNELS_H\n#define KERNELS_H\n#include \"runtime/braid_rt.h\"\n#include <stddef.h>\n"
      "#include <string.h>\n\n"
      "typedef void kernel(char *const *buffers, const int64_t *range, const bd_rt_random "
      "*random,\n"
      "                    const float *scalars, int64_t chunk);\n"
      "typedef int64_t kernel_chunks(const int64_t *range);\n\n");
  for (int i = 0; i < emitter->kernel_count; ++i)
    bd_text_addf(text, "kernel bdk_%d; kernel_chunks bdk_%d_chunks;\n", i, i);
  bd_text_add(
      text,
      "\ntypedef struct kernel_run {\n  kernel *run;\n  char *const *buffers;\n"
      "  const int64_t *range;\n  const bd_rt_random *random;\n} kernel_run;\n\n"
      "static inline void run_chunk(void *args, int64_t chunk) {\n"
      "  const kernel_run *const k = args;\n"
      "  k->run(k->buffers, k->range, k->random, NULL, chunk);\n}\n\n"
      "// Runs all chunks of a kernel. `range`: first index and valid count of each of its loops.\n"
      "static inline void run_kernel(bd_rt *rt, kernel *run, kernel_chunks *chunks,\n"
      "                              char *const *buffers, const int64_t *range,\n"
      "                              const bd_rt_random *random) {\n"
      "  kernel_run k = {run, buffers, range, random};\n"
      "  bd_rt_parallel(rt, run_chunk, &k, chunks(range));\n}\n#endif\n");
}

void bd_emit_makefile(const bd_emitter *emitter, bd_text *text) {
  bd_text_add(text, "# Builds the training program: make, then mpirun -n RANKS ./train --help\n"
                    "include runtime/cpu.mk\n\nSOURCES = main.c");
  for (int s = 0; s < emitter->module->stages; ++s)
    bd_text_addf(text, " stage%d.c", s);
  bd_text_add(text,
              " $(BRAID_RT_SOURCES)\nOBJECTS = $(SOURCES:%.c=build/%.o) build/kernels.o\n\n"
              "train: $(OBJECTS)\n\t$(BRAID_RT_CC) -o $@ $(OBJECTS) $(BRAID_RT_LIBS)\n\n"
              "build/%.o: %.c kernels.h\n\t@mkdir -p $(@D)\n"
              "\t$(BRAID_RT_CC) $(BRAID_RT_CFLAGS) -c -o $@ $<\n\n"
              "build/kernels.o: kernels.s\n\t@mkdir -p $(@D)\n\t$(BRAID_RT_CC) -c -o $@ $<\n\n"
              "clean:\n\trm -rf build train\n.PHONY: clean\n");
}

static bd_status write_file(const bd_emitter *e, const char *folder, const char *name,
                            const bd_text *text) {
  return bd_file_write(e->ctx, bd_path_join(e->ctx, folder, name), text->data, text->length);
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
          makefile = bd_text_init(e->ctx->arena);
  for (int s = 0; s < e->module->stages; ++s)
    BD_TRY(bd_layout_of_stage(e->ctx, e->module, s, e->plan->schedule,
                              bd_plan_micro_batches(e->plan), e->plan->optimizer,
                              e->plan->zero_axes, &layouts[s]));
  for (int s = 0; s < e->module->stages; ++s)
    BD_TRY(emit_stage(e, &layouts[s], folder));
  BD_TRY(bd_emit_program(e, layouts, &program));
  bd_emit_kernel_header(e, &header);
  bd_emit_makefile(e, &makefile);
  BD_TRY(write_file(e, folder, "main.c", &program));
  BD_TRY(write_file(e, folder, "kernels.h", &header));
  BD_TRY(write_file(e, folder, "Makefile", &makefile));
  return bd_kernel_set_write(e->ctx, e->kernels, bd_path_join(e->ctx, folder, "kernels"));
}

bd_status bd_emit(bd_ctx *ctx, const bd_module *exec, const bd_plan *plan,
                  const bd_emit_options *options) {
  if (options->cuda)
    return bd_fail(ctx, BD_UNSUPPORTED, BD_NOWHERE,
                   "programs are emitted for CPU ranks; use --target cpu");
  bd_emitter e = {.ctx = ctx, .module = bd_module_clone(ctx, exec), .plan = plan};
  e.step_kernel = BD_NEW_ARRAY(ctx->arena, int *, exec->function_count);
  e.sum_kernel = BD_NEW_ARRAY(ctx->arena, int, exec->main->op_count);
  for (int i = 0; i < exec->main->op_count; ++i)
    e.sum_kernel[i] = -1;
  BD_TRY(bd_kernel_set_create(ctx, false, NULL, &e.kernels));
  bd_status status = emit_all(&e, options->folder);
  bd_kernel_set_destroy(e.kernels);
  return status;
}
