#include "codegen/prefetch.h"
#include "codegen/touch.h"
#include "ir/memory.h"
#include "runtime/braid_rt_abi.h"

typedef struct search {
  const bd_module *module;
  const bd_function *function;
  const bd_prefetch *prefetch;
} search;

// The step at a position of the order, or the step count: the end.
static int step_at(const search *s, int position) {
  int count = s->prefetch->fusion.step_count;
  return position < count ? s->prefetch->beside.order[position] : count;
}

// The first position that is followed by `end` through steps that leave the bytes alone, as do
// collectives that run beside them.
static int begin_of(const search *s, int end, bd_stretch bytes) {
  const bd_prefetch *p = s->prefetch;
  while (end > 0 &&
         !bd_step_touches(s->module, s->function, &p->fusion, step_at(s, end - 1), bytes) &&
         !bd_beside_ends(s->module, s->function, &p->fusion, &p->beside, step_at(s, end), bytes))
    end--;
  return end;
}

// Half of the slots are for what is inside of functions, each of which has them all to itself.
static void find(const search *s, bd_prefetch *out, int *ahead) {
  int inside = out->beside.slot_count;
  for (int position = 0; position < out->fusion.step_count; ++position) {
    int step = step_at(s, position);
    const bd_op *op = &s->function->ops[out->fusion.first_op[step]];
    out->begin[step] = step;
    if (!bd_memory_gathers_weight(s->module, s->function, op) ||
        s->function->values[op->out[0]].segment != BD_SEGMENT_WORKSPACE)
      continue;
    int begin = begin_of(s, position, bd_stretch_of(s->module, s->function, op->out[0]));
    if (begin == 0 && *ahead < BD_RT_PREFETCHES) {
      out->begin[step] = BD_PREFETCH_AHEAD;
      out->slot[step] = (*ahead)++;
    } else if (begin < position && inside < BD_RT_PREFETCHES / 2) {
      out->begin[step] = step_at(s, begin);
      out->slot[step] = inside++;
    }
  }
}

static void find_beside(bd_ctx *ctx, const bd_module *module, const bd_function *function,
                        bd_prefetch *out) {
  bd_epilogue_find(ctx, module, function, &out->fusion, &out->epilogues);
  bd_beside_find(ctx, module, function, &out->fusion, &out->epilogues, BD_RT_PREFETCHES / 4,
                 &out->beside);
}

const bd_prefetch *bd_prefetch_find(bd_ctx *ctx, const bd_module *module) {
  bd_prefetch *all = BD_NEW_ARRAY(ctx->arena, bd_prefetch, module->function_count);
  int ahead = BD_RT_PREFETCHES / 2;
  for (int i = 0; i < module->function_count; ++i) {
    const bd_function *function = module->functions[i];
    bd_fuse(ctx, module, function, &all[i].fusion);
    find_beside(ctx, module, function, &all[i]);
    all[i].begin = BD_NEW_ARRAY(ctx->arena, int, all[i].fusion.step_count);
    all[i].slot = BD_NEW_ARRAY(ctx->arena, int, all[i].fusion.step_count);
    const search s = {module, function, &all[i]};
    find(&s, &all[i], &ahead);
  }
  return all;
}

int bd_prefetch_next(const bd_module *module, int call) {
  const bd_op *ops = module->main->ops;
  bd_role role = bd_module_find(module, ops[call].callee)->role;
  for (int i = call + 1; i < module->main->op_count; ++i)
    if (ops[i].kind == BD_OP_CALL && ops[i].stage == ops[call].stage)
      return bd_module_find(module, ops[i].callee)->role == role ? i : -1;
  return -1;
}

int bd_prefetch_start(const bd_module *module, const bd_prefetch *all, int before, int function,
                      int step) {
  const search s = {module, module->functions[before], &all[before]};
  const bd_function *next = module->functions[function];
  const bd_op *gather = &next->ops[all[function].fusion.first_op[step]];
  bd_stretch bytes = bd_stretch_of(module, next, gather->out[0]);
  return step_at(&s, begin_of(&s, all[before].fusion.step_count, bytes));
}
