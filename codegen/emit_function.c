// One C function per variant of a layer function.
#include "codegen/emit.h"
#include "ir/pitch.h"
#include "runtime/braid_rt_abi.h"
#include <assert.h>
#include <ctype.h>
#include <string.h>

static bool draws(const bd_function *function, int first, int count) {
  for (int i = first; i < first + count; ++i)
    if (bd_op_get_info(function->ops[i].kind)->traits & BD_RANDOM) return true;
  return false;
}

bool bd_emit_uses_random(const bd_function *function) {
  return draws(function, 0, function->op_count);
}

static bool uses_segment(const bd_function *function, bd_segment segment) {
  for (bd_id v = 0; v < function->value_count; ++v)
    if (function->values[v].segment == segment) return true;
  return false;
}

bool bd_emit_uses_tape(const bd_function *function) {
  return uses_segment(function, BD_SEGMENT_TAPE);
}

bool bd_emit_uses_workspace(const bd_function *function) {
  for (int i = 0; i < function->op_count; ++i)
    if (bd_op_find_attr(&function->ops[i], "scratch")) return true;
  return uses_segment(function, BD_SEGMENT_WORKSPACE);
}

bool bd_emit_is_passed(const bd_function *function, int index) {
  return function->values[function->params[index]].segment != BD_SEGMENT_TAPE;
}

bool bd_emit_makes_gradient(const bd_emitter *emitter, int number) {
  return emitter->fused[number].losses.any;
}

bool bd_emit_begins_ahead(const bd_emitter *emitter, int number, int step) {
  const bd_module *module = emitter->module;
  if (!module->cuda) return false;
  for (int i = 0; i < module->main->op_count; ++i) {
    const bd_op *op = &module->main->ops[i];
    if (op->kind != BD_OP_CALL || op->stage != emitter->layout.stage ||
        bd_module_find(module, op->callee) != module->functions[number])
      continue;
    int call = bd_prefetch_next(module, i);
    if (call < 0) continue;
    int next = bd_module_number(module, bd_module_find(module, module->main->ops[call].callee));
    const bd_prefetch *prefetch = &emitter->prefetch[next];
    for (int k = 0; k < prefetch->fusion.step_count; ++k)
      if (prefetch->begin[k] == BD_PREFETCH_AHEAD &&
          (step < 0 || bd_prefetch_start(module, emitter->prefetch, number, next, k) == step))
        return true;
  }
  return false;
}

static bool is_of_name(char c) {
  return isalnum((unsigned char)c) || c == '_';
}

// Whether a name stands in the text by itself.
static bool holds_name(const bd_text *text, const char *name) {
  size_t length = strlen(name);
  for (const char *at = text->data; (at = strstr(at, name)); at += length)
    if ((at == text->data || !is_of_name(at[-1])) && !is_of_name(at[length])) return true;
  return false;
}

static void add_signature(const bd_emit_body *body, int number) {
  const bd_function *f = body->function;
  bd_text *text = body->text;
  bd_text_addf(text, "static void f%d(bd_rt *rt", number);
  if (bd_emit_uses_random(f)) bd_text_add(text, ", const bd_rt_random *random");
  for (int i = 0; i < f->param_count; ++i)
    if (bd_emit_is_passed(f, i)) bd_text_addf(text, ", void *v%d", f->params[i]);
  for (int i = 0; i < f->result_count; ++i)
    bd_text_addf(text, ", void *v%d", f->results[i]);
  if (bd_emit_uses_tape(f)) bd_text_add(text, ", char *tape");
  if (bd_emit_uses_workspace(f)) bd_text_add(text, ", char *work");
  if (bd_emit_makes_gradient(body->emitter, number)) bd_text_add(text, ", void *dloss");
  if (bd_emit_begins_ahead(body->emitter, number, -1))
    bd_text_add(text, ", const bd_rt_gather *ahead");
  bd_text_add(text, ") {\n");
}

static void add_unless_held(const bd_text *statements, const char *name, bd_text *unused) {
  if (!holds_name(statements, name))
    bd_text_addf(unused, "%s(void)%s", unused->length ? ", " : "", name);
}

// Parameters that the statements do without: a weight that an earlier call gathers, say, or the
// workspace of values that are never stored.
static void add_unused(const bd_emit_body *body, const bd_text *statements) {
  const bd_function *f = body->function;
  bd_text unused = bd_text_init(body->emitter->ctx->arena);
  for (int i = 0; i < f->param_count + f->result_count; ++i) {
    bool is_param = i < f->param_count;
    bd_id v = is_param ? f->params[i] : f->results[i - f->param_count];
    if (!is_param || bd_emit_is_passed(f, i))
      add_unless_held(statements, bd_intern_f(body->emitter->ctx, "v%d", v), &unused);
  }
  if (bd_emit_uses_tape(f)) add_unless_held(statements, "tape", &unused);
  if (bd_emit_uses_workspace(f)) add_unless_held(statements, "work", &unused);
  if (unused.length) bd_text_addf(body->text, "  %s;\n", unused.data);
}

