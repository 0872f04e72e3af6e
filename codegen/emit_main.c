// What a stage does for one micro-batch: calls in loops, data in, losses out, transfers.
#include "codegen/emit.h"
#include <assert.h>
#include <string.h>

#define LONGEST_PERIOD 16

// A run of `count` iterations of `period` consecutive ops of the stage.
typedef struct repeat {
  const int *ops; // indices into main, of all iterations in order
  int period, count;
} repeat;

typedef struct writer {
  bd_emitter *e;
  const bd_function *main;
  bd_text *text;
  const int *forward_call; // per op of main: number of the forward call, or of the one it derives
} writer;

static const bd_op *op_at(const writer *w, const repeat *r, int iteration, int position) {
  return &w->main->ops[r->ops[iteration * r->period + position]];
}

static const bd_function *callee_of(const writer *w, const bd_op *op) {
  return op->kind == BD_OP_CALL ? bd_module_find(w->e->module, op->callee) : NULL;
}

static bool same_value(const writer *w, bd_id a, bd_id b) {
  const bd_value *x = &w->main->values[a], *y = &w->main->values[b];
  return bd_type_equal(&x->type, &y->type) && bd_sharding_equal(&x->sharding, &y->sharding);
}

// The function whose gathers begin in a call, or -1.
static int ahead_of(const writer *w, const bd_op *call) {
  int next = bd_prefetch_next(w->e->module, (int)(call - w->main->ops));
  if (next < 0) return -1;
  int function = bd_emit_function_index(w->e->module, callee_of(w, &w->main->ops[next]));
  const bd_prefetch *prefetch = &w->e->prefetch[function];
  for (int i = 0; i < prefetch->fusion.step_count; ++i)
    if (prefetch->begin[i] == BD_PREFETCH_AHEAD) return function;
  return -1;
}

// Whether two ops of main differ in addresses, tags and call numbers only.
static bool same_op(const writer *w, const bd_op *a, const bd_op *b) {
  static const char *const numbers[] = {"axis", "to", "from", NULL};
  if (a->kind != b->kind || a->in_count != b->in_count || a->out_count != b->out_count)
    return false;
  if (a->kind == BD_OP_CALL)
    return strcmp(a->callee, b->callee) == 0 && ahead_of(w, a) == ahead_of(w, b);
  for (int i = 0; numbers[i]; ++i)
    if (bd_op_int(a, numbers[i], -1) != bd_op_int(b, numbers[i], -1)) return false;
  for (int i = 0; i < a->in_count; ++i)
    if (!same_value(w, a->in[i], b->in[i])) return false;
  for (int i = 0; i < a->out_count; ++i)
    if (!same_value(w, a->out[i], b->out[i])) return false;
  return true;
}

static int count_iterations(const writer *w, const int *ops, int count, int period) {
  int iterations = 1;
  for (; (iterations + 1) * period <= count; ++iterations)
    for (int i = 0; i < period; ++i)
      if (!same_op(w, &w->main->ops[ops[i]], &w->main->ops[ops[iterations * period + i]]))
        return iterations;
  return iterations;
}

static bd_place place_of(const writer *w, int op_index, bool is_result, int index) {
  const bd_op *op = &w->main->ops[op_index];
  return w->e->layout.values[is_result ? op->out[index] : op->in[index]];
}

static bd_place restored_place(const writer *w, int op_index, int index) {
  bd_id id = bd_layout_restored(w->e->module, op_index, index);
  return id == BD_NO_ID ? w->e->layout.tapes[op_index] : w->e->layout.values[id];
}

static int restore_count(const writer *w, const bd_op *op) {
  const bd_function *callee = callee_of(w, op);
  return callee && callee->role == BD_ROLE_BACKWARD ? callee->restore_count : 0;
}

static bool steps_evenly(bd_place a, bd_place b, bd_place c) {
  return b.offset_bytes - a.offset_bytes == c.offset_bytes - b.offset_bytes &&
         a.slot_bytes == b.slot_bytes && b.slot_bytes == c.slot_bytes;
}

