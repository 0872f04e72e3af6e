#include "tests/unit/codegen/support_plan.h"

#include "ir/index.h"
#include <string.h>

typedef struct maker {
  bd_ctx *ctx;
  const bd_module *train;
  const plan_recipe *recipe;
  uint64_t state;
} maker;

static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 31) * 0x7fb5d329728ea185u;
  x = (x ^ x >> 27) * 0x81dadef4bc2dd44du;
  return x ^ x >> 33;
}

static int below(maker *m, int limit) {
  return (int)(mix(++m->state) % (uint64_t)limit);
}

// Whether one dimension may be cut over the axes that `form` says.
static bool form_fits(const maker *m, const bd_type *type, const bd_sharding *form) {
  for (int d = 0; d < type->rank; ++d) {
    int axes = 0, parts = bd_sharding_parts(&m->recipe->mesh, form, d);
    for (int axis = 0; axis < m->recipe->mesh.axes; ++axis)
      axes += form->at[axis] == d;
    int64_t extent = bd_extent(type->dims[d], m->recipe->micro_batch);
    bool exact = extent % parts == 0;
    if (extent < parts || (!exact && (axes > 1 || type->dims[d] == BD_DIM_BATCH))) return false;
  }
  return true;
}

// A form that depends on the type and the seed only, so that a weight has one in all functions.
static bd_sharding weight_form(maker *m, const bd_type *type) {
  bd_sharding form = bd_sharding_replicated();
  if (m->recipe->kind != PLAN_RANDOM) return form;
  uint64_t h = m->recipe->seed;
  for (int d = 0; d < type->rank; ++d)
    h = mix(h + (uint64_t)type->dims[d]);
  for (int axis = 0; axis < m->recipe->mesh.axes && type->rank > 0; ++axis) {
    h = mix(h + 1);
    int8_t kept = form.at[axis];
    form.at[axis] = (int8_t)((int)(h % (uint64_t)(type->rank + 1)) - 1);
    if (!form_fits(m, type, &form)) form.at[axis] = kept;
  }
  return form;
}

static bd_sharding value_form(maker *m, const bd_type *type) {
  bd_sharding form = bd_sharding_replicated();
  for (int axis = 0; axis < m->recipe->mesh.axes && type->rank > 0; ++axis) {
    int8_t dim = -1;
    if (m->recipe->kind == PLAN_RANDOM) dim = (int8_t)(below(m, type->rank + 1) - 1);
    for (int d = 0; m->recipe->kind == PLAN_BATCH && d < type->rank; ++d)
      if (type->dims[d] == BD_DIM_BATCH) dim = (int8_t)d;
    form.at[axis] = dim;
    if (!form_fits(m, type, &form)) form.at[axis] = BD_REPLICATED;
  }
  return form;
}

BD_NODISCARD static bd_status choose_letters(maker *m, const bd_function *f, const bd_op *op,
                                             char letters[BD_MAX_AXES]) {
  bd_index_map map;
  bd_type types[BD_MAX_RESULTS];
  int8_t split[BD_MAX_AXES] = {-1, -1, -1, -1};
  memset(letters, '-', BD_MAX_AXES);
  BD_TRY(bd_op_infer(m->ctx, f, op, &map, types));
  for (int axis = 0; axis < m->recipe->mesh.axes && map.loops > 0; ++axis) {
    int loop = -1;
    if (m->recipe->kind == PLAN_RANDOM) loop = below(m, map.loops + 1) - 1;
    for (int l = 0; m->recipe->kind == PLAN_BATCH && l < map.loops; ++l)
      if (map.loop[l].extent == BD_DIM_BATCH) loop = l;
    split[axis] = (int8_t)loop;
    if (loop < 0 || !bd_split_valid(&map, &m->recipe->mesh, m->recipe->micro_batch, split))
      split[axis] = -1;
    if (split[axis] >= 0) letters[axis] = map.loop[loop].letter;
  }
  return BD_OK;
}

static bool is_weight(const bd_function *f, bd_id value) {
  for (int i = 0; i < f->param_count; ++i)
    if (f->params[i] == value) return f->is_weight[i];
  return false;
}

