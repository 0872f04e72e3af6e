// Placement never overlaps what lives at the same time, and a stage's bytes are those of its parts.
#include "frontend/frontend.h"
#include "ir/fuse.h"
#include "ir/index.h"
#include "ir/layout.h"
#include "ir/memory_fit.h"
#include "ir/optimizer.h"
#include "ir/partition.h"
#include "ir/pass.h"
#include "ir/print.h"
#include "runtime/braid_rt_abi.h"
#include "tests/unit/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void test_fit(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  random_begin(3);
  for (int trial = 0; trial < 500; ++trial) {
    bd_buffer b[12];
    int64_t most = 0;
    for (int i = 0; i < 12; ++i) {
      int first = (int)random_below(10), length = (int)random_below(5);
      b[i] = (bd_buffer){first, first + length, 256 * (int64_t)(1 + random_below(7)), -1};
    }
    int64_t height = bd_fit_buffers(ctx, b, 12);
    for (int i = 0; i < 12; ++i) {
      assert_true(b[i].offset_bytes >= 0 && b[i].offset_bytes + b[i].bytes <= height);
      if (b[i].offset_bytes + b[i].bytes > most) most = b[i].offset_bytes + b[i].bytes;
      for (int j = 0; j < i; ++j) {
        bool together = b[i].first <= b[j].last && b[j].first <= b[i].last;
        bool apart = b[i].offset_bytes + b[i].bytes <= b[j].offset_bytes ||
                     b[j].offset_bytes + b[j].bytes <= b[i].offset_bytes;
        assert_true(!together || apart);
      }
    }
    assert_int_equal(most, height);
  }
  bd_ctx_destroy(ctx);
}

// Data parallel over axis 0, every value saved, calls spread evenly over the stages.
static bd_plan plan_of(bd_ctx *ctx, const bd_module *train, int stages) {
  bd_plan plan = {.target = "cpu",
                  .micro_batch = 4,
                  .global_batch = 32,
                  .stages = stages,
                  .optimizer = "adamw"};
  plan.mesh = (bd_mesh){1, {2}};
  plan.strategies = BD_NEW_ARRAY(ctx->arena, bd_strategy, train->function_count);
  for (int i = 0; i < train->function_count; ++i) {
    const bd_function *f = train->functions[i];
    if (f->role != BD_ROLE_FORWARD) continue;
    bd_strategy *s = &plan.strategies[plan.strategy_count++];
    *s = (bd_strategy){.name = bd_intern_f(ctx, "%s.0", f->name), .function = f->name,
                       .op_count = f->op_count, .value_count = f->value_count};
    s->split = bd_arena_array(ctx->arena, (size_t)f->op_count, sizeof *s->split);
    s->form = BD_NEW_ARRAY(ctx->arena, bd_sharding, f->value_count);
    s->saved = BD_NEW_ARRAY(ctx->arena, bool, f->value_count);
    for (int k = 0; k < f->op_count; ++k) {
      bd_index_map map;
      bd_type types[BD_MAX_RESULTS];
      assert_int_equal(bd_op_infer(ctx, f, &f->ops[k], &map, types), BD_OK);
      memset(s->split[k], '-', BD_MAX_AXES);
      for (int loop = 0; loop < map.loops; ++loop)
        if (map.loop[loop].extent == BD_DIM_BATCH) s->split[k][0] = map.loop[loop].letter;
    }
    for (bd_id v = 0; v < f->value_count; ++v) {
      s->form[v] = bd_sharding_replicated();
      if (f->values[v].type.rank > 0 && f->values[v].type.dims[0] == BD_DIM_BATCH)
        s->form[v].at[0] = 0;
      s->saved[v] = f->values[v].producer >= 0;
    }
  }
  int calls = 0;
  for (int i = 0; i < train->main->op_count; ++i)
    if (train->main->ops[i].kind == BD_OP_CALL && !bd_op_find_attr(&train->main->ops[i], "of"))
      ++calls;
  plan.ranges = BD_NEW_ARRAY(ctx->arena, bd_layer_range, calls);
  for (int i = 0, call = 0; call < calls; ++i) {
    const bd_op *op = &train->main->ops[i];
    if (op->kind != BD_OP_CALL || bd_op_find_attr(op, "of")) continue;
    int strategy = 0;
    while (strcmp(plan.strategies[strategy].function, op->callee) != 0)
      ++strategy;
    plan.ranges[plan.range_count++] = (bd_layer_range){call, 1, strategy, call * stages / calls, 0, BD_NOWHERE};
    ++call;
  }
  return plan;
}