// Whether every address of an op advances from `b` to `c` as it did from `a` to `b`.
static bool op_steps_evenly(const writer *w, int a, int b, int c) {
  const bd_op *op = &w->main->ops[a];
  for (int i = 0; i < restore_count(w, op); ++i)
    if (!steps_evenly(restored_place(w, a, i), restored_place(w, b, i), restored_place(w, c, i)))
      return false;
  for (int i = 0; i < op->in_count; ++i)
    if (!steps_evenly(place_of(w, a, false, i), place_of(w, b, false, i), place_of(w, c, false, i)))
      return false;
  for (int i = 0; i < op->out_count; ++i)
    if (!steps_evenly(place_of(w, a, true, i), place_of(w, b, true, i), place_of(w, c, true, i)))
      return false;
  return true;
}

// Iterations from the first on whose addresses advance evenly.
static int even_iterations(const writer *w, const repeat *r) {
  for (int n = 2; n < r->count; ++n)
    for (int i = 0; i < r->period; ++i) {
      const int *at = r->ops + n * r->period + i;
      if (!op_steps_evenly(w, at[-2 * r->period], at[-r->period], at[0])) return n;
    }
  return r->count;
}

// The longest stretch from the first op on that is one body repeated. What advances evenly for most
// of it stops there: the last layer of a stage may differ. Else tables serve.
static repeat find_repeat(const writer *w, const int *ops, int count) {
  repeat best = {ops, 1, 1};
  for (int period = 1; period <= LONGEST_PERIOD && 2 * period <= count; ++period) {
    int iterations = count_iterations(w, ops, count, period);
    if (iterations > 1 && iterations * period > best.count * best.period)
      best = (repeat){ops, period, iterations};
  }
  int even = even_iterations(w, &best);
  if (2 * even > best.count) best.count = even;
  return best;
}

static void add_slots(const writer *w, const int64_t *slots, int count) {
  bool any = false;
  for (int i = 0; i < count; ++i)
    any |= slots[i] != 0;
  if (!any) return;
  bool compound = false;
  for (int i = 1; i < count; ++i)
    compound |= slots[i] != slots[0];
  bd_text_add(w->text, compound ? " + slot * (" : " + slot * ");
  bd_emit_series(w->e, w->text, slots, count);
  if (compound) bd_text_add(w->text, ")");
}

static void add_places(const writer *w, const bd_place *places, int count) {
  int64_t *offsets = BD_NEW_ARRAY(w->e->ctx->arena, int64_t, count);
  int64_t *slots = BD_NEW_ARRAY(w->e->ctx->arena, int64_t, count);
  for (int i = 0; i < count; ++i) {
    assert(places[i].segment == places[0].segment && places[i].segment != BD_SEGMENT_NONE);
    offsets[i] = w->e->layout.segment_start[places[i].segment] + places[i].offset_bytes;
    slots[i] = places[i].slot_bytes;
  }
  bd_text_add(w->text, "arena + ");
  bd_emit_series(w->e, w->text, offsets, count);
  add_slots(w, slots, count);
}

// The address of an operand (or result) of the op at `position`, over the iterations.
static void add_value(const writer *w, const repeat *r, int position, bool is_result, int index) {
  bd_place *places = BD_NEW_ARRAY(w->e->ctx->arena, bd_place, r->count);
  for (int i = 0; i < r->count; ++i)
    places[i] = place_of(w, r->ops[i * r->period + position], is_result, index);
  add_places(w, places, r->count);
}

static void add_tape(const writer *w, const repeat *r, int position) {
  bd_place *places = BD_NEW_ARRAY(w->e->ctx->arena, bd_place, r->count);
  for (int i = 0; i < r->count; ++i)
    places[i] = w->e->layout.tapes[r->ops[i * r->period + position]];
  add_places(w, places, r->count);
}

// The number of the forward call that a call is or derives, over the iterations: the layer's.
static void add_call_number(const writer *w, const repeat *r, int position) {
  int64_t *calls = BD_NEW_ARRAY(w->e->ctx->arena, int64_t, r->count);
  for (int i = 0; i < r->count; ++i)
    calls[i] = w->forward_call[r->ops[i * r->period + position]];
  bd_emit_series(w->e, w->text, calls, r->count);
}

