// A stage's calls of layers: what they are passed, and the gathers that they begin for others.
#include "codegen/emit_pass.h"

const bd_function *bd_emit_callee(const bd_emit_pass *pass, const bd_op *op) {
  return op->kind == BD_OP_CALL ? bd_module_find(pass->emitter->module, op->callee) : NULL;
}

// The number in the module of the function that op `call` of main calls.
static int function_of(const bd_emit_pass *pass, int call) {
  const bd_function *callee = bd_emit_callee(pass, &pass->main->ops[call]);
  return bd_module_number(pass->emitter->module, callee);
}

static bool gathers_ahead(const bd_prefetch *prefetch) {
  for (int i = 0; i < prefetch->fusion.step_count; ++i)
    if (prefetch->begin[i] == BD_PREFETCH_AHEAD) return true;
  return false;
}

int bd_emit_ahead_of(const bd_emit_pass *pass, const bd_op *call) {
  int next = bd_prefetch_next(pass->emitter->module, (int)(call - pass->main->ops));
  if (next < 0) return -1;
  int function = function_of(pass, next);
  return gathers_ahead(&pass->emitter->prefetch[function]) ? function : -1;
}

// A gather of `calls`, which all call the same: of the step `step`, before step `start` of what
// runs until then.
static void add_gather(const bd_emit_pass *pass, bd_emit_looped calls, int step, int start) {
  bd_emitter *e = pass->emitter;
  int function = function_of(pass, calls.ops[0]);
  const bd_function *f = e->module->functions[function];
  const bd_prefetch *prefetch = &e->prefetch[function];
  int first = prefetch->fusion.first_op[step];
  const bd_op *op = &f->ops[first];
  bd_text_addf(
      pass->text, "\n        {.step = %d, .instruction = %d, .slot = %d, ", start,
      bd_emit_instruction(e, function, step, f, (bd_emit_ops){first, 1}, (bd_emit_ops){0, 0}),
      prefetch->slot[step]);
  bd_emit_gather(e, pass->text, f, op);
  bd_text_add(pass->text, ",\n         .in = ");
  bd_emit_given(pass, calls, bd_ids_find(f->params, f->param_count, op->in[0]));
  bd_text_addf(pass->text, ", .out = arena + %lld},",
               (long long)(e->layout.segment_start[BD_SEGMENT_WORKSPACE] +
                           f->values[op->out[0]].offset_bytes));
}

// The list of what begins ahead of `calls`: in calls of function `before`, or, where that is -1, at
// once.
static void add_gathers(const bd_emit_pass *pass, bd_emit_looped calls, int before) {
  const bd_emitter *e = pass->emitter;
  int function = function_of(pass, calls.ops[0]);
  const bd_prefetch *prefetch = &e->prefetch[function];
  bd_text_add(pass->text, "(const bd_rt_gather[]){");
  for (int step = 0; step < prefetch->fusion.step_count; ++step) {
    if (prefetch->begin[step] != BD_PREFETCH_AHEAD) continue;
    int start = before < 0 ? 0 : bd_prefetch_start(e->module, e->prefetch, before, function, step);
    add_gather(pass, calls, step, start);
  }
  bd_text_add(pass->text, "\n        {.step = -1}}");
}

// What a call begins for the calls after it.
static void add_ahead(const bd_emit_pass *pass, bd_emit_looped call) {
  bd_text_add(pass->text, ",\n      /* ahead */ ");
  if (bd_emit_ahead_of(pass, &pass->main->ops[call.ops[0]]) < 0) {
    bd_text_add(pass->text, "NULL");
    return;
  }
  int *next = BD_NEW_ARRAY(pass->emitter->ctx->arena, int, call.count);
  for (int i = 0; i < call.count; ++i)
    next[i] = bd_prefetch_next(pass->emitter->module, call.ops[i]);
  add_gathers(pass, (bd_emit_looped){next, call.count}, function_of(pass, call.ops[0]));
}

void bd_emit_first_gathers(const bd_emit_pass *pass, int first, int end) {
  const bd_op *ops = pass->main->ops;
  int stage = pass->emitter->layout.stage;
  while (first < end && (ops[first].kind != BD_OP_CALL || ops[first].stage != stage))
    first++;
  if (first == end || !gathers_ahead(&pass->emitter->prefetch[function_of(pass, first)])) return;
  bd_text_add(pass->text, "  bd_rt_ahead(rt, ");
  add_gathers(pass, (bd_emit_looped){&first, 1}, -1);
  bd_text_add(pass->text, ", 0);\n");
}