static void add_local_type(const bd_emit_body *body, bd_id id) {
  const bd_value *value = &body->function->values[id];
  bd_type local = bd_value_local_type(body->emitter->module, value);
  int64_t strides[BD_MAX_RANK];
  bd_value_strides(body->emitter->module, body->function, id, strides);
  bd_text_addf(body->text, "%s[", bd_dtype_name(local.dtype));
  for (int d = 0; d < local.rank; ++d)
    bd_text_addf(body->text, "%s%lld", d ? "," : "", (long long)local.dims[d]);
  bd_text_add(body->text, "]");
  if (local.rank >= 2 && strides[local.rank - 2] != local.dims[local.rank - 1])
    bd_text_addf(body->text, ", rows %lld apart", (long long)strides[local.rank - 2]);
}

// The steps of the function being written.
typedef struct steps {
  int function; // its number
  bd_fusion fusion;
  bd_epilogues epilogues;
  const bd_fused *fused;
  int beside[BD_RT_PREFETCHES]; // per slot: the instruction of a collective that runs beside others
} steps;

static bd_emit_ops ops_of(const steps *s, int step) {
  return (bd_emit_ops){s->fusion.first_op[step], s->fusion.step_ops[step]};
}

static void mark_used(const bd_function *f, bd_emit_ops ops, bool *used) {
  for (int i = ops.first; i < ops.first + ops.count; ++i) {
    for (int k = 0; k < f->ops[i].in_count; ++k)
      used[f->ops[i].in[k]] = true;
    for (int k = 0; k < f->ops[i].out_count; ++k)
      used[f->ops[i].out[k]] = true;
  }
}

// Values on the tape and in the workspace get a pointer each, when a step touches them: not a
// product that adds to another tensor in its place.
static void add_pointers(const bd_emit_body *body, const steps *s) {
  const bd_function *f = body->function;
  const bd_beside *beside = &body->emitter->prefetch[s->function].beside;
  bool *used = BD_NEW_ARRAY(body->emitter->ctx->arena, bool, f->value_count);
  for (int step = 0; step < s->fusion.step_count; ++step)
    if (!s->fused->losses.taken[step]) mark_used(f, ops_of(s, step), used);
  for (int step = 0; step < s->fusion.step_count; ++step) {
    bd_id inner = bd_fused_norm_inner(f, &s->fusion, &s->fused->norms.of[step]);
    if (inner != BD_NO_ID) used[inner] = false;
    if (beside->summed_by[step] >= 0 && beside->parts[step].sum >= 0)
      used[f->ops[s->fusion.first_op[step]].out[0]] = false;
  }
  for (bd_id v = 0; v < f->value_count; ++v) {
    const bd_value *value = &f->values[v];
    bool tape = value->segment == BD_SEGMENT_TAPE;
    if (!used[v] || (!tape && value->segment != BD_SEGMENT_WORKSPACE)) continue;
    bd_text_addf(body->text, "  void *const v%d = %s + %lld; // ", v, tape ? "tape" : "work",
                 (long long)value->offset_bytes);
    add_local_type(body, v);
    bd_text_add(body->text, "\n");
  }
}

BD_NODISCARD static bd_status add_kernel_step(const bd_emit_body *body, const steps *s, int step) {
  bd_emitter *e = body->emitter;
  bd_kernel kernel;
  int number = e->step_kernel[s->function][step];
  bool generated = bd_fused_kernel(e->ctx, e->module, body->function, &s->fusion, s->fused, step,
                                   number, &kernel);
  assert(generated);
  (void)generated;
  bd_text buffers = bd_text_init(e->ctx->arena);
  for (int i = 0; i < kernel.in_count; ++i)
    bd_text_addf(&buffers, "%sv%d", i ? ", " : "", kernel.in[i]);
  for (int i = 0; i < kernel.out_count; ++i)
    bd_text_addf(&buffers, "%sv%d", i + kernel.in_count ? ", " : "", kernel.out[i]);
  const bd_op *first = &body->function->ops[kernel.first_op];
  if (kernel.scratch)
    bd_text_addf(&buffers, ", work + %lld", (long long)bd_op_int(first, "scratch", 0));
  if (kernel.with_gradient) bd_text_add(&buffers, ", dloss");
  bool random = draws(body->function, kernel.first_op, kernel.op_count) ||
                draws(body->function, kernel.run_op, kernel.run_count);
  if (e->module->cuda) bd_emit_attend(body, first);
  bd_text_add(body->text, "  ");
  const bd_emit_call call = {.first_op = kernel.first_op,
                             .number = number,
                             .parts = kernel.parts,
                             .buffer_count = kernel.in_count + kernel.out_count + kernel.scratch +
                                             kernel.with_gradient,
                             .buffers = buffers.data,
                             .random = random ? "random" : "NULL"};
  return bd_emit_kernel_call(e, body->text, body->function, &call);
}

