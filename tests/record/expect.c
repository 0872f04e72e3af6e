#include "tests/record/expect.h"

#include "codegen/fused.h"
#include "ir/layout.h"
#include "ir/pitch.h"
#include "runtime/braid_rt_abi.h"
#include "tests/record/terms.h"

#include <stdio.h>

typedef struct builder {
  bd_ctx *ctx;
  const bd_module *module;
  const bd_function *main;
  record_expectation *e;
  record_pass *pass; // that is being written
  int capacity, use_count, use_capacity;
  const bd_prefetch *prefetch; // per function
  const bd_fused *fused;       // likewise
  const record_ways *ways;
} builder;

static record_instruction *add(builder *b, record_kind kind, const char *name) {
  record_pass *const pass = b->pass;
  if (pass->count == b->capacity) {
    const int wanted = b->capacity ? 2 * b->capacity : 64;
    pass->instructions = bd_arena_grow(b->ctx->arena, pass->instructions, (size_t)b->capacity,
                                       (size_t)wanted, sizeof *pass->instructions);
    b->capacity = wanted;
  }
  record_instruction *const i = &pass->instructions[pass->count++];
  *i = (record_instruction){.kind = kind,
                            .function = -1,
                            .step = -1,
                            .name = name,
                            .parts = 1,
                            .first_use = b->use_count};
  return i;
}

static void add_use(builder *b, record_access access, int value, int64_t bytes) {
  if (b->use_count == b->use_capacity) {
    const int wanted = b->use_capacity ? 2 * b->use_capacity : 256;
    b->e->uses = bd_arena_grow(b->ctx->arena, b->e->uses, (size_t)b->use_capacity, (size_t)wanted,
                               sizeof *b->e->uses);
    b->use_capacity = wanted;
  }
  b->e->uses[b->use_count++] = (record_use){access, value, 0, bytes};
  b->pass->instructions[b->pass->count - 1].use_count++;
}

static int number_of_main(const builder *b, bd_id id) {
  const int inputs = b->module->input_count;
  for (int i = 0; i < b->module->weight_count; i++)
    if (b->main->params[inputs + i] == id) return i;
  for (int i = 1; i < b->main->result_count; i++)
    if (b->main->results[i] == id) return record_gradient(b->e, i);
  return b->e->persistent + id;
}

static int number_of_call(const builder *b, int call, bd_id id) {
  return b->e->persistent + b->e->call_values[call] + id;
}

static int index_of(const bd_id *ids, int count, bd_id id) {
  for (int i = 0; i < count; i++)
    if (ids[i] == id) return i;
  return -1;
}

// The number of a value inside a call. What backward restores is a value of its forward call.
static int number_of(const builder *b, int call, const bd_function *f, bd_id id) {
  const bd_op *const op = &b->main->ops[call];
  const int restored = f->role == BD_ROLE_BACKWARD ? f->restore_count : 0;
  const int param = index_of(f->params, f->param_count, id);
  const int result = index_of(f->results, f->result_count, id);
  if (param >= restored) return number_of_main(b, op->in[param - restored]);
  if (param >= 0) {
    const bd_id held = bd_layout_restored(b->module, call, param);
    if (held != BD_NO_ID) return number_of_main(b, held);
    const int of = (int)bd_op_int(op, "of", -1);
    return number_of_call(b, of, bd_module_find(b->module, b->main->ops[of].callee)->saves[param]);
  }
  return result >= 0 ? number_of_main(b, op->out[result]) : number_of_call(b, call, id);
}

static void use_in_call(builder *b, int call, const bd_function *f, bd_id id,
                        record_access access) {
  const int64_t bytes = bd_dtype_bytes(f->values[id].type.dtype);
  add_use(b, access, number_of(b, call, f, id), bd_value_elements(b->module, f, id) * bytes);
}

static void use_in_main(builder *b, bd_id id, record_access access) {
  add_use(b, access, number_of_main(b, id), record_value_bytes(b->module, &b->main->values[id]));
}

static bool is_of_library(const builder *b, const bd_function *f, const bd_op *op) {
  bool adds = false;
  for (int n = 0; n < op->out_count; n++)
    adds = adds || bd_accumulates(f, op->out[n]);
  return b->ways->attention && bd_attention_suits_library(f, op) && !adds;
}