// Declares the generator's coordinates for a call.
static void add_random(const writer *w, const repeat *r, int position) {
  bd_text_addf(w->text, "const bd_rt_random random%d = bd_rt_random_of(rt, micro_batch, (int)(",
               r->ops[position]);
  add_call_number(w, r, position);
  bd_text_addf(w->text, "));\n%s", r->count > 1 ? "    " : "  ");
}

// Accumulators that a backward call has added to, for ranks to sum while others are computed.
static void add_gradients(const writer *w, const repeat *r, int position) {
  const bd_op *op = op_at(w, r, 0, position);
  for (int i = 0; i < op->out_count; ++i) {
    if (place_of(w, r->ops[position], true, i).segment != BD_SEGMENT_GRADIENTS) continue;
    bd_text_addf(w->text, "%sbd_rt_gradient(rt, micro_batch, ", r->count > 1 ? "    " : "  ");
    add_value(w, r, position, true, i);
    bd_text_add(w->text, ");\n");
  }
}

// What a call is given as parameter `index`.
static bd_place place_of_param(const writer *w, int call, int index) {
  int restored = restore_count(w, &w->main->ops[call]);
  return index < restored ? restored_place(w, call, index)
                          : place_of(w, call, false, index - restored);
}

static void add_param(const writer *w, const int *calls, int count, int index) {
  bd_place *places = BD_NEW_ARRAY(w->e->ctx->arena, bd_place, count);
  for (int i = 0; i < count; ++i)
    places[i] = place_of_param(w, calls[i], index);
  add_places(w, places, count);
}

// A gather of `calls`, which all call the same: of the step `step`, before step `start` of what
// runs until then.
static void add_gather(const writer *w, const int *calls, int count, int step, int start) {
  bd_emitter *e = w->e;
  const bd_function *f = callee_of(w, &w->main->ops[calls[0]]);
  int function = bd_emit_function_index(e->module, f);
  const bd_prefetch *prefetch = &e->prefetch[function];
  const bd_op *op = &f->ops[prefetch->fusion.first_op[step]];
  int param = 0;
  while (f->params[param] != op->in[0])
    param++;
  bd_text_addf(w->text, "\n        {.step = %d, .instruction = %d, .slot = %d, ", start,
               bd_emit_instruction(e, function, step, f,
                                   (bd_emit_ops){prefetch->fusion.first_op[step], 1},
                                   (bd_emit_ops){0, 0}),
               prefetch->slot[step]);
  bd_emit_gather(e, w->text, f, op);
  bd_text_add(w->text, ",\n         .in = ");
  add_param(w, calls, count, param);
  bd_text_addf(w->text, ", .out = arena + %lld},",
               (long long)(e->layout.segment_start[BD_SEGMENT_WORKSPACE] +
                           f->values[op->out[0]].offset_bytes));
}

// The list of what begins ahead of `calls`: in calls of function `before`, or, where that is -1, at
// once.
static void add_gathers(const writer *w, const int *calls, int count, int before) {
  const bd_emitter *e = w->e;
  int function = bd_emit_function_index(e->module, callee_of(w, &w->main->ops[calls[0]]));
  const bd_prefetch *prefetch = &e->prefetch[function];
  bd_text_add(w->text, "(const bd_rt_gather[]){");
  for (int step = 0; step < prefetch->fusion.step_count; ++step) {
    if (prefetch->begin[step] != BD_PREFETCH_AHEAD) continue;
    int start = before < 0 ? 0 : bd_prefetch_start(e->module, e->prefetch, before, function, step);
    add_gather(w, calls, count, step, start);
  }
  bd_text_add(w->text, "\n        {.step = -1}}");
}

// What the calls at `position` begin for the calls after them.
static void add_ahead(const writer *w, const repeat *r, int position) {
  const bd_op *op = op_at(w, r, 0, position);
  bd_text_add(w->text, ",\n      /* ahead */ ");
  if (ahead_of(w, op) < 0) {
    bd_text_add(w->text, "NULL");
    return;
  }
  int *next = BD_NEW_ARRAY(w->e->ctx->arena, int, r->count);
  for (int i = 0; i < r->count; ++i)
    next[i] = bd_prefetch_next(w->e->module, r->ops[i * r->period + position]);
  add_gathers(w, next, r->count, bd_emit_function_index(w->e->module, callee_of(w, op)));
}

