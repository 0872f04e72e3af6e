// Every function of small models under random strategies: what the ranks compute together is what the
// unsharded function computes, forward and backward.
#include "frontend/frontend.h"
#include "ir/index.h"
#include "ir/partition.h"
#include "ir/partition_values.h"
#include "ir/pass.h"
#include "ir/pool.h"
#include "ir/print.h"
#include "tests/unit/ir/primitives.h"
#include "tests/unit/ir/support_spmd.h"
#include "tests/unit/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static int roll(int sides) {
  return (int)random_below((unsigned)sides);
}

static bd_module *load(bd_ctx *ctx, const char *name) {
  bd_model_options options = {.sequence = 6, .vocabulary = 11};
  bd_module *graph = NULL, *train = NULL;
  bd_status status = bd_model_load(ctx, name, &options, &graph);
  if (status == BD_OK) status = bd_pass_autodiff(ctx, graph, &train);
  bd_diags_print(ctx, stderr, false);
  assert_int_equal(status, BD_OK);
  return train;
}

static bool form_fits(const bd_mesh *mesh, const bd_type *type, int64_t batch,
                      const bd_sharding *form) {
  for (int d = 0; d < type->rank; ++d) {
    int users = 0;
    for (int axis = 0; axis < mesh->axes; ++axis)
      users += form->at[axis] == d;
    bool exact = users > 1 || type->dims[d] == BD_DIM_BATCH;
    if (exact && bd_extent(type->dims[d], batch) % bd_sharding_parts(mesh, form, d) != 0)
      return false;
  }
  return true;
}

static bd_sharding random_form(const bd_mesh *mesh, const bd_type *type, int64_t batch) {
  bd_sharding form = bd_sharding_replicated();
  for (int axis = 0; axis < mesh->axes; ++axis) {
    form.at[axis] = (int8_t)(roll(type->rank + 1) - 1);
    if (!form_fits(mesh, type, batch, &form)) form.at[axis] = BD_REPLICATED;
  }
  return form;
}

static void random_split(const bd_mesh *mesh, int64_t batch, const bd_index_map *map,
                         char letters[BD_MAX_AXES]) {
  int8_t split[BD_MAX_AXES] = {-1, -1, -1, -1};
  for (int axis = 0; axis < BD_MAX_AXES; ++axis) {
    letters[axis] = '-';
    if (axis >= mesh->axes || map->loops == 0 || roll(4) == 0) continue;
    split[axis] = (int8_t)roll(map->loops);
    if (bd_split_valid(map, mesh, batch, split)) letters[axis] = map->loop[split[axis]].letter;
    else split[axis] = -1;
  }
}

static char sample_letter(const bd_index_map *map) {
  for (int i = 0; i < map->loops; ++i)
    if (map->loop[i].extent == BD_DIM_BATCH) return map->loop[i].letter;
  return '-';
}

// Of what counts over samples, ops and forms have these cut along the same axes.
static void cut_pools(bd_ctx *ctx, const bd_mesh *mesh, const bd_function *f, unsigned axes,
                      bd_strategy *s) {
  const bool *pooled = bd_pooled_values(ctx, f, NULL);
  for (int i = 0; i < f->op_count; ++i) {
    const bd_op *op = &f->ops[i];
    bd_index_map map;
    bd_type types[BD_MAX_RESULTS];
    bool any = bd_op_pools(op);
    for (int k = 0; k < op->in_count; ++k)
      any = any || pooled[op->in[k]];
    if (!any) continue;
    assert_int_equal(bd_op_infer(ctx, f, op, &map, types), BD_OK);
    char letter = sample_letter(&map);
    assert_true(letter != '-');
    for (int axis = 0; axis < mesh->axes; ++axis) {
      char *at = &s->split[i][axis];
      *at = axes >> axis & 1u ? letter : *at == letter ? '-' : *at;
    }
  }
  for (bd_id v = 0; v < f->value_count; ++v)
    for (int axis = 0; pooled[v] && axis < mesh->axes; ++axis) {
      int8_t *at = &s->form[v].at[axis];
      *at = axes >> axis & 1u ? 0 : *at == 0 ? BD_REPLICATED : *at;
    }
}