// Lines of a block, further in.
static void add_indented(bd_text *text, const bd_text *lines) {
  for (size_t at = 0, end; at < lines->length; at = end) {
    for (end = at; lines->data[end++] != '\n';)
      ;
    bd_text_add(text, "  ");
    bd_text_add_n(text, lines->data + at, end - at);
  }
}

// A product that does the work of another step, whose kernel is there for libraries that cannot.
BD_NODISCARD static bd_status add_epilogue_step(const bd_emit_body *body, const steps *s,
                                                int step) {
  const bd_epilogue *epilogue = &s->epilogues.of[step];
  const bd_op *product = &body->function->ops[s->fusion.first_op[step]];
  bd_text apart = bd_text_init(body->emitter->ctx->arena);
  const bd_emit_body block = {body->emitter, body->function, &apart, body->fetched};
  bd_emit_mark(body->emitter, body->text, s->function, step, body->function, ops_of(s, step),
               ops_of(s, epilogue->step));
  bd_emit_epilogue(body, product, epilogue);
  bd_text_add(body->text, " {\n");
  BD_TRY(bd_emit_library_op(&block, product));
  BD_TRY(add_kernel_step(&block, s, epilogue->step));
  add_indented(body->text, &apart);
  bd_text_add(body->text, "  }\n");
  return BD_OK;
}

// A step by itself, a normalization and a run in the order of their ops, or a loss and the
// log-sum-exp before it.
static void mark_step(const bd_emit_body *body, const steps *s, int step) {
  const bd_fused_norm *fused = &s->fused->norms.of[step];
  const int lse = s->fused->losses.lse[step];
  bd_emit_ops ops = ops_of(s, step), more = {0, 0};
  if (fused->norm >= 0) {
    bool before = fused->run < fused->norm;
    ops = ops_of(s, before ? fused->run : fused->norm);
    more = ops_of(s, before ? fused->norm : fused->run);
  } else if (lse >= 0) {
    more = ops;
    ops = ops_of(s, lse);
  }
  bd_emit_mark(body->emitter, body->text, s->function, step, body->function, ops, more);
}

BD_NODISCARD static bd_status add_step(const bd_emit_body *body, const steps *s, int step) {
  if (s->epilogues.taken[step] || bd_fused_takes(s->fused, step)) return BD_OK;
  bd_text_add(body->text, "  ");
  if (s->epilogues.of[step].kind != BD_RT_EPILOGUE_NONE) return add_epilogue_step(body, s, step);
  mark_step(body, s, step);
  if (body->emitter->step_kernel[s->function][step] >= 0) return add_kernel_step(body, s, step);
  return bd_emit_library_op(body, &body->function->ops[s->fusion.first_op[step]]);
}

// The gather of a step that begins here; a later call waits for it.
static void add_prefetch(const bd_emit_body *body, const steps *s, int step, int slot) {
  bd_emitter *e = body->emitter;
  bd_text_add(body->text, "  ");
  bd_emit_mark(e, body->text, s->function, step, body->function, ops_of(s, step),
               (bd_emit_ops){0, 0});
  bd_text_add(body->text, "  ");
  bd_emit_prefetch(e, body->text, body->function, &body->function->ops[s->fusion.first_op[step]],
                   slot);
}

static void add_ahead(const bd_emit_body *body, int function, int step) {
  if (bd_emit_begins_ahead(body->emitter, function, step))
    bd_text_addf(body->text, "  bd_rt_ahead(rt, ahead, %d);\n", step);
}

// Whether a collective begins in the parts of a step, which may be the end.
static bool is_summed_by(const bd_beside *beside, const steps *s, int step, int collective) {
  return step < s->fusion.step_count && beside->summed_by[step] == collective;
}

