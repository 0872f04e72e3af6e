// What a stage does for one micro-batch: data in, ops in loops, sums and transfers, losses out.
#include "codegen/emit_pass.h"

static void add_transfer(const bd_emit_pass *pass, bd_emit_looped transfer, bool send) {
  const bd_emitter *e = pass->emitter;
  const bd_op *op = &pass->main->ops[transfer.ops[0]];
  int64_t *tags = BD_NEW_ARRAY(e->ctx->arena, int64_t, transfer.count);
  for (int i = 0; i < transfer.count; ++i)
    tags[i] = bd_op_int(&pass->main->ops[transfer.ops[i]], "tag", 0);
  const bd_value *value = &pass->main->values[send ? op->in[0] : op->out[0]];
  long long bytes = bd_emit_elements(e->module, value) * bd_dtype_bytes(value->type.dtype);
  bd_text_addf(pass->text, "bd_rt_%s(rt, %lld, (int)(", send ? "send" : "recv",
               (long long)bd_op_int(op, send ? "to" : "from", -1));
  bd_emit_series(pass->emitter, pass->text, tags, transfer.count);
  bd_text_add(pass->text, "), ");
  if (send)
    bd_emit_given(pass, transfer, 0);
  else
    bd_emit_result(pass, transfer, 0);
  bd_text_addf(pass->text, ", %lld);\n", bytes);
}

static void add_collective(const bd_emit_pass *pass, bd_emit_looped collective) {
  bd_emitter *e = pass->emitter;
  bd_text in = bd_text_init(e->ctx->arena), out = bd_text_init(e->ctx->arena);
  bd_emit_pass inner = *pass;
  bd_text_add(&in, "(void *)(");
  bd_text_add(&out, "(void *)(");
  inner.text = &out;
  bd_emit_result(&inner, collective, 0);
  inner.text = &in;
  bd_emit_given(&inner, collective, 0);
  bd_text_add(&in, ")");
  bd_text_add(&out, ")");
  bd_emit_collective(e, pass->text, pass->main, &pass->main->ops[collective.ops[0]], in.data,
                     out.data);
}

BD_NODISCARD static bd_status add_sum(const bd_emit_pass *pass, bd_emit_looped sum) {
  bd_emitter *e = pass->emitter;
  int index = sum.ops[0];
  const bd_op *op = &pass->main->ops[index];
  BD_TRY(bd_emit_sum_kernel(e, index));
  bd_emit_pass inner = *pass;
  bd_text buffers = bd_text_init(e->ctx->arena);
  inner.text = &buffers;
  int terms = op->in[0] == op->in[1] ? 1 : 2;
  for (int i = 0; i < terms; ++i) {
    bd_emit_given(&inner, sum, i);
    bd_text_add(&buffers, ", ");
  }
  bd_emit_result(&inner, sum, 0);
  const bd_emit_call call = {.first_op = index,
                             .number = e->sum_kernel[index],
                             .parts = 1,
                             .buffer_count = terms + 1,
                             .buffers = buffers.data,
                             .random = "NULL"};
  return bd_emit_kernel_call(e, pass->text, pass->main, &call);
}

BD_NODISCARD static bd_status add_op(const bd_emit_pass *pass, bd_emit_looped looped) {
  int first = looped.ops[0];
  const bd_op *op = &pass->main->ops[first];
  const char *indent = looped.count > 1 ? "    " : "  ";
  bd_text_add(pass->text, indent);
  if (op->kind == BD_OP_CALL) {
    bd_emit_layer_call(pass, looped);
    return BD_OK;
  }
  bd_emit_mark(pass->emitter, pass->text, -1, first, pass->main, (bd_emit_ops){first, 1},
               (bd_emit_ops){0, 0});
  bd_text_add(pass->text, indent);
  if (op->kind == BD_OP_ADD) return add_sum(pass, looped);
  if (op->kind == BD_OP_SEND || op->kind == BD_OP_RECV)
    add_transfer(pass, looped, op->kind == BD_OP_SEND);
  else
    add_collective(pass, looped);
  return BD_OK;
}