// Axes whose ranks have equal parts of a batch.
static unsigned random_axes(const bd_mesh *mesh, int64_t batch) {
  unsigned axes = 0;
  for (int axis = 0; axis < mesh->axes; ++axis) {
    if (batch % mesh->size[axis] != 0 || roll(2) == 0) continue;
    axes |= 1u << axis;
    batch /= mesh->size[axis];
  }
  return axes;
}

static bd_strategy random_strategy(bd_ctx *ctx, const bd_mesh *mesh, int64_t batch,
                                   const bd_function *f) {
  bd_strategy s = {.name = "variant", .function = f->name};
  s.op_count = f->op_count;
  s.value_count = f->value_count;
  s.split = bd_arena_array(ctx->arena, (size_t)f->op_count, sizeof *s.split);
  s.form = BD_NEW_ARRAY(ctx->arena, bd_sharding, f->value_count);
  s.saved = BD_NEW_ARRAY(ctx->arena, bool, f->value_count);
  s.balanced = BD_NEW_ARRAY(ctx->arena, bool, f->op_count);
  for (int i = 0; i < f->op_count; ++i) {
    bd_index_map map;
    bd_type types[BD_MAX_RESULTS];
    assert_int_equal(bd_op_infer(ctx, f, &f->ops[i], &map, types), BD_OK);
    random_split(mesh, batch, &map, s.split[i]);
    s.balanced[i] = roll(2) == 0;
  }
  for (bd_id v = 0; v < f->value_count; ++v) {
    s.form[v] = random_form(mesh, &f->values[v].type, batch);
    s.saved[v] = roll(2) == 0;
  }
  cut_pools(ctx, mesh, f, random_axes(mesh, batch), &s);
  return s;
}

static bd_tensor random_tensor(bd_ctx *ctx, bd_type type, int64_t batch) {
  for (int i = 0; i < type.rank; ++i)
    type.dims[i] = bd_extent(type.dims[i], batch);
  int64_t count = bd_type_elements(&type, batch);
  bd_tensor tensor = {type, BD_NEW_ARRAY(ctx->arena, double, count)};
  for (int64_t i = 0; i < count; ++i)
    tensor.data[i] = bd_dtype_is_float(type.dtype) ? (roll(2001) - 1000) / 1000.0 : roll(11);
  return tensor;
}

typedef struct trial {
  bd_ctx *ctx;
  const bd_module *train;
  bd_module *sharded;
  const bd_function *source, *source_backward;
  bd_function *forward, *backward; // spmd
  bd_tensor *whole;                // per value of `source`
  bd_random_key key;
} trial;

static void hold(trial *t, const bd_function *spmd, bd_id id, const spmd_value *values,
                 const bd_tensor *whole) {
  double difference =
      spmd_difference(t->ctx, t->sharded, &spmd->values[id].sharding, &values[id], whole);
  if (difference > 1e-9) {
    bd_text text = bd_text_init(t->ctx->arena);
    bd_module_print(t->sharded, &text);
    print_error("%s: %%%s is off by %g\n%s", spmd->name, spmd->values[id].name, difference, text.data);
  }
  assert_true(difference <= 1e-9);
}

static spmd_value *run_forward(trial *t) {
  const bd_function *f = t->source;
  bd_tensor *in = BD_NEW_ARRAY(t->ctx->arena, bd_tensor, f->param_count), *results;
  spmd_value *parts = BD_NEW_ARRAY(t->ctx->arena, spmd_value, f->param_count);
  for (int i = 0; i < f->param_count; ++i) {
    in[i] = random_tensor(t->ctx, f->values[f->params[i]].type, t->sharded->micro_batch);
    parts[i] = spmd_scatter(t->ctx, t->sharded,
                            &t->forward->values[t->forward->params[i]].sharding, &in[i]);
  }
  assert_int_equal(
      bd_interpret_function(t->ctx, t->train, f, t->sharded->micro_batch, in, &t->key, &results, &t->whole), BD_OK);
  spmd_value *values = spmd_run(t->ctx, t->sharded, t->forward, parts, &t->key);
  for (int i = 0; i < f->result_count; ++i)
    hold(t, t->forward, t->forward->results[i], values, &results[i]);
  return values;
}