// A loss leaves what its backward call makes of the logits: the gradient, in their place.
static void use_gradient(builder *b, int call, const bd_function *f, bd_id logits) {
  int backward = call + 1;
  while (b->main->ops[backward].kind != BD_OP_CALL ||
         bd_op_int(&b->main->ops[backward], "of", -1) != call)
    backward++;
  const bd_function *const g = bd_module_find(b->module, b->main->ops[backward].callee);
  const bd_id restored = g->params[index_of(f->saves, f->save_count, logits)];
  int op = 0;
  while (g->ops[op].kind != BD_OP_XENT_GRAD || g->ops[op].in[0] != restored)
    op++;
  use_in_call(b, backward, g, g->ops[op].out[0], RECORD_WRITE);
}

static void add_kernel(builder *b, int call, const bd_kernel *k) {
  const bd_function *const f = k->function;
  const bd_op *const first = &f->ops[k->first_op];
  const bool library = is_of_library(b, f, first);
  record_instruction *const i =
      add(b, library ? RECORD_ATTEND : RECORD_LAUNCH, bd_op_get_info(first->kind)->name);
  i->parts = library ? 1 : k->parts;
  i->in_place = k->with_gradient ||
                (k->parts == 1 && (k->run_count > 0 || bd_op_get_info(first->kind)->traits &
                                                           (BD_POINTWISE | BD_INPLACE_0)));
  for (int n = 0; n < k->in_count; n++)
    use_in_call(b, call, f, k->in[n], RECORD_READ);
  for (int n = 0; n < k->out_count; n++)
    if (k->with_gradient && k->out[n] == k->in[0])
      use_gradient(b, call, f, k->out[n]);
    else
      use_in_call(b, call, f, k->out[n], k->accumulate[n] ? RECORD_UPDATE : RECORD_WRITE);
  if (k->with_gradient) use_in_main(b, bd_module_loss_gradient(b->module), RECORD_READ);
  // A place of its own behind the call's values.
  if (k->scratch && !library)
    add_use(b, RECORD_SCRATCH, number_of_call(b, call, f->value_count),
            bd_memory_scratch_bytes(b->module, f, first));
}

static void describe(const bd_module *m, const bd_function *f, const bd_op *op,
                     record_instruction *i) {
  i->in_place = bd_op_get_info(op->kind)->traits & BD_INPLACE_0;
  i->mask = bd_op_find_attr(op, "axis") ? 1 << bd_op_int(op, "axis", 0) : 0;
  i->stage = (int)bd_op_int(op, op->kind == BD_OP_SEND ? "to" : "from", -1);
  i->terms = record_terms_of(m, f, op);
}

BD_NODISCARD static bd_status check_kind(bd_ctx *ctx, const bd_op *op) {
  if (record_kind_of(op->kind) != RECORD_MARK) return BD_OK;
  return bd_fail(ctx, BD_UNSUPPORTED, op->loc, "a record knows no call for '%s'",
                 bd_op_get_info(op->kind)->name);
}

// A product that does another step's work. Its result may take the place of what is added.
static void add_product(builder *b, int call, const bd_function *f, const bd_op *op,
                        const bd_epilogue *e) {
  record_instruction *const i = add(b, RECORD_MATMUL, bd_op_get_info(op->kind)->name);
  i->in_place = e->kind == BD_RT_EPILOGUE_ADD;
  for (int n = 0; n < op->in_count; n++)
    use_in_call(b, call, f, op->in[n], RECORD_READ);
  use_in_call(b, call, f, e->out, bd_accumulates(f, e->out) ? RECORD_UPDATE : RECORD_WRITE);
  if (e->bias != BD_NO_ID) use_in_call(b, call, f, e->bias, RECORD_READ);
  if (e->other != BD_NO_ID)
    use_in_call(b, call, f, e->other, e->kind == BD_RT_EPILOGUE_GELU ? RECORD_WRITE : RECORD_READ);
  if (e->sums != BD_NO_ID) use_in_call(b, call, f, e->sums, RECORD_UPDATE);
}

BD_NODISCARD static bd_status add_library(builder *b, int call, const bd_function *f,
                                          const bd_op *op) {
  BD_TRY(check_kind(b->ctx, op));
  describe(b->module, f, op, add(b, record_kind_of(op->kind), bd_op_get_info(op->kind)->name));
  for (int n = 0; n < op->in_count; n++)
    use_in_call(b, call, f, op->in[n], RECORD_READ);
  for (int n = 0; n < op->out_count; n++)
    use_in_call(b, call, f, op->out[n],
                bd_accumulates(f, op->out[n]) ? RECORD_UPDATE : RECORD_WRITE);
  return BD_OK;
}