// The number of the forward call that a call is or derives, over the iterations: the layer's.
static void add_call_number(const bd_emit_pass *pass, bd_emit_looped call) {
  int64_t *numbers = BD_NEW_ARRAY(pass->emitter->ctx->arena, int64_t, call.count);
  for (int i = 0; i < call.count; ++i)
    numbers[i] = pass->forward_call[call.ops[i]];
  bd_emit_series(pass->emitter, pass->text, numbers, call.count);
}

static void add_tape(const bd_emit_pass *pass, bd_emit_looped call) {
  bd_place *places = BD_NEW_ARRAY(pass->emitter->ctx->arena, bd_place, call.count);
  for (int i = 0; i < call.count; ++i)
    places[i] = pass->emitter->layout.tapes[call.ops[i]];
  bd_emit_places(pass, places, call.count);
}

static const char *indent_of(bd_emit_looped call) {
  return call.count > 1 ? "    " : "  ";
}

// Declares the generator's coordinates for a call.
static void add_random(const bd_emit_pass *pass, bd_emit_looped call) {
  bd_text_addf(pass->text, "const bd_rt_random random%d = bd_rt_random_of(rt, micro_batch, (int)(",
               call.ops[0]);
  add_call_number(pass, call);
  bd_text_addf(pass->text, "));\n%s", indent_of(call));
}

// Weights that a forward call reads, which other ranks may have updated parts of.
static void add_awaited(const bd_emit_pass *pass, bd_emit_looped call) {
  const bd_op *op = &pass->main->ops[call.ops[0]];
  for (int i = 0; i < op->in_count; ++i) {
    if (!bd_emit_awaits(pass, op, i)) continue;
    bd_text_add(pass->text, "bd_rt_await_weight(rt, micro_batch, ");
    bd_emit_given(pass, call, i);
    bd_text_addf(pass->text, ");\n%s", indent_of(call));
  }
}

// Accumulators that a backward call has added to, for ranks to sum while others are computed.
static void add_gradients(const bd_emit_pass *pass, bd_emit_looped call) {
  int count = pass->main->ops[call.ops[0]].out_count;
  for (int i = 0; i < count; ++i) {
    if (bd_emit_result_place(pass, call.ops[0], i).segment != BD_SEGMENT_GRADIENTS) continue;
    bd_text_addf(pass->text, "%sbd_rt_gradient(rt, micro_batch, ", indent_of(call));
    bd_emit_result(pass, call, i);
    bd_text_add(pass->text, ");\n");
  }
}

static void begin_argument(const bd_emit_pass *pass, const bd_function *callee, bd_id id) {
  bd_text_addf(pass->text, ",\n      /* v%d, %s */ ", id,
               bd_segment_name(callee->values[id].segment));
}

static void add_arguments(const bd_emit_pass *pass, bd_emit_looped call) {
  const bd_emitter *e = pass->emitter;
  int function = function_of(pass, call.ops[0]);
  const bd_function *callee = e->module->functions[function];
  for (int i = 0; i < callee->param_count; ++i) {
    if (!bd_emit_is_passed(callee, i)) continue;
    begin_argument(pass, callee, callee->params[i]);
    bd_emit_given(pass, call, i);
  }
  for (int i = 0; i < callee->result_count; ++i) {
    begin_argument(pass, callee, callee->results[i]);
    bd_emit_result(pass, call, i);
  }
  if (bd_emit_uses_tape(callee)) {
    bd_text_add(pass->text, ",\n      /* tape */ ");
    add_tape(pass, call);
  }
  if (bd_emit_uses_workspace(callee))
    bd_text_addf(pass->text, ",\n      /* work */ arena + %lld",
                 (long long)e->layout.segment_start[BD_SEGMENT_WORKSPACE]);
  if (bd_emit_makes_gradient(e, function)) {
    bd_place dloss = bd_emit_loss_gradient_place(pass);
    bd_text_add(pass->text, ",\n      /* dloss, boundary */ ");
    bd_emit_places(pass, &dloss, 1);
  }
  if (bd_emit_begins_ahead(e, function, -1)) add_ahead(pass, call);
}

void bd_emit_layer_call(const bd_emit_pass *pass, bd_emit_looped call) {
  const bd_module *module = pass->emitter->module;
  int function = function_of(pass, call.ops[0]);
  bool random = bd_emit_uses_random(module->functions[function]);
  add_awaited(pass, call);
  if (random) add_random(pass, call);
  bd_text_add(pass->text, "bd_rt_begin(rt, BD_RT_LAYER, ");
  add_call_number(pass, call);
  bd_text_addf(pass->text, ");\n%sf%d(rt", indent_of(call), function);
  if (random) bd_text_addf(pass->text, ", &random%d", call.ops[0]);
  add_arguments(pass, call);
  bd_text_addf(pass->text, ");\n%sbd_rt_end(rt);\n", indent_of(call));
  if (module->cuda) add_gradients(pass, call);
}