// What the first call of a pass gathers begins with the pass.
static void add_first(const writer *w, int first, int end) {
  while (first < end && (w->main->ops[first].kind != BD_OP_CALL ||
                         w->main->ops[first].stage != w->e->layout.stage))
    first++;
  if (first == end) return;
  int function = bd_emit_function_index(w->e->module, callee_of(w, &w->main->ops[first]));
  const bd_prefetch *prefetch = &w->e->prefetch[function];
  bool any = false;
  for (int i = 0; i < prefetch->fusion.step_count; ++i)
    any |= prefetch->begin[i] == BD_PREFETCH_AHEAD;
  if (!any) return;
  bd_text_add(w->text, "  bd_rt_ahead(rt, ");
  add_gathers(w, &first, 1, -1);
  bd_text_add(w->text, ", 0);\n");
}

static void begin_argument(const writer *w, const bd_function *callee, bd_id id) {
  bd_text_addf(w->text, ",\n      /* v%d, %s */ ", id, bd_segment_name(callee->values[id].segment));
}

static void add_call(const writer *w, const repeat *r, int position) {
  const bd_op *op = op_at(w, r, 0, position);
  const bd_function *callee = callee_of(w, op);
  int *calls = BD_NEW_ARRAY(w->e->ctx->arena, int, r->count);
  for (int i = 0; i < r->count; ++i)
    calls[i] = r->ops[i * r->period + position];
  bool random = bd_emit_uses_random(callee);
  if (random) add_random(w, r, position);
  const char *indent = r->count > 1 ? "    " : "  ";
  bd_text_add(w->text, "bd_rt_begin(rt, BD_RT_LAYER, ");
  add_call_number(w, r, position);
  bd_text_addf(w->text, ");\n%sf%d(rt", indent, bd_emit_function_index(w->e->module, callee));
  if (random) bd_text_addf(w->text, ", &random%d", r->ops[position]);
  for (int i = 0; i < callee->param_count; ++i) {
    if (!bd_emit_is_passed(callee, i)) continue;
    begin_argument(w, callee, callee->params[i]);
    add_param(w, calls, r->count, i);
  }
  for (int i = 0; i < callee->result_count; ++i) {
    begin_argument(w, callee, callee->results[i]);
    add_value(w, r, position, true, i);
  }
  if (bd_emit_uses_tape(callee)) {
    bd_text_add(w->text, ",\n      /* tape */ ");
    add_tape(w, r, position);
  }
  if (bd_emit_uses_workspace(callee))
    bd_text_addf(w->text, ",\n      /* work */ arena + %lld",
                 (long long)w->e->layout.segment_start[BD_SEGMENT_WORKSPACE]);
  if (bd_emit_begins_ahead(w->e, bd_emit_function_index(w->e->module, callee), -1))
    add_ahead(w, r, position);
  bd_text_addf(w->text, ");\n%sbd_rt_end(rt);\n", indent);
  if (w->e->module->cuda) add_gradients(w, r, position);
}

static void add_transfer(const writer *w, const repeat *r, int position, bool send) {
  const bd_op *op = op_at(w, r, 0, position);
  int64_t *tags = BD_NEW_ARRAY(w->e->ctx->arena, int64_t, r->count);
  for (int i = 0; i < r->count; ++i)
    tags[i] = bd_op_int(op_at(w, r, i, position), "tag", 0);
  const bd_value *value = &w->main->values[send ? op->in[0] : op->out[0]];
  long long bytes = bd_emit_elements(w->e->module, value) * bd_dtype_bytes(value->type.dtype);
  bd_text_addf(w->text, "bd_rt_%s(rt, %lld, (int)(", send ? "send" : "recv",
               (long long)bd_op_int(op, send ? "to" : "from", -1));
  bd_emit_series(w->e, w->text, tags, r->count);
  bd_text_add(w->text, "), ");
  add_value(w, r, position, !send, 0);
  bd_text_addf(w->text, ", %lld);\n", bytes);
}

