// Calls of generated kernels.
#include "codegen/emit.h"
#include <assert.h>

BD_NODISCARD static bd_status add_kernel(bd_emitter *e, bd_kernel *kernel) {
  kernel->number = e->kernel_count;
  BD_TRY(bd_kernel_set_add(e->ctx, e->kernels, kernel));
  e->kernel_count += kernel->parts;
  return BD_OK;
}

bd_status bd_emit_kernels(bd_emitter *emitter, int function) {
  if (emitter->step_kernel[function]) return BD_OK;
  const bd_function *f = emitter->module->functions[function];
  const bd_fusion *fusion = &emitter->prefetch[function].fusion;
  const bd_fused *fused = &emitter->fused[function];
  int *numbers = BD_NEW_ARRAY(emitter->ctx->arena, int, fusion->step_count);
  for (int step = 0; step < fusion->step_count; ++step) {
    bd_kernel kernel;
    numbers[step] = -1;
    if (bd_fused_takes(fused, step) ||
        !bd_fused_kernel(emitter->ctx, emitter->module, f, fusion, fused, step,
                         emitter->kernel_count, &kernel))
      continue;
    numbers[step] = kernel.number;
    BD_TRY(add_kernel(emitter, &kernel));
  }
  emitter->step_kernel[function] = numbers;
  return BD_OK;
}

static bool same_sum(const bd_function *main, const bd_op *a, const bd_op *b) {
  const bd_value *x = &main->values[a->out[0]], *y = &main->values[b->out[0]];
  return b->kind == a->kind && (a->in[0] == a->in[1]) == (b->in[0] == b->in[1]) &&
         bd_type_equal(&x->type, &y->type) && bd_sharding_equal(&x->sharding, &y->sharding);
}

bd_status bd_emit_sum_kernel(bd_emitter *emitter, int op) {
  const bd_function *main = emitter->module->main;
  if (emitter->sum_kernel[op] >= 0) return BD_OK;
  for (int i = 0; i < op; ++i)
    if (emitter->sum_kernel[i] >= 0 && same_sum(main, &main->ops[i], &main->ops[op])) {
      emitter->sum_kernel[op] = emitter->sum_kernel[i];
      return BD_OK;
    }
  const bd_op *sum = &main->ops[op];
  bool accumulate = false;
  bd_kernel kernel = {.module = emitter->module,
                      .function = main,
                      .first_op = op,
                      .op_count = 1,
                      .parts = 1,
                      .in_count = sum->in[0] == sum->in[1] ? 1 : 2,
                      .out_count = 1,
                      .in = sum->in,
                      .out = sum->out,
                      .accumulate = &accumulate};
  BD_TRY(add_kernel(emitter, &kernel));
  emitter->sum_kernel[op] = kernel.number;
  return BD_OK;
}

// The start of a call, up to its ranges. Kernels of one step are launched one after another.
static void begin_call(const bd_emitter *e, bd_text *text, const bd_emit_call *call,
                       int range_count) {
  if (!e->module->cuda) {
    bd_text_addf(text, "run_kernel(rt, bdk_%d, bdk_%d_chunks, (char *[]){%s}, (int64_t[]){",
                 call->number, call->number, call->buffers);
    return;
  }
  bd_kernel_launch launch = bd_kernel_set_launch(e->kernels, call->number);
  assert(launch.buffer_count == call->buffer_count && launch.range_count == range_count);
  (void)launch;
  const char *part = call->parts > 1 ? " + part" : "";
  if (call->parts > 1)
    bd_text_addf(text, "for (int part = 0; part < %d; ++part)\n    ", call->parts);
  bd_text_addf(text, "bd_rt_launch(rt, %d%s, %d, (char *[]){%s}, %d, (int64_t[]){", call->number,
               part, call->buffer_count, call->buffers, range_count);
}

bd_status bd_emit_kernel_call(bd_emitter *emitter, bd_text *text, const bd_function *function,
                              const bd_emit_call *call) {
  const bd_op *op = &function->ops[call->first_op];
  bd_index_map map;
  bd_type types[BD_MAX_RESULTS];
  BD_TRY(bd_op_infer(emitter->ctx, function, op, &map, types));
  begin_call(emitter, text, call, 2 * (map.loops ? map.loops : 1));
  for (int loop = 0; loop < map.loops; ++loop) {
    uint32_t axes = bd_loop_axes(&map, emitter->module, function, op, loop);
    int64_t extent = map.loop[loop].extent;
    bd_text_addf(text, "%s%s, %s", loop ? ", " : "", bd_emit_start(emitter, extent, axes),
                 bd_emit_count(emitter, extent, axes));
  }
  if (map.loops == 0) bd_text_add(text, "0, 1");
  bd_text_addf(text, "}, %s);\n", call->random);
  return BD_OK;
}