BD_NODISCARD static bd_status make_strategy(maker *m, const bd_function *f, bd_strategy *out) {
  bd_arena *arena = m->ctx->arena;
  *out = (bd_strategy){.name = bd_intern_f(m->ctx, "%s.0", f->name), .function = f->name};
  out->op_count = f->op_count;
  out->value_count = f->value_count;
  out->split = bd_arena_array(arena, (size_t)f->op_count, sizeof *out->split);
  out->form = BD_NEW_ARRAY(arena, bd_sharding, f->value_count);
  out->saved = BD_NEW_ARRAY(arena, bool, f->value_count);
  for (int i = 0; i < f->op_count; ++i)
    BD_TRY(choose_letters(m, f, &f->ops[i], out->split[i]));
  for (bd_id v = 0; v < f->value_count; ++v)
    out->form[v] =
        is_weight(f, v) ? weight_form(m, &f->values[v].type) : value_form(m, &f->values[v].type);
  for (int i = 0; i < f->save_count; ++i) {
    bool random = m->recipe->kind == PLAN_RANDOM;
    bool saved = !m->recipe->recompute && (!random || below(m, 2));
    if (f->values[f->saves[i]].producer >= 0) out->saved[f->saves[i]] = saved;
  }
  return BD_OK;
}

BD_NODISCARD static bd_status make_strategies(maker *m, bd_plan *plan, int *strategy_of) {
  plan->strategies = BD_NEW_ARRAY(m->ctx->arena, bd_strategy, m->train->function_count);
  for (int i = 0; i < m->train->function_count; ++i) {
    const bd_function *f = m->train->functions[i];
    strategy_of[i] = -1;
    if (f == m->train->main || f->role != BD_ROLE_FORWARD) continue;
    strategy_of[i] = plan->strategy_count;
    BD_TRY(make_strategy(m, f, &plan->strategies[plan->strategy_count++]));
  }
  return BD_OK;
}

static void deal_layers(maker *m, bd_plan *plan, const int *strategy_of) {
  const bd_function *main = m->train->main;
  int calls = 0;
  for (int i = 0; i < main->op_count; ++i)
    calls += main->ops[i].kind == BD_OP_CALL && !bd_op_find_attr(&main->ops[i], "of");
  plan->ranges = BD_NEW_ARRAY(m->ctx->arena, bd_layer_range, calls);
  for (int call = 0; call < calls; ++call) {
    int function =
        bd_module_number(m->train, bd_module_find(m->train, main->ops[call].callee));
    int stage = call * plan->stages / calls, strategy = strategy_of[function];
    bd_layer_range *last = plan->range_count ? &plan->ranges[plan->range_count - 1] : NULL;
    if (last && last->stage == stage && last->strategy == strategy)
      last->count++;
    else
      plan->ranges[plan->range_count++] = (bd_layer_range){call, 1, strategy, stage, 0, BD_NOWHERE};
  }
}

bd_status make_plan(bd_ctx *ctx, const bd_module *train, const plan_recipe *recipe,
                    bd_plan *out_plan) {
  maker m = {ctx, train, recipe, recipe->seed << 32};
  *out_plan = (bd_plan){.model = train->name,
                        .target = "cpu",
                        .optimizer = "adamw",
                        .precision = BD_F32,
                        .global_batch = recipe->global_batch,
                        .micro_batch = recipe->micro_batch,
                        .sequence = recipe->sequence,
                        .schedule = recipe->schedule,
                        .mesh = recipe->mesh,
                        .stages = recipe->stages,
                        .threads_per_rank = 1,
                        .zero_axes = recipe->zero_axes,
                        .search = "by hand"};
  int *strategy_of = BD_NEW_ARRAY(ctx->arena, int, train->function_count);
  BD_TRY(make_strategies(&m, out_plan, strategy_of));
  deal_layers(&m, out_plan, strategy_of);
  out_plan->predicted = BD_NEW_ARRAY(ctx->arena, bd_stage_prediction, recipe->stages);
  return bd_plan_check(ctx, train, out_plan);
}