static int count_ops(const bd_function *f, bd_op_kind kind) {
  int count = 0;
  for (int i = 0; i < f->op_count; ++i)
    count += f->ops[i].kind == kind;
  return count;
}

// Data parallelism: the loss is reduced, nothing else; gradients of weights stay partial sums.
static void check_data_parallel(const bd_module *spmd) {
  for (int i = 0; i < spmd->function_count; ++i) {
    const bd_function *f = spmd->functions[i];
    int reduced = count_ops(f, BD_OP_ALL_REDUCE);
    assert_int_equal(count_ops(f, BD_OP_ALL_GATHER) + count_ops(f, BD_OP_REDUCE_SCATTER), 0);
    bool loss = f->role == BD_ROLE_FORWARD && f->values[f->results[0]].type.rank == 0;
    assert_int_equal(reduced, loss ? 1 : 0);
    for (int k = 0; f->role == BD_ROLE_BACKWARD && k < f->result_count; ++k)
      if (bd_accumulates(f, f->results[k]))
        assert_int_equal(f->values[f->results[k]].sharding.at[0], BD_PARTIAL_SUM);
  }
}

static void check_layout(const bd_module *spmd, const bd_layout *layout) {
  const bd_function *main = spmd->main;
  int64_t total = 0;
  for (int s = 0; s < BD_SEGMENT_COUNT; ++s)
    total += layout->memory.bytes[s];
  assert_int_equal(total, layout->memory.total_bytes);
  for (bd_id a = 0; a < main->value_count; ++a) {
    const bd_place *p = &layout->values[a];
    if (p->segment == BD_SEGMENT_NONE) continue;
    int64_t end = p->offset_bytes + bd_memory_value_bytes(spmd, &main->values[a]);
    int64_t last = end + (layout->in_flight - 1) * p->slot_bytes;
    assert_true(last <= layout->memory.bytes[p->segment]);
    for (bd_id b = 0; b < a; ++b) {
      const bd_place *q = &layout->values[b];
      if (q->segment != p->segment || (p->slot_bytes > 0) != (q->slot_bytes > 0)) continue;
      int64_t q_end = q->offset_bytes + bd_memory_value_bytes(spmd, &main->values[b]);
      assert_true(end <= q->offset_bytes || q_end <= p->offset_bytes);
    }
  }
  for (int i = 0; i < main->op_count; ++i)
    for (int k = 0; main->ops[i].stage == layout->stage && k < main->ops[i].in_count; ++k)
      assert_int_not_equal(layout->values[main->ops[i].in[k]].segment, BD_SEGMENT_NONE);
}