// The last use is of part `part` of `count` of the value.
static void narrow(builder *b, int part, int count) {
  record_use *const use = &b->e->uses[b->use_count - 1];
  use->bytes /= count;
  use->offset = part * use->bytes;
}

// A part of a product, and what sums it over ranks. Another tensor may lie where the product goes,
// which then adds to it.
static void add_part(builder *b, int call, int function, int step, int part) {
  const bd_function *const f = b->module->functions[function];
  const bd_prefetch *const p = &b->prefetch[function];
  const bd_parts *const parts = &p->beside.parts[step];
  const int other = p->beside.summed_by[step];
  const bd_op *const product = &f->ops[p->fusion.first_op[step]], *const collective =
                                                                      &f->ops[parts->collective];
  record_instruction *i = add(b, RECORD_MATMUL, bd_op_get_info(product->kind)->name);
  i->function = function;
  i->step = step;
  for (int n = 0; n < product->in_count; n++)
    use_in_call(b, call, f, product->in[n], RECORD_READ);
  if (parts->sum >= 0) {
    const bd_op *const sum = &f->ops[parts->sum];
    i->in_place = i->adds = true;
    use_in_call(b, call, f, sum->in[sum->in[0] == product->out[0]], RECORD_READ);
    narrow(b, part, parts->count);
  }
  use_in_call(b, call, f, collective->in[0], RECORD_WRITE);
  narrow(b, part, parts->count);
  i = add(b, record_kind_of(collective->kind), bd_op_get_info(collective->kind)->name);
  describe(b->module, f, collective, i);
  const int64_t share = parts->runs * parts->rows * parts->columns;
  i->terms.shape[0] = collective->kind == BD_OP_ALL_REDUCE ? share : 1;
  if (collective->kind == BD_OP_REDUCE_SCATTER) {
    i->terms.shape[1] = parts->blocks;
    i->terms.shape[2] = share;
  }
  i->function = function;
  i->step = other;
  use_in_call(b, call, f, collective->in[0], RECORD_READ);
  narrow(b, part, parts->count);
  use_in_call(b, call, f, collective->out[0], RECORD_WRITE);
  narrow(b, part, parts->count);
}

static void add_parts(builder *b, int call, int function, int step) {
  for (int part = 0; part < b->prefetch[function].beside.parts[step].count; part++)
    add_part(b, call, function, step, part);
}

// The number of the function that an op of main calls.
static int function_of(const builder *b, int call) {
  return bd_module_number(b->module, bd_module_find(b->module, b->main->ops[call].callee));
}

// The record has work of the step of this mark.
static void place(builder *b, int function, int step) {
  b->pass->instructions[b->pass->count - 1].function = function;
  b->pass->instructions[b->pass->count - 1].step = step;
}

// A product, and the kernel of the step whose work it might have done.
BD_NODISCARD static bd_status add_apart(builder *b, int call, int function, int step) {
  const bd_function *const f = b->module->functions[function];
  const bd_prefetch *const p = &b->prefetch[function];
  const int other = p->epilogues.of[step].step;
  bd_kernel kernel;
  BD_TRY(add_library(b, call, f, &f->ops[p->fusion.first_op[step]]));
  place(b, function, step);
  b->pass->instructions[b->pass->count - 1].goes_on = true;
  if (!bd_fused_kernel(b->ctx, b->module, f, &p->fusion, &b->fused[function], other, 0, &kernel))
    return bd_fail(b->ctx, BD_INTERNAL, BD_NOWHERE, "a product does what is no kernel");
  add_kernel(b, call, &kernel);
  place(b, function, step);
  return BD_OK;
}

BD_NODISCARD static bd_status add_step(builder *b, int call, int function, int step) {
  const bd_function *const f = b->module->functions[function];
  const bd_fusion *const fusion = &b->prefetch[function].fusion;
  const bd_epilogues *const epilogues = &b->prefetch[function].epilogues;
  const bd_fused *const fused = &b->fused[function];
  bd_kernel kernel;
  if (epilogues->taken[step] || bd_fused_takes(fused, step)) return BD_OK;
  if (epilogues->of[step].kind != BD_RT_EPILOGUE_NONE && b->ways->apart)
    return add_apart(b, call, function, step);
  if (epilogues->of[step].kind != BD_RT_EPILOGUE_NONE)
    add_product(b, call, f, &f->ops[fusion->first_op[step]], &epilogues->of[step]);
  else if (bd_fused_kernel(b->ctx, b->module, f, fusion, fused, step, 0, &kernel))
    add_kernel(b, call, &kernel);
  else
    BD_TRY(add_library(b, call, f, &f->ops[fusion->first_op[step]]));
  place(b, function, step);
  return BD_OK;
}