static const char *address(const writer *w, const repeat *r, int position, bool is_result) {
  writer inner = *w;
  bd_text text = bd_text_init(w->e->ctx->arena);
  inner.text = &text;
  bd_text_add(&text, "(void *)(");
  add_value(&inner, r, position, is_result, 0);
  bd_text_add(&text, ")");
  return text.data;
}

BD_NODISCARD static bd_status add_sum(const writer *w, const repeat *r, int position) {
  int index = r->ops[position];
  const bd_op *op = &w->main->ops[index];
  BD_TRY(bd_emit_sum_kernel(w->e, index));
  writer inner = *w;
  bd_text buffers = bd_text_init(w->e->ctx->arena);
  inner.text = &buffers;
  int terms = op->in[0] == op->in[1] ? 1 : 2;
  for (int i = 0; i < terms; ++i) {
    add_value(&inner, r, position, false, i);
    bd_text_add(&buffers, ", ");
  }
  add_value(&inner, r, position, true, 0);
  const bd_emit_call call = {.first_op = index,
                             .number = w->e->sum_kernel[index],
                             .parts = 1,
                             .buffer_count = terms + 1,
                             .buffers = buffers.data,
                             .random = "NULL"};
  return bd_emit_kernel_call(w->e, w->text, w->main, &call);
}

BD_NODISCARD static bd_status add_op(const writer *w, const repeat *r, int position) {
  const bd_op *op = op_at(w, r, 0, position);
  const char *indent = r->count > 1 ? "    " : "  ";
  bd_text_add(w->text, indent);
  if (op->kind != BD_OP_CALL) {
    bd_emit_mark(w->e, w->text, -1, r->ops[position], w->main, (bd_emit_ops){r->ops[position], 1},
                 (bd_emit_ops){0, 0});
    bd_text_add(w->text, indent);
  }
  if (op->kind == BD_OP_CALL) {
    add_call(w, r, position);
  } else if (op->kind == BD_OP_SEND || op->kind == BD_OP_RECV) {
    add_transfer(w, r, position, op->kind == BD_OP_SEND);
  } else if (op->kind == BD_OP_ADD) {
    return add_sum(w, r, position);
  } else {
    bd_emit_collective(w->e, w->text, w->main, op, address(w, r, position, false),
                       address(w, r, position, true));
  }
  return BD_OK;
}

BD_NODISCARD static bd_status add_ops(const writer *w, int first, int end) {
  add_first(w, first, end);
  int *ops = BD_NEW_ARRAY(w->e->ctx->arena, int, end - first);
  int count = 0;
  for (int i = first; i < end; ++i)
    if (w->main->ops[i].stage == w->e->layout.stage) ops[count++] = i;
  for (int at = 0; at < count;) {
    repeat r = find_repeat(w, ops + at, count - at);
    if (r.count > 1) bd_text_addf(w->text, "  for (int64_t i = 0; i < %d; ++i) {\n", r.count);
    for (int i = 0; i < r.period; ++i)
      BD_TRY(add_op(w, &r, i));
    if (r.count > 1) bd_text_add(w->text, "  }\n");
    at += r.count * r.period;
  }
  bd_text_add(w->text, "  bd_rt_mark(rt, BD_RT_MARK_OTHER);\n");
  return BD_OK;
}

static void add_inputs(const writer *w) {
  const bd_module *module = w->e->module;
  for (int i = 0, ids = 0; i < module->input_count; ++i) {
    bd_input_kind kind = module->inputs[i];
    int number = kind == BD_INPUT_IDS ? ids++ : 0;
    bd_id id = w->main->params[i];
    const bd_value *value = &w->main->values[id];
    const bd_place *place = &w->e->layout.values[id];
    if (place->segment == BD_SEGMENT_NONE) continue;
    bd_text_addf(w->text, "  bd_rt_%s(rt, ", bd_input_kind_name(kind));
    if (kind == BD_INPUT_IDS) bd_text_addf(w->text, "%d, ", number);
    if (kind == BD_INPUT_REALS) bd_text_addf(w->text, "%s, ", bd_emit_dtype(value->type.dtype));
    bd_text_addf(w->text, "micro_batch, %s, %s, ", bd_emit_dim_start(w->e, value, 0),
                 bd_emit_dim_count(w->e, value, 0));
    if (kind == BD_INPUT_REALS) {
      bd_type local = bd_emit_local(module, value);
      bd_text_addf(w->text, "%lld, ", (long long)(bd_emit_elements(module, value) / local.dims[0]));
    }
    bd_text_add(w->text, "(void *)(");
    add_places(w, place, 1);
    bd_text_add(w->text, "));\n");
  }
}