// GPU programs hold the libraries' workspace and, of every message they send, a copy for each stage
// that it goes on or back; attention needs no tiles, its gradient a number per query.
static void check_gpu_buffers(const bd_module *spmd, const bd_layout *layout) {
  int64_t sends = 0;
  for (int i = 0; i < spmd->main->op_count; ++i) {
    const bd_op *op = &spmd->main->ops[i];
    if (op->kind == BD_OP_SEND && op->stage == layout->stage)
      sends += bd_schedule_copies(op->stage, (int)bd_op_int(op, "to", -1)) *
               bd_memory_value_bytes(spmd, &spmd->main->values[op->in[0]]);
  }
  assert_int_equal(layout->memory.bytes[BD_SEGMENT_LIBRARY], spmd->cuda ? 32 << 20 : 0);
  assert_int_equal(layout->memory.bytes[BD_SEGMENT_SENDS], spmd->cuda ? sends : 0);
  for (int i = 0; spmd->cuda && i < spmd->function_count; ++i)
    for (int k = 0; k < spmd->functions[i]->op_count; ++k) {
      const bd_op *op = &spmd->functions[i]->ops[k];
      int64_t scratch = bd_memory_scratch_bytes(spmd, spmd->functions[i], op);
      if (op->kind != BD_OP_ATTENTION_GRAD) assert_int_equal(scratch, 0);
      // 2 samples on this rank, 6 queries, 4 heads.
      if (op->kind == BD_OP_ATTENTION_GRAD) assert_int_equal(scratch, bd_align(2 * 6 * 4 * 4));
    }
}

// Gradients of saved logits take the logits' place on the tape.
static int count_reuses(const bd_module *spmd) {
  int count = 0;
  for (int i = 0; i < spmd->function_count; ++i) {
    const bd_function *f = spmd->functions[i];
    for (int k = 0; k < f->op_count; ++k) {
      if (f->ops[k].kind != BD_OP_XENT_GRAD) continue;
      const bd_value *logits = &f->values[f->ops[k].in[0]], *dlogits = &f->values[f->ops[k].out[0]];
      assert_int_equal(logits->segment, BD_SEGMENT_TAPE);
      assert_int_equal(dlogits->segment, BD_SEGMENT_TAPE);
      assert_int_equal(dlogits->offset_bytes, logits->offset_bytes);
      ++count;
    }
  }
  return count;
}

static void test_stages(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  static const char *const models[] = {"gpt2-tiny", "llama-tiny"};
  for (int m = 0; m < 2; ++m)
    for (int run = 0; run < 6; ++run) {
      int stages = 1 + run / 2;
      bd_model_options options = {.sequence = 6, .vocabulary = 11};
      bd_module *graph, *train, *sharded, *spmd;
      assert_int_equal(bd_model_load(ctx, models[m], &options, &graph), BD_OK);
      assert_int_equal(bd_pass_autodiff(ctx, graph, &train), BD_OK);
      bd_plan plan = plan_of(ctx, train, stages);
      plan.target = run % 2 ? "cuda" : "cpu";
      bd_status status = bd_apply_plan(ctx, train, &plan, &sharded);
      if (status == BD_OK) status = bd_module_verify(ctx, sharded);
      if (status == BD_OK) status = bd_partition(ctx, sharded, &spmd);
      if (status == BD_OK) status = bd_module_verify(ctx, spmd);
      bd_diags_print(ctx, stderr, false);
      assert_int_equal(status, BD_OK);
      check_data_parallel(spmd);
      assert_int_equal(count_ops(spmd->main, BD_OP_SEND), count_ops(spmd->main, BD_OP_RECV));
      for (int stage = 0; stage < stages; ++stage) {
        bd_layout layout;
        assert_int_equal(bd_layout_of_stage(ctx, spmd, stage, BD_SCHEDULE_1F1B, 8, "adamw", 1, &layout),
                         BD_OK);
        check_layout(spmd, &layout);
        check_gpu_buffers(spmd, &layout);
      }
      assert_int_equal(count_reuses(spmd), 1);
      spmd->stage = BD_STAGE_EXEC; // whose verifier looks at places
      status = bd_module_verify(ctx, spmd);
      spmd->stage = BD_STAGE_SPMD;
      bd_diags_print(ctx, stderr, false);
      assert_int_equal(status, BD_OK);
      bd_text text = bd_text_init(ctx->arena), again = bd_text_init(ctx->arena);
      bd_module *parsed = NULL;
      bd_module_print(spmd, &text);
      status = bd_module_parse(ctx, "spmd", text.data, text.length, &parsed);
      bd_diags_print(ctx, stderr, false);
      assert_int_equal(status, BD_OK);
      bd_module_print(parsed, &again);
      assert_string_equal(text.data, again.data);
    }
  bd_ctx_destroy(ctx);
}

