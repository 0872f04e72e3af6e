#include "codegen/fused_norm.h"
#include "codegen/touch.h"
#include "runtime/braid_rt_abi.h"

typedef struct search {
  bd_ctx *ctx;
  const bd_module *module;
  int number;
  const bd_function *function;
  const bd_prefetch *prefetch; // of all functions
  const bd_fusion *fusion;
  const bd_epilogues *epilogues;
  int *step_of; // per op
  bd_fused_norms norms;
} search;

static const bd_value *value_of(const search *s, bd_id id) {
  return &s->function->values[id];
}

static bd_stretch stretch_of(const search *s, bd_id id) {
  return bd_stretch_of(s->module, s->function, id);
}

static const bd_op *op_of(const search *s, int step, int number) {
  return &s->function->ops[s->fusion->first_op[step] + number];
}

static bool is_forward(const bd_op *op) {
  return op->kind == BD_OP_LAYERNORM || op->kind == BD_OP_RMSNORM;
}

static bool is_gradient(const bd_op *op) {
  return op->kind == BD_OP_LAYERNORM_DX || op->kind == BD_OP_RMSNORM_DX;
}

static bool is_free(const search *s, int step) {
  return !s->epilogues->taken[step] && s->epilogues->of[step].kind == BD_RT_EPILOGUE_NONE &&
         !s->norms.taken[step] && s->norms.of[step].norm < 0;
}

static bool is_pointwise(const search *s, int step) {
  return bd_op_get_info(op_of(s, step, 0)->kind)->traits & BD_POINTWISE;
}

static bd_type local_type(const search *s, bd_id id) {
  return bd_value_local_type(s->module, value_of(s, id));
}

// Whether a value lies in memory as the last dimensions of the rows do.
static bool lies_along(const search *s, bd_id id, bd_id rows) {
  const bd_mesh *mesh = &s->module->mesh;
  bd_type part = local_type(s, id), whole = local_type(s, rows);
  int first = whole.rank - part.rank;
  for (int d = 0; d < part.rank; ++d)
    if (first < 0 || part.dims[d] != whole.dims[first + d] ||
        bd_sharding_parts(mesh, &value_of(s, id)->sharding, d) !=
            bd_sharding_parts(mesh, &value_of(s, rows)->sharding, first + d))
      return false;
  return true;
}

static bool lies_as_rows(const search *s, bd_id id, bd_id rows) {
  return value_of(s, id)->type.rank == value_of(s, rows)->type.rank && lies_along(s, id, rows);
}

static bool has_form(const search *s, bd_id id, bd_id rows) {
  return lies_as_rows(s, id, rows) && value_of(s, id)->type.dtype == value_of(s, rows)->type.dtype;
}

// Whether every point of a run is one of the rows, packed as they are. Tables of constants begin
// anywhere.
static bool is_along(const search *s, int run, bd_id rows) {
  for (int i = 0; i < s->fusion->step_ops[run]; ++i) {
    const bd_op *op = op_of(s, run, i);
    if (bd_op_find_attr(op, "values")) return false;
    for (int k = 0; k < op->in_count; ++k)
      if (!lies_along(s, op->in[k], rows)) return false;
    if (!lies_as_rows(s, op->out[0], rows) || bd_accumulates(s->function, op->out[0])) return false;
  }
  return true;
}

static bool has_id(const bd_id *ids, int count, bd_id id) {
  return bd_ids_find(ids, count, id) >= 0;
}

static bool step_reads(const search *s, int step, bd_id id) {
  for (int i = 0; i < s->fusion->step_ops[step]; ++i) {
    const bd_op *op = op_of(s, step, i);
    if (has_id(op->in, op->in_count, id)) return true;
  }
  return false;
}

// The only step that reads a value, which does not outlive the call; else -1.
static int only_reader(const search *s, bd_id id) {
  const bd_function *f = s->function;
  int reader = -1;
  for (int step = 0; step < s->fusion->step_count; ++step) {
    if (!step_reads(s, step, id)) continue;
    if (reader >= 0) return -1;
    reader = step;
  }
  bool outlives = has_id(f->results, f->result_count, id) || has_id(f->saves, f->save_count, id);
  return outlives ? -1 : reader;
}

// Whether a run reads what a norm notes of its rows, which is there when a row is done.
static bool reads_statistics(const search *s, int run, int norm) {
  const bd_op *op = op_of(s, norm, 0);
  for (int k = 1; k < op->out_count; ++k)
    if (step_reads(s, run, op->out[k])) return true;
  return false;
}