static void run_backward(trial *t, const spmd_value *saved) {
  const bd_function *b = t->source_backward, *spmd = t->backward;
  bd_tensor *in = BD_NEW_ARRAY(t->ctx->arena, bd_tensor, b->param_count), *results;
  spmd_value *parts = BD_NEW_ARRAY(t->ctx->arena, spmd_value, spmd->param_count);
  for (int i = 0; i < b->restore_count; ++i)
    in[i] = t->whole[t->source->saves[i]];
  assert_int_equal(spmd->restore_count, t->forward->save_count);
  for (int i = 0; i < spmd->restore_count; ++i) {
    parts[i] = saved[t->forward->saves[i]];
    assert_true(bd_sharding_equal(&t->forward->values[t->forward->saves[i]].sharding,
                                  &spmd->values[spmd->params[i]].sharding));
  }
  for (int i = b->restore_count, to = spmd->restore_count; i < b->param_count; ++i, ++to) {
    in[i] = random_tensor(t->ctx, b->values[b->params[i]].type, t->sharded->micro_batch);
    parts[to] =
        spmd_scatter(t->ctx, t->sharded, &spmd->values[spmd->params[to]].sharding, &in[i]);
  }
  assert_int_equal(bd_interpret_function(t->ctx, t->train, b, t->sharded->micro_batch, in, &t->key, &results, NULL), BD_OK);
  spmd_value *values = spmd_run(t->ctx, t->sharded, spmd, parts, &t->key);
  for (int i = 0; i < b->result_count; ++i)
    hold(t, spmd, spmd->results[i], values, &results[i]);
}

static int count_ops(const bd_function *f, bd_op_kind kind) {
  int count = 0;
  for (int i = 0; f && i < f->op_count; ++i)
    count += f->ops[i].kind == kind;
  return count;
}

static int balanced[2]; // trials whose ranks swap queries forward, backward

static void try_strategy(bd_ctx *ctx, const bd_module *train, const bd_function *f, bd_mesh mesh,
                         const bd_strategy *s) {
  bd_module *sharded = bd_module_create(ctx, BD_STAGE_SHARDED, "trial");
  sharded->mesh = mesh;
  sharded->stages = 1;
  sharded->micro_batch = 4;
  bd_function *forward, *backward;
  trial t = {.ctx = ctx, .train = train, .sharded = sharded, .source = f};
  t.key.seed = 5;
  bd_status status = bd_apply_strategy(ctx, train, &mesh, 4, s, &forward, &backward);
  bd_diags_print(ctx, stderr, false);
  assert_int_equal(status, BD_OK);
  bd_module_add_function(ctx, sharded, forward);
  if (backward) bd_module_add_function(ctx, sharded, backward);
  assert_int_equal(bd_partition_function(ctx, sharded, forward, &t.forward), BD_OK);
  balanced[0] += count_ops(t.forward, BD_OP_MIRROR) > 0;
  spmd_value *saved = run_forward(&t);
  if (!backward) return;
  t.source_backward = bd_module_find(train, f->peer);
  assert_int_equal(bd_partition_function(ctx, sharded, backward, &t.backward), BD_OK);
  balanced[1] += count_ops(t.backward, BD_OP_MIRROR) > 0;
  run_backward(&t, saved);
}

static void try_function(bd_ctx *ctx, const bd_module *train, const bd_function *f, bd_mesh mesh) {
  bd_strategy s = random_strategy(ctx, &mesh, 4, f);
  try_strategy(ctx, train, f, mesh, &s);
}

static bd_module *parse(bd_ctx *ctx, const char *text) {
  bd_module *graph = NULL, *train = NULL;
  bd_status status = bd_module_parse(ctx, "text", text, strlen(text), &graph);
  if (status == BD_OK) status = bd_module_verify(ctx, graph);
  if (status == BD_OK) status = bd_pass_autodiff(ctx, graph, &train);
  bd_diags_print(ctx, stderr, false);
  assert_int_equal(status, BD_OK);
  return train;
}