// Two products, one after the other, each with a weight of 64 KiB that lies in parts.
static const char gathering[] =
    "braid spmd \"two\" {\n"
    "  mesh [2] stages 1 micro_batch 8 cuda\n"
    "  weight @a : f32[128,128] stored \"a\" [128,128] init zeros\n"
    "  weight @b : f32[128,128] stored \"b\" [128,128] init zeros\n"
    "  func @two.0(%x: f32[B,128] sharded [-] at boundary+0, %a: f32[128,128] sharded [0] at weights+0 weight, "
    "%b: f32[128,128] sharded [0] at weights+0 weight) {\n"
    "    %1 = all_gather(%a) {axis=0, dim=0} : f32[128,128] sharded [-]\n"
    "    %2 = contract(%x, %1) {rule=\"bi,io->bo\"} split [-] : f32[B,128] sharded [-]\n"
    "    %3 = all_gather(%b) {axis=0, dim=0} : f32[128,128] sharded [-]\n"
    "    %4 = contract(%2, %3) {rule=\"bi,io->bo\"} split [-] : f32[B,128] sharded [-]\n"
    "    %5 = reduce_sum(%4) {rule=\"AB->\"} split [-] : f32[] sharded [-] at boundary+0\n"
    "    return %5\n"
    "  }\n"
    "  main(%x: f32[B,128] sharded [-] reals, %a: f32[128,128] sharded [0] weight, "
    "%b: f32[128,128] sharded [0] weight, %dloss: f32[] sharded [-]) {\n"
    "    %y = call @two.0(%x, %a, %b) stage 0 : f32[] sharded [-]\n"
    "    return %y\n"
    "  }\n"
    "}\n";

static bd_module *parse_module(bd_ctx *ctx, const char *text) {
  bd_module *module = NULL;
  bd_status status = bd_module_parse(ctx, "module", text, strlen(text), &module);
  bd_diags_print(ctx, stderr, false);
  assert_int_equal(status, BD_OK);
  return module;
}

// Weights share their bytes until there is room; the room is never exceeded.
static void test_early(void **state) {
  (void)state;
  enum { WEIGHT = 128 * 128 * 4, VALUE = 8 * 128 * 4 };
  bd_ctx *ctx = bd_ctx_create();
  bd_module *module = parse_module(ctx, gathering);
  bd_function *f = module->functions[0];
  const bd_value *first = &f->values[f->ops[0].out[0]], *second = &f->values[f->ops[2].out[0]];
  int64_t height;
  assert_int_equal(bd_memory_place_workspace(ctx, module, f, &height), BD_OK);
  assert_int_equal(height, WEIGHT + 2 * VALUE);
  assert_int_equal(first->offset_bytes, second->offset_bytes);
  bd_memory_place_early(ctx, module, f, 2 * WEIGHT + VALUE - 1);
  assert_int_equal(first->offset_bytes, second->offset_bytes);
  // What is read last lies where the first weight was, or apart from both.
  const bd_value *last = &f->values[f->ops[3].out[0]];
  bd_memory_place_early(ctx, module, f, 2 * WEIGHT + 2 * VALUE - 1);
  assert_int_not_equal(first->offset_bytes, second->offset_bytes);
  assert_int_equal(last->offset_bytes, first->offset_bytes);
  bd_memory_place_early(ctx, module, f, 2 * WEIGHT + 2 * VALUE);
  assert_int_equal(first->offset_bytes, 0);
  assert_int_equal(second->offset_bytes, WEIGHT);
  assert_true(last->offset_bytes >= 2 * WEIGHT);
  assert_true(bd_memory_gathers_weight(module, f, &f->ops[0]));
  assert_false(bd_memory_gathers_weight(module, f, &f->ops[1]));
  module->cuda = false;
  assert_false(bd_memory_gathers_weight(module, f, &f->ops[0]));
  bd_ctx_destroy(ctx);
}