// What call `next` gathers before it begins: before step `step` of function `before`, or, where
// that is -1, with the pass.
BD_NODISCARD static bd_status add_ahead(builder *b, int next, int before, int step) {
  const int function = function_of(b, next);
  const bd_prefetch *const p = &b->prefetch[function];
  for (int k = 0; k < p->fusion.step_count; k++) {
    if (p->begin[k] != BD_PREFETCH_AHEAD) continue;
    if (before < 0 || bd_prefetch_start(b->module, b->prefetch, before, function, k) == step)
      BD_TRY(add_step(b, next, function, k));
  }
  return BD_OK;
}

BD_NODISCARD static bd_status add_call(builder *b, int call) {
  const int function = function_of(b, call), next = bd_prefetch_next(b->module, call);
  const bd_prefetch *const p = &b->prefetch[function];
  const int count = p->fusion.step_count;
  for (int position = 0; position <= count; position++) {
    const int step = position < count ? p->beside.order[position] : count;
    if (next >= 0) BD_TRY(add_ahead(b, next, function, step));
    for (int slot = 0; slot < p->beside.slot_count; slot++)
      if (p->beside.begin[p->beside.step[slot]] == step &&
          (position == count || p->beside.summed_by[step] != p->beside.step[slot]))
        BD_TRY(add_step(b, call, function, p->beside.step[slot]));
    for (int at = position + 1; at < count; at++)
      if (p->begin[p->beside.order[at]] == step)
        BD_TRY(add_step(b, call, function, p->beside.order[at]));
    if (position < count && p->beside.summed_by[step] >= 0)
      add_parts(b, call, function, step);
    else if (position < count && p->begin[step] == step && p->beside.begin[step] < 0)
      BD_TRY(add_step(b, call, function, step));
  }
  return BD_OK;
}

BD_NODISCARD static bd_status add_main_op(builder *b, const bd_op *op) {
  const bool sum = op->kind == BD_OP_ADD;
  if (!sum) BD_TRY(check_kind(b->ctx, op));
  describe(b->module, b->main, op,
           add(b, sum ? RECORD_LAUNCH : record_kind_of(op->kind), bd_op_get_info(op->kind)->name));
  const bool twice = sum && op->in[0] == op->in[1];
  for (int n = 0; n < op->in_count - twice; n++)
    use_in_main(b, op->in[n], RECORD_READ);
  for (int n = 0; n < op->out_count; n++)
    use_in_main(b, op->out[n], RECORD_WRITE);
  return BD_OK;
}

static bool is_used(const builder *b, bd_id id) {
  for (int i = 0; i < b->main->op_count; i++)
    if (b->main->ops[i].stage == b->e->stage &&
        index_of(b->main->ops[i].in, b->main->ops[i].in_count, id) >= 0)
      return true;
  return false;
}

static void add_input(builder *b, record_kind kind, bd_id id) {
  if (!is_used(b, id)) return;
  add(b, kind, record_kind_name(kind));
  use_in_main(b, id, RECORD_WRITE);
}

// What the runtime brings before a pass.
static void add_inputs(builder *b, bool backward) {
  static const record_kind kinds[] = {RECORD_TOKENS, RECORD_TARGETS, RECORD_REALS, RECORD_IDS};
  for (int i = 0; !backward && i < b->module->input_count; i++)
    add_input(b, kinds[b->module->inputs[i]], b->main->params[i]);
  if (backward != bd_fused_makes_gradient(b->module, b->fused, b->e->stage))
    add_input(b, RECORD_LOSS_GRADIENT, bd_module_loss_gradient(b->module));
}

static void add_loss(builder *b) {
  const bd_id loss = b->main->results[0];
  if (b->main->ops[b->main->values[loss].producer].stage != b->e->stage) return;
  add(b, RECORD_ADD_LOSS, record_kind_name(RECORD_ADD_LOSS));
  use_in_main(b, loss, RECORD_READ);
}