static bool is_send(const bd_emit_pass *pass, int op) {
  return pass->main->ops[op].kind == BD_OP_SEND;
}

// `ops`: of this stage. A stage sends what others read when all of its own work in a pass is done.
static void add_post(const bd_emit_pass *pass, const int *ops, int count, int at) {
  if (is_send(pass, ops[at - 1]) && (at == count || !is_send(pass, ops[at])))
    bd_text_add(pass->text, "  bd_rt_post(rt);\n");
}

BD_NODISCARD static bd_status add_ops(const bd_emit_pass *pass, int first, int end) {
  bd_emit_first_gathers(pass, first, end);
  int *ops = BD_NEW_ARRAY(pass->emitter->ctx->arena, int, end - first);
  int count = 0;
  for (int i = first; i < end; ++i)
    if (pass->main->ops[i].stage == pass->emitter->layout.stage) ops[count++] = i;
  for (int at = 0; at < count;) {
    bd_emit_repeat r = bd_emit_find_repeat(pass, ops + at, count - at);
    if (r.count > 1) bd_text_addf(pass->text, "  for (int64_t i = 0; i < %d; ++i) {\n", r.count);
    for (int i = 0; i < r.period; ++i)
      BD_TRY(add_op(pass, bd_emit_loop_op(pass, &r, i)));
    if (r.count > 1) bd_text_add(pass->text, "  }\n");
    at += r.count * r.period;
    add_post(pass, ops, count, at);
  }
  bd_text_add(pass->text, "  bd_rt_mark(rt, BD_RT_MARK_OTHER);\n");
  return BD_OK;
}

static void add_inputs(const bd_emit_pass *pass) {
  const bd_module *module = pass->emitter->module;
  for (int i = 0, ids = 0; i < module->input_count; ++i) {
    bd_input_kind kind = module->inputs[i];
    int number = kind == BD_INPUT_IDS ? ids++ : 0;
    bd_id id = pass->main->params[i];
    const bd_value *value = &pass->main->values[id];
    const bd_place *place = &pass->emitter->layout.values[id];
    if (place->segment == BD_SEGMENT_NONE) continue;
    bd_text_addf(pass->text, "  bd_rt_%s(rt, ", bd_input_kind_name(kind));
    if (kind == BD_INPUT_IDS) bd_text_addf(pass->text, "%d, ", number);
    if (kind == BD_INPUT_REALS) bd_text_addf(pass->text, "%s, ", bd_emit_dtype(value->type.dtype));
    bd_text_addf(pass->text, "micro_batch, %s, %s, ", bd_emit_dim_start(pass->emitter, value, 0),
                 bd_emit_dim_count(pass->emitter, value, 0));
    if (kind == BD_INPUT_REALS) {
      bd_type local = bd_value_local_type(module, value);
      bd_text_addf(pass->text, "%lld, ",
                   (long long)(bd_emit_elements(module, value) / local.dims[0]));
    }
    bd_text_add(pass->text, "(void *)(");
    bd_emit_places(pass, place, 1);
    bd_text_add(pass->text, "));\n");
  }
}

static void add_loss(const bd_emit_pass *pass) {
  bd_id loss = pass->main->results[0];
  const bd_value *value = &pass->main->values[loss];
  if (value->producer < 0 || pass->main->ops[value->producer].stage != pass->emitter->layout.stage)
    return;
  bd_text_add(pass->text, "  bd_rt_add_loss(rt, (const float *)(");
  bd_emit_places(pass, &pass->emitter->layout.values[loss], 1);
  bd_text_addf(pass->text, "), 0x%xu);\n",
               bd_emit_axes(pass->emitter->module, &value->sharding, BD_PARTIAL_SUM));
}