// The gradient of an input that is summed over the ranks, and a product for the gradient of a
// weight, which reads what has the size of that sum.
static const char summing[] =
    "braid spmd \"one\" {\n"
    "  mesh [2] stages 1 micro_batch 8 cuda\n"
    "  weight @w : f32[128,128] stored \"w\" [128,128] init zeros\n"
    "  func @f(%x: f32[B,128] sharded [-] at boundary+0, %w: f32[128,128] sharded [1] at weights+0 weight) "
    "peer @f.grad {\n"
    "    %y = contract(%x, %w) {rule=\"bi,io->bo\"} split [2] : f32[B,128] sharded [1]\n"
    "    %part = reduce_sum(%y) {rule=\"AB->\"} split [1] : f32[] sharded [sum]\n"
    "    %loss = all_reduce(%part) {axis=0, combiner=\"sum\"} : f32[] sharded [-] at boundary+0\n"
    "    save %x, %w\n"
    "    return %loss\n"
    "  }\n"
    "  func @f.grad(%x: f32[B,128] sharded [-] at boundary+0, %w: f32[128,128] sharded [1] at weights+0 weight, "
    "%d: f32[] sharded [-] at boundary+0) backward peer @f restores 2 {\n"
    "    %wide = broadcast(%d) {rule=\"->AB\", dims=[-1,128]} split [1] : f32[B,128] sharded [1]\n"
    "    %copy = permute(%x) {rule=\"AB->AB\"} split [-] : f32[B,128] sharded [-]\n"
    "    %part = contract(%wide, %w) {rule=\"bo,io->bi\"} split [1] : f32[B,128] sharded [sum]\n"
    "    %dw = contract(%copy, %wide) {rule=\"bi,bo->io\"} split [2] : f32[128,128] sharded [1] at gradients+0\n"
    "    %sum = all_reduce(%part) {axis=0, combiner=\"sum\"} : f32[B,128] sharded [-]\n"
    "    %dx = scale(%sum) {value=1.0} split [-] : f32[B,128] sharded [-] at boundary+0\n"
    "    return %dx of 0, %dw of 1\n"
    "  }\n"
    "  main(%x: f32[B,128] sharded [-] reals, %w: f32[128,128] sharded [1] weight, %dloss: f32[] sharded [-]) {\n"
    "    %loss = call @f(%x, %w) stage 0 : f32[] sharded [-]\n"
    "    return %loss\n"
    "  }\n"
    "}\n";

// The sum takes the place of what has been read until there is room beside it.
static void test_beside(void **state) {
  (void)state;
  enum { VALUE = 8 * 128 * 4, SUM = 4 };
  bd_ctx *ctx = bd_ctx_create();
  bd_module *module = parse_module(ctx, summing);
  bd_function *f = module->functions[1];
  const bd_value *copy = &f->values[f->ops[1].out[0]], *sum = &f->values[f->ops[SUM].out[0]];
  const int64_t tight = 2 * VALUE + VALUE / 2; // %wide is cut
  int64_t height;
  assert_int_equal(bd_memory_place_workspace(ctx, module, f, &height), BD_OK);
  assert_int_equal(height, tight);
  assert_int_equal(copy->offset_bytes, sum->offset_bytes);
  bd_memory_place_early(ctx, module, f, tight);
  assert_int_equal(copy->offset_bytes, sum->offset_bytes);
  bd_memory_place_early(ctx, module, f, tight + VALUE - 1);
  assert_int_equal(copy->offset_bytes, sum->offset_bytes);
  bd_memory_place_early(ctx, module, f, tight + VALUE);
  assert_int_not_equal(copy->offset_bytes, sum->offset_bytes);
  assert_true(bd_memory_runs_beside(module, f, &f->ops[SUM]));
  assert_false(bd_memory_runs_beside(module, f, &f->ops[SUM - 1]));
  module->cuda = false;
  assert_false(bd_memory_runs_beside(module, f, &f->ops[SUM]));
  bd_ctx_destroy(ctx);
}