BD_NODISCARD static bd_status add_pass(builder *b, int first, int end, bool backward) {
  b->pass = backward ? &b->e->backward : &b->e->forward;
  b->capacity = 0;
  add_inputs(b, backward);
  int call = first;
  while (call < end &&
         (b->main->ops[call].kind != BD_OP_CALL || b->main->ops[call].stage != b->e->stage))
    call++;
  if (call < end) BD_TRY(add_ahead(b, call, -1, 0));
  for (int i = first; i < end; i++) {
    const bd_op *const op = &b->main->ops[i];
    if (op->stage != b->e->stage) continue;
    BD_TRY(op->kind == BD_OP_CALL ? add_call(b, i) : add_main_op(b, op));
  }
  if (!backward) add_loss(b);
  return BD_OK;
}

// Values of a micro-batch: those of main, then those of each call and its scratch.
static int number_calls(builder *b) {
  int forward_end = 0, count = b->main->value_count;
  for (int i = 0; i < b->main->op_count; i++) {
    const bd_op *const op = &b->main->ops[i];
    if (op->kind != BD_OP_CALL) continue;
    const bd_function *const f = bd_module_find(b->module, op->callee);
    if (f->role == BD_ROLE_FORWARD) forward_end = i + 1;
    b->e->call_values[i] = count;
    if (op->stage == b->e->stage) count += f->value_count + 1;
  }
  b->e->per_micro = count;
  return forward_end;
}

BD_NODISCARD static bd_status list_passes(bd_ctx *ctx, bd_schedule schedule, int stage, int stages,
                                          int micro_batches, record_expectation *out) {
  const bd_stage_pass *step;
  BD_TRY(
      bd_schedule_order(ctx, schedule, stage, stages, 1, micro_batches, &step, &out->pass_count));
  out->all_pass_count = out->pass_count + micro_batches;
  bd_stage_pass *const all = BD_NEW_ARRAY(ctx->arena, bd_stage_pass, out->all_pass_count);
  for (int i = 0; i < out->all_pass_count; i++)
    all[i] = i < out->pass_count
                 ? step[i]
                 : (bd_stage_pass){.kind = BD_PASS_FORWARD, .micro_batch = i - out->pass_count};
  out->passes = all;
  return BD_OK;
}

bd_status record_expect(bd_ctx *ctx, const bd_module *exec, bd_schedule schedule, int micro_batches,
                        int stage, const record_ways *ways, record_expectation *out) {
  *out = (record_expectation){.module = exec, .stage = stage, .micro_batches = micro_batches};
  builder b = {.ctx = ctx, .module = exec, .main = exec->main, .e = out, .ways = ways};
  out->persistent = exec->weight_count + exec->main->result_count;
  out->call_values = BD_NEW_ARRAY(ctx->arena, int, exec->main->op_count);
  BD_TRY(list_passes(ctx, schedule, stage, exec->stages, micro_batches, out));
  b.prefetch = bd_prefetch_find(ctx, exec);
  b.fused = bd_fused_find(ctx, exec, b.prefetch);
  const int forward_end = number_calls(&b);
  BD_TRY(add_pass(&b, 0, forward_end, false));
  return add_pass(&b, forward_end, exec->main->op_count, true);
}

int record_value_count(const record_expectation *e) {
  return e->persistent + e->micro_batches * e->per_micro;
}

void record_value_name(const record_expectation *e, int value, char *out, int size) {
  const bd_module *const m = e->module;
  if (value < m->weight_count) {
    snprintf(out, (size_t)size, "weight @%s", m->weights[value].name);
    return;
  }
  if (value < e->persistent) {
    const bd_id id = m->main->results[value - m->weight_count];
    snprintf(out, (size_t)size, "gradient %%%s", m->main->values[id].name);
    return;
  }
  const int micro_batch = (value - e->persistent) / e->per_micro;
  const int local = (value - e->persistent) % e->per_micro;
  if (local < m->main->value_count) {
    snprintf(out, (size_t)size, "%%%s, micro-batch %d", m->main->values[local].name, micro_batch);
    return;
  }
  int call = m->main->op_count - 1;
  while (m->main->ops[call].kind != BD_OP_CALL || m->main->ops[call].stage != e->stage ||
         e->call_values[call] > local)
    call--;
  const bd_function *const f = bd_module_find(m, m->main->ops[call].callee);
  const int id = local - e->call_values[call];
  snprintf(out, (size_t)size, "%s%s of @%s (op %d of main), micro-batch %d",
           id < f->value_count ? "%" : "", id < f->value_count ? f->values[id].name : "scratch",
           f->name, call, micro_batch);
}