// Whether one kernel may do both. What it writes lies apart, but for rows in the place of rows: one
// thread reads an element, in every pass over its row, before the same thread writes it.
static bool may_share(const search *s, const bd_kernel *k, bd_id rows) {
  for (int i = 0; i < k->out_count; ++i) {
    bd_stretch out = stretch_of(s, k->out[i]);
    for (int j = 0; j < i; ++j)
      if (bd_stretch_meet(out, stretch_of(s, k->out[j]))) return false;
    for (int j = 0; j < k->in_count; ++j) {
      bd_stretch in = stretch_of(s, k->in[j]);
      if (!bd_stretch_meet(out, in)) continue;
      if (in.start != out.start || in.end != out.end || !lies_as_rows(s, k->in[j], rows) ||
          !lies_as_rows(s, k->out[i], rows))
        return false;
    }
  }
  return true;
}

// Whether a gather that begins after step `first` and not after step `last` writes the bytes, which
// nothing needs behind the first.
static bool gather_begins(const search *s, int first, int last, bd_stretch bytes) {
  const bd_prefetch *own = &s->prefetch[s->number];
  for (int step = last + 1; step < s->fusion->step_count; ++step)
    if (own->begin[step] > first && own->begin[step] <= last &&
        bd_stretch_meet(stretch_of(s, op_of(s, step, 0)->out[0]), bytes))
      return true;
  for (int i = 0; i < s->module->function_count; ++i) {
    const bd_prefetch *next = &s->prefetch[i];
    for (int step = 0; step < next->fusion.step_count; ++step) {
      if (next->begin[step] != BD_PREFETCH_AHEAD) continue;
      const bd_function *f = s->module->functions[i];
      bd_id gathered = f->ops[next->fusion.first_op[step]].out[0];
      int begin = bd_prefetch_start(s->module, s->prefetch, s->number, i, step);
      if (begin > first && begin <= last &&
          bd_stretch_meet(bd_stretch_of(s->module, f, gathered), bytes))
        return true;
    }
  }
  return false;
}

// Whether the second step's work may be done where the first is: its operands are there, and
// nothing in between touches the bytes that it writes.
static bool may_advance(const search *s, int first, int second) {
  for (int i = 0; i < s->fusion->step_ops[second]; ++i) {
    const bd_op *op = op_of(s, second, i);
    for (int k = 0; k < op->in_count; ++k) {
      int producer = value_of(s, op->in[k])->producer;
      int step = producer < 0 ? -1 : s->step_of[producer];
      if (step > first && step != second) return false;
    }
    for (int k = 0; k < op->out_count; ++k)
      for (int step = first + 1; step < second; ++step)
        if (bd_step_touches(s->module, s->function, s->fusion, step, stretch_of(s, op->out[k])))
          return false;
  }
  return true;
}

static bool is_left_alone(const search *s, int first, int second, bd_id operand) {
  bd_stretch bytes = stretch_of(s, operand);
  for (int step = first + 1; step < second; ++step)
    if (bd_step_writes(s->module, s->function, s->fusion, step, bytes)) return false;
  return !gather_begins(s, first, second, bytes);
}

// Whether the first step's work may be done where the second is: nothing in between writes what it
// reads, or touches what it writes.
static bool may_delay(const search *s, int first, int second) {
  for (int i = 0; i < s->fusion->step_ops[first]; ++i) {
    const bd_op *op = op_of(s, first, i);
    for (int k = 0; k < op->in_count; ++k)
      if (!is_left_alone(s, first, second, op->in[k])) return false;
    for (int k = 0; k < op->out_count; ++k)
      for (int step = first + 1; step < second; ++step)
        if (step_reads(s, step, op->out[k]) ||
            bd_step_touches(s->module, s->function, s->fusion, step, stretch_of(s, op->out[k])))
          return false;
  }
  return true;
}

// Whether all steps from `first` to `second` are done in their order, and no collective that runs
// beside others begins or is waited for in between: at both steps the same ones use memory.
static bool is_undisturbed(const search *s, int first, int second) {
  const bd_beside *beside = &s->prefetch[s->number].beside;
  int position = 0;
  while (beside->order[position] != first)
    ++position;
  for (int step = first + 1; step <= second; ++step)
    if (++position >= s->fusion->step_count || beside->order[position] != step) return false;
  for (int slot = 0; slot < beside->slot_count; ++slot) {
    int begin = beside->begin[beside->step[slot]], end = beside->end[beside->step[slot]];
    if ((begin > first && begin <= second) || (end > first && end <= second)) return false;
  }
  return true;
}