static void try_graph(const char *text, int tries) {
  static const bd_mesh meshes[] = {{1, {2}}, {1, {3}}, {1, {4}}, {2, {2, 2}}, {3, {2, 1, 2}}};
  random_begin(11);
  bd_ctx *ctx = bd_ctx_create();
  bd_module *train = parse(ctx, text);
  bd_arena *home = ctx->arena, *scratch = bd_ctx_create_arena(ctx);
  for (int i = 0; i < tries; ++i) {
    ctx->arena = scratch;
    try_function(ctx, train, train->functions[0], meshes[roll(5)]);
    bd_arena_reset(scratch);
    ctx->arena = home;
  }
  bd_arena_destroy(scratch);
  bd_ctx_destroy(ctx);
}

static void test_primitives(void **state) {
  (void)state;
  try_graph(pointwise_graph, 20);
  try_graph(lookup_graph, 20);
  try_graph(windows_graph, 20);
  try_graph(heads_graph, 200); // many have no loop of attention cut
  try_graph(grouped_graph, 60);
}

// Ranks that have parts of the queries swap halves of them where the strategy says so: always here,
// on one axis or on two.
static void try_queries(const char *text, const bd_mesh *meshes, int mesh_count) {
  random_begin(13);
  bd_ctx *ctx = bd_ctx_create();
  bd_module *train = parse(ctx, text);
  bd_arena *home = ctx->arena, *scratch = bd_ctx_create_arena(ctx);
  const bd_function *f = train->functions[0];
  for (int i = 0; i < 12 * mesh_count; ++i) {
    const bd_mesh *mesh = &meshes[i % mesh_count];
    int before[2] = {balanced[0], balanced[1]};
    ctx->arena = scratch;
    bd_strategy s = random_strategy(ctx, mesh, 4, f);
    for (int op = 0; op < f->op_count; ++op) {
      s.balanced[op] = true;
      if (!bd_op_attends(f->ops[op].kind)) continue;
      memset(s.split[op], '-', BD_MAX_AXES);
      for (int axis = 0; axis < mesh->axes; ++axis)
        s.split[op][axis] = axis == i / mesh_count % mesh->axes || roll(2) == 0 ? 't' : "-bk"[roll(3)];
    }
    try_strategy(ctx, train, f, *mesh, &s);
    assert_int_equal(balanced[0], before[0] + 1);
    assert_int_equal(balanced[1], before[1] + 1);
    bd_arena_reset(scratch);
    ctx->arena = home;
  }
  bd_arena_destroy(scratch);
  bd_ctx_destroy(ctx);
}

static void test_balanced_queries(void **state) {
  (void)state;
  static const bd_mesh meshes[] = {{1, {2}}, {1, {3}}, {1, {4}}, {2, {2, 2}}, {3, {2, 1, 2}}};
  try_queries(queries_graph, meshes, 4);
  try_queries(sink_queries_graph, meshes, 4);
  try_queries(dropped_queries_graph, meshes, 2);
}

static void test_random_strategies(void **state) {
  (void)state;
  static const bd_mesh meshes[] = {{1, {2}}, {1, {3}}, {1, {4}}, {2, {2, 2}}, {3, {2, 1, 2}}};
  static const char *const models[] = {"gpt2-tiny", "llama-tiny"};
  random_begin(7);
  bd_ctx *ctx = bd_ctx_create();
  for (int m = 0; m < 2; ++m) {
    bd_module *train = load(ctx, models[m]);
    bd_arena *home = ctx->arena, *scratch = bd_ctx_create_arena(ctx);
    for (int i = 0; i < 15; ++i)
      for (int f = 0; f < train->function_count; ++f) {
        if (train->functions[f]->role != BD_ROLE_FORWARD) continue;
        ctx->arena = scratch;
        try_function(ctx, train, train->functions[f], meshes[roll(5)]);
        bd_arena_reset(scratch);
        ctx->arena = home;
      }
    bd_arena_destroy(scratch);
  }
  bd_ctx_destroy(ctx);
}