static void add_loss(const writer *w) {
  bd_id loss = w->main->results[0];
  const bd_value *value = &w->main->values[loss];
  if (value->producer < 0 || w->main->ops[value->producer].stage != w->e->layout.stage) return;
  bd_text_add(w->text, "  bd_rt_add_loss(rt, (const float *)(");
  add_places(w, &w->e->layout.values[loss], 1);
  bd_text_addf(w->text, "), 0x%xu);\n",
               bd_emit_axes(w->e->module, &value->sharding, BD_PARTIAL_SUM));
}

// The gradient of the loss sum is the same for every micro-batch.
static void add_loss_gradient(const writer *w) {
  int index = w->e->module->input_count + w->e->module->weight_count;
  if (index >= w->main->param_count) return;
  const bd_place *place = &w->e->layout.values[w->main->params[index]];
  if (place->segment == BD_SEGMENT_NONE) return;
  bd_text_add(w->text, "  bd_rt_loss_gradient(rt, (float *)(");
  add_places(w, place, 1);
  bd_text_add(w->text, "));\n");
}

static void add_step(const writer *w) {
  const bd_plan *plan = w->e->plan;
  const bd_layout *layout = &w->e->layout;
  bd_schedule_phases p = bd_schedule_get_phases(plan->schedule, layout->stage, w->e->module->stages,
                                                bd_plan_micro_batches(plan));
  bd_text_addf(w->text, "\nvoid stage%d_step(bd_rt *rt) {\n  set_parts(rt);\n", layout->stage);
  bd_text_addf(w->text, "  enum { WARMUP = %d, STEADY = %d, COOLDOWN = %d, IN_FLIGHT = %d };\n",
               p.warmup, p.steady, p.cooldown, layout->in_flight);
  bd_text_add(w->text, "  for (int64_t i = 0; i < WARMUP; ++i)\n"
                       "    forward(rt, i, i % IN_FLIGHT);\n"
                       "  for (int64_t i = 0; i < STEADY; ++i) {\n"
                       "    forward(rt, WARMUP + i, (WARMUP + i) % IN_FLIGHT);\n"
                       "    backward(rt, i, i % IN_FLIGHT);\n"
                       "  }\n"
                       "  for (int64_t i = STEADY; i < STEADY + COOLDOWN; ++i)\n"
                       "    backward(rt, i, i % IN_FLIGHT);\n}\n");
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

static void begin_pass(const writer *w, const char *name, const char *what) {
  bd_text_addf(w->text,
               "\nstatic void %s(bd_rt *rt, int64_t micro_batch, int64_t slot) {\n"
               "  char *const arena = bd_rt_arena(rt);\n"
               "  (void)micro_batch, (void)slot;\n"
               "  bd_rt_begin(rt, %s, micro_batch);\n",
               name, what);
}

bd_status bd_emit_stage_main(bd_emitter *emitter) {
  const bd_function *main = emitter->module->main;
  const writer w = {emitter, main, emitter->text, number_calls(emitter)};
  begin_pass(&w, "forward", "BD_RT_FORWARD");
  add_inputs(&w);
  BD_TRY(add_ops(&w, 0, emitter->layout.forward_ops));
  add_loss(&w);
  bd_text_add(w.text, "  bd_rt_end(rt);\n}\n");
  begin_pass(&w, "backward", "BD_RT_BACKWARD");
  add_loss_gradient(&w);
  BD_TRY(add_ops(&w, emitter->layout.forward_ops, main->op_count));
  bd_text_add(w.text, "  bd_rt_end(rt);\n}\n");
  add_step(&w);
  return BD_OK;
}