// Of the two steps the one that can do the work of both, or -1. Products between them may do the
// work of steps elsewhere, which is not looked at.
static int place_of(const search *s, int first, int second) {
  if (!is_undisturbed(s, first, second)) return -1;
  for (int step = first + 1; step < second; ++step)
    if (s->epilogues->taken[step] || s->epilogues->of[step].kind != BD_RT_EPILOGUE_NONE) return -1;
  if (may_advance(s, first, second)) return first;
  return may_delay(s, first, second) ? second : -1;
}

// `rows`: the value between the two. `keeps`: it is the norm's, and others read it, too.
static void find(search *s, int norm, int run, bd_id rows, bool keeps) {
  if (!is_free(s, norm) || !is_free(s, run) || !is_pointwise(s, run) || !is_along(s, run, rows) ||
      reads_statistics(s, run, norm))
    return;
  bool before = run < norm;
  const bd_fused_norm fused = {norm, run, keeps};
  bd_kernel kernel;
  int place = before ? place_of(s, run, norm) : place_of(s, norm, run);
  if (place < 0 ||
      !bd_fused_norm_kernel(s->ctx, s->module, s->function, s->fusion, &fused, place, 0, &kernel) ||
      !may_share(s, &kernel, rows))
    return;
  s->norms.of[place] = fused;
  s->norms.taken[place == norm ? run : norm] = true;
}

// The first run behind a norm that can come along.
static void find_behind(search *s, int norm) {
  const bd_op *op = op_of(s, norm, 0);
  bool keeps = only_reader(s, op->out[0]) < 0;
  if (!has_form(s, op->in[0], op->out[0])) return;
  for (int step = norm + 1; step < s->fusion->step_count; ++step)
    if (step_reads(s, step, op->out[0])) find(s, norm, step, op->out[0], keeps);
}

void bd_fused_norm_find(bd_ctx *ctx, const bd_module *module, int function,
                        const bd_prefetch *prefetch, bd_fused_norms *out_norms) {
  search s = {.ctx = ctx,
              .module = module,
              .number = function,
              .function = module->functions[function],
              .prefetch = prefetch,
              .fusion = &prefetch[function].fusion,
              .epilogues = &prefetch[function].epilogues};
  int steps = s.fusion->step_count;
  s.step_of = BD_NEW_ARRAY(ctx->arena, int, s.function->op_count);
  s.norms = (bd_fused_norms){.of = BD_NEW_ARRAY(ctx->arena, bd_fused_norm, steps),
                             .taken = BD_NEW_ARRAY(ctx->arena, bool, steps)};
  for (int step = 0; step < steps; ++step) {
    s.norms.of[step] = (bd_fused_norm){-1, -1, false};
    for (int i = 0; i < s.fusion->step_ops[step]; ++i)
      s.step_of[s.fusion->first_op[step] + i] = step;
  }
  for (int step = 0; module->cuda && step < steps; ++step) {
    const bd_op *op = op_of(&s, step, 0);
    int producer = op->in_count ? value_of(&s, op->in[0])->producer : -1;
    if (is_forward(op) && producer >= 0) find(&s, step, s.step_of[producer], op->in[0], false);
    if (!is_gradient(op)) continue;
    int reader = only_reader(&s, op->out[0]);
    if (reader >= 0 && has_form(&s, op->in[1], op->out[0]))
      find(&s, step, reader, op->out[0], false);
    if (producer >= 0 && has_form(&s, op->in[1], op->in[0]))
      find(&s, step, s.step_of[producer], op->in[0], false);
  }
  for (int step = 0; module->cuda && step < steps; ++step)
    if (is_forward(op_of(&s, step, 0))) find_behind(&s, step);
  *out_norms = s.norms;
}

bool bd_fused_norm_kernel(bd_ctx *ctx, const bd_module *module, const bd_function *function,
                          const bd_fusion *fusion, const bd_fused_norm *fused, int step, int number,
                          bd_kernel *out_kernel) {
  bool both = fused->norm >= 0;
  if (!bd_kernel_of_step(ctx, module, function, fusion, both ? fused->norm : step, module->cuda,
                         number, out_kernel))
    return false;
  if (both) bd_kernel_add_run(ctx, fusion, fused->run, fused->keeps, out_kernel);
  return true;
}

bd_id bd_fused_norm_inner(const bd_function *function, const bd_fusion *fusion,
                          const bd_fused_norm *fused) {
  if (fused->norm < 0 || fused->run < fused->norm || fused->keeps) return BD_NO_ID;
  return function->ops[fusion->first_op[fused->norm]].out[0];
}