// A product in parts, each of which is summed over ranks beside the next.
static void add_cut_step(const bd_emit_body *body, steps *s, int step) {
  bd_emitter *e = body->emitter;
  const bd_beside *beside = &e->prefetch[s->function].beside;
  const int other = beside->summed_by[step];
  const bd_op *product = &body->function->ops[s->fusion.first_op[step]];
  const bd_emit_part part = {product, &body->function->ops[s->fusion.first_op[other]],
                             &beside->parts[step]};
  int slot = 0;
  while (beside->step[slot] != other)
    slot++;
  bd_emit_ops sum = part.parts->sum < 0 ? (bd_emit_ops){0, 0} : (bd_emit_ops){part.parts->sum, 1};
  int own = bd_emit_instruction(e, s->function, step, body->function, ops_of(s, step), sum);
  s->beside[slot] = bd_emit_instruction(e, s->function, other, body->function, ops_of(s, other),
                                        (bd_emit_ops){0, 0});
  bd_text_addf(body->text, "  for (int64_t part = 0; part < %d; ++part) {\n", part.parts->count);
  bd_text_addf(body->text, "    bd_rt_mark(rt, %d);\n", own);
  bd_emit_contract_part(body, &part);
  bd_text_addf(body->text, "    bd_rt_mark(rt, %d);\n    bd_rt_beside(rt, %d);\n  ",
               s->beside[slot], slot);
  bd_emit_collective_part(body, &part);
  bd_text_add(body->text, "    bd_rt_beside_end(rt);\n  }\n");
}

// Collectives that begin before a step and go on beside it.
BD_NODISCARD static bd_status add_beside(const bd_emit_body *body, steps *s, int step) {
  const bd_beside *beside = &body->emitter->prefetch[s->function].beside;
  for (int slot = 0; slot < beside->slot_count; ++slot) {
    int other = beside->step[slot];
    if (beside->begin[other] != step || is_summed_by(beside, s, step, other)) continue;
    bd_text_add(body->text, "  ");
    s->beside[slot] = bd_emit_mark(body->emitter, body->text, s->function, other, body->function,
                                   ops_of(s, other), (bd_emit_ops){0, 0});
    bd_text_addf(body->text, "  bd_rt_beside(rt, %d);\n", slot);
    BD_TRY(bd_emit_library_op(body, &body->function->ops[s->fusion.first_op[other]]));
    bd_text_add(body->text, "  bd_rt_beside_end(rt);\n");
  }
  return BD_OK;
}

// The wait for them before a step, which is their time.
static void add_waits(const bd_emit_body *body, const steps *s, int step) {
  const bd_beside *beside = &body->emitter->prefetch[s->function].beside;
  for (int slot = 0; slot < beside->slot_count; ++slot)
    if (beside->end[beside->step[slot]] == step)
      bd_text_addf(body->text, "  bd_rt_mark(rt, %d);\n  bd_rt_await(rt, %d);\n", s->beside[slot],
                   slot);
}

// Steps in order; gathers and collectives beside others begin as early as they may.
BD_NODISCARD static bd_status add_steps(const bd_emit_body *body, steps *s) {
  const bd_prefetch *prefetch = &body->emitter->prefetch[s->function];
  const int count = s->fusion.step_count;
  for (int position = 0; position < count; ++position) {
    int step = prefetch->beside.order[position];
    add_waits(body, s, step);
    add_ahead(body, s->function, step);
    BD_TRY(add_beside(body, s, step));
    for (int at = position + 1; at < count; ++at) {
      int later = prefetch->beside.order[at];
      if (prefetch->begin[later] == step) add_prefetch(body, s, later, prefetch->slot[later]);
    }
    if (prefetch->begin[step] != step)
      bd_text_addf(body->text, "  bd_rt_await(rt, %d);\n", prefetch->slot[step]);
    else if (prefetch->beside.summed_by[step] >= 0)
      add_cut_step(body, s, step);
    else if (prefetch->beside.begin[step] < 0)
      BD_TRY(add_step(body, s, step));
  }
  add_waits(body, s, count);
  add_ahead(body, s->function, count);
  return BD_OK;
}

bd_status bd_emit_function(bd_emitter *emitter, int function) {
  bd_text statements = bd_text_init(emitter->ctx->arena);
  const bd_function *f = emitter->module->functions[function];
  bool *fetched = BD_NEW_ARRAY(emitter->ctx->arena, bool, f->value_count);
  const bd_emit_body whole = {emitter, f, emitter->text, fetched},
                     body = {emitter, f, &statements, fetched};
  steps s = {.function = function,
             .fusion = emitter->prefetch[function].fusion,
             .epilogues = emitter->prefetch[function].epilogues,
             .fused = &emitter->fused[function]};
  BD_TRY(bd_emit_kernels(emitter, function));
  add_pointers(&body, &s);
  BD_TRY(add_steps(&body, &s));
  bd_text_addf(whole.text, "\n// %s.\n", f->role == BD_ROLE_BACKWARD ? "Backward" : "Forward");
  add_signature(&whole, function);
  add_unused(&whole, &statements);
  bd_text_add_n(whole.text, statements.data, statements.length);
  bd_text_add(whole.text, "  bd_rt_mark(rt, BD_RT_MARK_OTHER);\n}\n");
  return BD_OK;
}