static void test_abi(void **state) {
  (void)state;
  assert_int_equal(BD_ATTENTION_SCRATCH_BYTES, bd_rt_attention_workspace_bytes());
  assert_int_equal(BD_MOST_BIASES, BD_RT_ATTENTION_PLACES);
  assert_int_equal(BD_SEGMENT_COUNT, BD_RT_SEGMENTS);
  assert_int_equal(BD_ALIGNMENT, BD_RT_ALIGNMENT);
}

static void test_in_flight(void **state) {
  (void)state;
  assert_int_equal(bd_schedule_in_flight(BD_SCHEDULE_GPIPE, 0, 4, 8), 8);
  assert_int_equal(bd_schedule_in_flight(BD_SCHEDULE_1F1B, 0, 4, 8), 4);
  assert_int_equal(bd_schedule_in_flight(BD_SCHEDULE_1F1B, 3, 4, 8), 1);
  bd_schedule_phases phases = bd_schedule_get_phases(BD_SCHEDULE_1F1B, 1, 4, 8);
  assert_int_equal(phases.warmup, 2);
  assert_int_equal(phases.steady, 6);
  assert_int_equal(phases.cooldown, 2);
}

// A half has 4 bytes of master beside the moments; the update reads and writes weight, gradient and state.
static void test_optimizer_bytes(void **state) {
  (void)state;
  assert_int_equal(bd_optimizer_state_bytes("adamw", BD_MASTERS_F32, BD_F32), 8);
  assert_int_equal(bd_optimizer_state_bytes("adamw", BD_MASTERS_F32, BD_BF16), 12);
  assert_int_equal(bd_optimizer_state_bytes("sgd", BD_MASTERS_F32, BD_F32), 0);
  assert_int_equal(bd_optimizer_state_bytes("sgd", BD_MASTERS_F32, BD_BF16), 4);
  assert_int_equal(bd_optimizer_state_bytes("momentum", BD_MASTERS_F32, BD_F32), 4);
  bd_mesh mesh = {2, {3, 2}};
  bd_type matrix = bd_type_make(BD_BF16, 3, (int64_t[]){10, 25, 4}), vector = {BD_F32, 1, {7}};
  bd_state_form flat = {bd_sharding_replicated(), 3}, cut = flat;
  cut.form.at[0] = 1, cut.form.at[1] = 0, cut.parts = 1;
  assert_int_equal(bd_memory_optimizer_bytes("adamw", BD_MASTERS_F32, &mesh, &matrix, &flat),
                   bd_align(334 * 12));
  // Rows and columns as alike as dimensions allow, [10 x 100] here; the part is [5 x 9 x 4].
  assert_int_equal(bd_optimizer_factor_dim(&matrix), 1);
  assert_int_equal(bd_memory_optimizer_bytes("adafactor", BD_MASTERS_F32, &mesh, &matrix, &flat),
                   bd_align(334 * 4 + (10 + 100 + 4) * 4));
  assert_int_equal(bd_memory_optimizer_bytes("adafactor", BD_MASTERS_F32, &mesh, &matrix, &cut),
                   bd_align(5 * 9 * 4 * 4 + (5 + 36 + 4) * 4));
  assert_int_equal(bd_memory_optimizer_bytes("adafactor", BD_MASTERS_F32, &mesh, &vector, &flat),
                   bd_align((7 + 4) * 4));
  assert_int_equal(bd_memory_update_bytes("adamw", BD_MASTERS_F32, BD_F32, BD_F32), 2 * (4 + 4 + 8));
  assert_int_equal(bd_memory_update_bytes("adamw", BD_MASTERS_F32, BD_BF16, BD_F32), 2 * (2 + 4 + 12));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_fit), cmocka_unit_test(test_stages),
                                     cmocka_unit_test(test_optimizer_bytes),
                                     cmocka_unit_test(test_early), cmocka_unit_test(test_beside),
                                     cmocka_unit_test(test_abi), cmocka_unit_test(test_in_flight)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