// Along an axis that cuts one term of a sum, the others are cut as well; partial sums stay where all terms are partial.
static void test_sums_are_cut(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  bd_module *module = bd_module_create(ctx, BD_STAGE_SPMD, "sums");
  module->mesh = (bd_mesh){3, {2, 2, 2}};
  module->micro_batch = 4;
  const bd_type type = {.dtype = BD_F32, .rank = 2, .dims = {BD_DIM_BATCH, 8}};
  bd_sharding a = bd_sharding_replicated(), b = a;
  a.at[1] = a.at[2] = b.at[2] = BD_PARTIAL_SUM;
  b.at[0] = 1;
  bd_sharding sum = bd_sum_sharding(module, &type, 2, (const bd_sharding *const[]){&a, &b});
  assert_int_equal(sum.at[0], 1);
  assert_int_equal(sum.at[1], BD_REPLICATED);
  assert_int_equal(sum.at[2], BD_PARTIAL_SUM);
  bd_ctx_destroy(ctx);
}

static const char casts_text[] =
    "braid sharded \"casts\" {\n"
    "  mesh [2] stages 1 micro_batch 4\n"
    "  func @f(%x: bf16[B,8] sharded [1], %s: f32[B,8] sharded [0]) peer @f.grad {\n"
    "    %x.f32 = cast(%x) {dtype=\"f32\"} split [0] : f32[B,8]\n"
    "    %y.f32 = mul(%x.f32, %s) split [0] : f32[B,8]\n"
    "    %y = cast(%y.f32) {dtype=\"bf16\"} split [1] : bf16[B,8] sharded [1]\n"
    "    save %s\n"
    "    return %y\n"
    "  }\n"
    "  func @f.grad(%s: f32[B,8] sharded [0], %d.y: bf16[B,8] sharded [1]) backward peer @f restores 1 {\n"
    "    %d.y.f32 = cast(%d.y) {dtype=\"f32\"} group -1 split [-] : f32[B,8]\n"
    "    %d.x.f32 = mul(%d.y.f32, %s) group 1 split [0] : f32[B,8]\n"
    "    %d.x = cast(%d.x.f32) {dtype=\"bf16\"} group -1 split [-] : bf16[B,8]\n"
    "    return %d.x of 0\n"
    "  }\n"
    "  main(%x: bf16[B,8] sharded [1] reals, %s: f32[B,8] sharded [0] reals, %dloss: f32[] sharded [-]) {\n"
    "    %y = call @f(%x, %s) stage 0 : bf16[B,8] sharded [1]\n"
    "    return %dloss\n"
    "  }\n"
    "}\n";

// Casts of gradients are not whole because nothing splits them, and what is exchanged beside one is the narrow side.
static void test_casts_of_gradients(void **state) {
  (void)state;
  static const bd_op_kind expected[] = {BD_OP_ALL_TO_ALL, BD_OP_CAST, BD_OP_MUL, BD_OP_CAST, BD_OP_ALL_TO_ALL};
  enum { EXPECTED = sizeof expected / sizeof *expected };
  bd_ctx *ctx = bd_ctx_create();
  bd_module *sharded = NULL;
  bd_function *grad;
  bd_status status = bd_module_parse(ctx, "casts", casts_text, strlen(casts_text), &sharded);
  if (status == BD_OK)
    status = bd_partition_function(ctx, sharded, bd_module_find(sharded, "f.grad"), &grad);
  bd_diags_print(ctx, stderr, false);
  assert_int_equal(status, BD_OK);
  assert_int_equal(grad->op_count, EXPECTED);
  for (int i = 0; i < EXPECTED; i++)
    assert_int_equal(grad->ops[i].kind, expected[i]);
  bd_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_primitives), cmocka_unit_test(test_balanced_queries), cmocka_unit_test(test_casts_of_gradients),
                                     cmocka_unit_test(test_sums_are_cut),
                                     cmocka_unit_test(test_random_strategies)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