// The gradient of the loss sum is the same for every micro-batch. Forward has it where a loss makes
// its gradient there, and leaves it to backward.
static void add_loss_gradient(const bd_emit_pass *pass, bool backward) {
  const bd_emitter *e = pass->emitter;
  const bd_place place = bd_emit_loss_gradient_place(pass);
  if (place.segment == BD_SEGMENT_NONE ||
      backward == bd_fused_makes_gradient(e->module, e->fused, e->layout.stage))
    return;
  bd_text_add(pass->text, "  bd_rt_loss_gradient(rt, (float *)(");
  bd_emit_places(pass, &place, 1);
  bd_text_add(pass->text, "));\n");
}

static void add_step(const bd_emit_pass *pass) {
  const bd_plan *plan = pass->emitter->plan;
  const bd_layout *layout = &pass->emitter->layout;
  bd_schedule_phases p = bd_schedule_get_phases(
      plan->schedule, layout->stage, pass->emitter->module->stages, bd_plan_micro_batches(plan));
  bd_text_addf(pass->text, "\nvoid stage%d_step(bd_rt *rt) {\n  set_parts(rt);\n", layout->stage);
  bd_text_addf(pass->text, "  enum { WARMUP = %d, STEADY = %d, COOLDOWN = %d, IN_FLIGHT = %d };\n",
               p.warmup, p.steady, p.cooldown, layout->in_flight);
  bd_text_add(pass->text, "  for (int64_t i = 0; i < WARMUP; ++i)\n"
                          "    forward(rt, i, i % IN_FLIGHT);\n"
                          "  for (int64_t i = 0; i < STEADY; ++i) {\n"
                          "    forward(rt, WARMUP + i, (WARMUP + i) % IN_FLIGHT);\n"
                          "    backward(rt, i, i % IN_FLIGHT);\n"
                          "  }\n"
                          "  for (int64_t i = STEADY; i < STEADY + COOLDOWN; ++i)\n"
                          "    backward(rt, i, i % IN_FLIGHT);\n}\n");
  bd_text_addf(pass->text,
               "\nvoid stage%d_forward(bd_rt *rt) {\n  set_parts(rt);\n"
               "  for (int64_t i = 0; i < %d; ++i)\n    forward(rt, i, i %% %d);\n}\n",
               layout->stage, bd_plan_micro_batches(plan), layout->in_flight);
}

// Numbers the forward calls; a backward call has the number of its forward call.
static const int *number_calls(bd_emitter *e) {
  const bd_function *main = e->module->main;
  int *numbers = BD_NEW_ARRAY(e->ctx->arena, int, main->op_count);
  int count = 0;
  for (int i = 0; i < main->op_count; ++i) {
    const bd_op *op = &main->ops[i];
    if (op->kind != BD_OP_CALL) continue;
    int of = (int)bd_op_int(op, "of", -1);
    numbers[i] = of >= 0 ? numbers[of] : count++;
  }
  return numbers;
}

static void begin_pass(const bd_emit_pass *pass, const char *name, const char *what) {
  bd_text_addf(pass->text,
               "\nstatic void %s(bd_rt *rt, int64_t micro_batch, int64_t slot) {\n"
               "  char *const arena = bd_rt_arena(rt);\n"
               "  (void)arena, (void)micro_batch, (void)slot;\n"
               "  bd_rt_begin(rt, %s, micro_batch);\n",
               name, what);
}

bd_status bd_emit_stage_main(bd_emitter *emitter) {
  const bd_function *main = emitter->module->main;
  const bd_emit_pass pass = {emitter, main, emitter->text, number_calls(emitter),
                             bd_emit_awaited(emitter)};
  begin_pass(&pass, "forward", "BD_RT_FORWARD");
  add_inputs(&pass);
  add_loss_gradient(&pass, false);
  BD_TRY(add_ops(&pass, 0, emitter->layout.forward_ops));
  add_loss(&pass);
  bd_text_add(pass.text, "  bd_rt_end(rt);\n}\n");
  begin_pass(&pass, "backward", "BD_RT_BACKWARD");
  add_loss_gradient(&pass, true);
  BD_TRY(add_ops(&pass, emitter->layout.forward_ops, main->op_count));
  bd_text_add(pass.text, "  bd_rt_end(rt);\n}\n");
  add_step(&pass);
  return BD_OK;
}
