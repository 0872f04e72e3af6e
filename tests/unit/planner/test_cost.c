// Costs by their sizes: parts never take less than their share, times never fall with bytes, and
// published measurements that no constant is fitted to one by one are met within bounds.
#include "frontend/frontend.h"
#include "frontend/transformer.h"
#include "ir/pass.h"
#include "planner/cost/cost.h"
#include "planner/cost/kernel.h"
#include "planner/step/behind.h"
#include "planner/step/end.h"
#include "runtime/braid_rt_abi.h"
#include "tests/unit/context.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static bd_ctx *ctx;

static int open(void **state) {
  int failed = make_ctx(state);
  ctx = *state;
  return failed;
}

static bd_cluster load(const char *spec) {
  bd_cluster out;
  assert_int_equal(bd_cluster_load(ctx, spec, &out), BD_OK);
  return out;
}

static bd_cost_model model_of(const bd_cluster *cluster, int outer, int inner) {
  return (bd_cost_model){cluster, {2, {outer, inner}}, 1};
}

static const char *const specs[] = {"v100:4x8",     "a100-80gb:4x8", "h100:4x8",
                                    "rtx-4090:4x8", "cpu:4x8",       "mixed:4x8"};
enum { SPECS = sizeof specs / sizeof *specs };

typedef double (*collective)(const bd_cost_model *, int, double);

static void hold_shape(const bd_cost_model *model, collective cost) {
  for (int axis = 0; axis < 2; axis++) {
    double last = 0;
    assert_true(model->mesh.size[axis] > 1 || cost(model, axis, 1e6) == 0);
    for (double bytes = 1; bytes < 1e11; bytes *= 1.7) {
      double whole = cost(model, axis, bytes), half = cost(model, axis, bytes / 2);
      assert_true(whole >= last);
      assert_true(whole <= 2 * half * (1 + 1e-12)); // in one piece rather than in two
      last = whole;
    }
  }
}

// All-reduce is a reduce-scatter and an all-gather, or better, and never less than one of them.
static void test_collectives(void **unused) {
  (void)unused;
  static const int meshes[][2] = {{1, 32}, {4, 8}, {8, 4}, {16, 2}, {32, 1}, {3, 5}, {2, 3}};
  for (int s = 0; s < SPECS; s++) {
    bd_cluster cluster = load(specs[s]);
    for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++) {
      bd_cost_model model = model_of(&cluster, meshes[m][0], meshes[m][1]);
      hold_shape(&model, bd_cost_all_reduce);
      hold_shape(&model, bd_cost_exchange);
      hold_shape(&model, bd_cost_all_to_all);
      hold_shape(&model, bd_cost_mirror);
      for (int axis = 0; axis < 2; axis++)
        for (double bytes = 1e6; bytes < 1e11; bytes *= 10) {
          double all = bd_cost_all_reduce(&model, axis, bytes);
          double half = bd_cost_exchange(&model, axis, bytes);
          assert_true(all >= half && all <= 2 * half * (1 + 1e-12));
        }
    }
  }
}

// Along all axes of a mesh a collective takes as long as along a mesh of one axis; along axes with
// others between them no less than along the farther one and no more than one after the other.
static void test_several_axes(void **unused) {
  (void)unused;
  for (int s = 0; s < SPECS; s++) {
    bd_cluster cluster = load(specs[s]);
    bd_cost_model flat = {&cluster, {1, {32}}, 1}, cut = {&cluster, {3, {4, 2, 4}}, 1};
    for (double bytes = 8; bytes < 1e10; bytes *= 10) {
      assert_true(bd_cost_all_reduce_over(&cut, 7, bytes) == bd_cost_all_reduce(&flat, 0, bytes));
      assert_true(bd_cost_exchange_over(&cut, 7, bytes) == bd_cost_exchange(&flat, 0, bytes));
      assert_true(bd_cost_exchange_over(&cut, 2, bytes) == bd_cost_exchange(&cut, 1, bytes));
      assert_true(bd_cost_exchange_over(&cut, 0, bytes) == 0);
      double outer = bd_cost_exchange(&cut, 0, bytes), inner = bd_cost_exchange(&cut, 2, bytes);
      double both = bd_cost_exchange_over(&cut, 5, bytes);
      assert_true(both >= fmax(bd_cost_exchange(&cut, 0, bytes / 4), inner) * (1 - 1e-12));
      assert_true(both <= (outer + inner) * (1 + 1e-12));
    }
  }
}

// A replicated weight of `rows` times 4096 bytes, from the sum of its gradient on, which a product
// of `product` seconds makes.
static bd_weight_end end_of(const bd_cost_model *model, int64_t rows, bool split, double product,
                            bool read_once) {
  bd_value weight = {.type = bd_type_make(BD_F32, 2, (int64_t[]){rows, 1024}),
                     .sharding = bd_sharding_replicated()};
  bd_value gradient = weight;
  for (int axis = 0; axis < model->mesh.axes; axis++)
    gradient.sharding.at[axis] = BD_PARTIAL_SUM;
  unsigned axes = split ? (1u << model->mesh.axes) - 1 : 0;
  return bd_step_end_of_weight(model, "adamw", BD_MASTERS_F32, &weight, &gradient, axes, product,
                               read_once);
}

static double weight_seconds(const bd_cost_model *model, int64_t rows) {
  bd_weight_end end = end_of(model, rows, true, 0, false);
  return end.each + end.once;
}

// On GPUs what is summed in a bucket starts once; on CPUs every weight does. However the mesh is
// made up, it is the same program.
static void test_buckets(void **unused) {
  (void)unused;
  assert_int_equal(BD_STEP_BUCKET_BYTES, BD_RT_BUCKET_BYTES);
  int64_t rows = BD_STEP_BUCKET_BYTES / 4096;
  for (int s = 0; s < SPECS; s++) {
    bd_cluster cluster = load(specs[s]);
    bd_cost_model flat = {&cluster, {1, {8}}, 1}, cut = {&cluster, {3, {2, 2, 2}}, 1};
    double bucket = weight_seconds(&flat, rows), part = 64 * weight_seconds(&flat, rows / 64);
    assert_true(weight_seconds(&cut, rows) == bucket);
    double kernels = 63 * 3 * cluster.kernel_seconds; // clearing, the norm, the update
    if (cluster.gpu)
      assert_true(fabs(part - bucket - kernels) < 1e-9 * bucket);
    else
      assert_true(part > bucket + kernels + 63 * 7 * cluster.intra.latency_seconds);
    assert_true(weight_seconds(&flat, 2 * rows) < 2 * bucket);
  }
}

// Behind its products a sum on GPUs is hidden but for a part; beyond them not at all.
static void test_sums_behind_backward(void **unused) {
  (void)unused;
  bd_cluster gpu = load("h100:2x8"), exposed = load("a100-80gb-2021:2x8"), cpu = load("cpu:2x8");
  bd_cost_model model = {&gpu, {1, {16}}, 1};
  assert_true(bd_step_behind(&model, 8, 100) == 1);
  assert_true(bd_step_behind(&model, 8, 1) == 6);
  assert_true(bd_step_behind(&model, 8, 0) == 8);
  gpu.work.gradients_exposed = 0.5;
  assert_true(bd_step_behind(&model, 8, 100) == 4);
  model.cluster = &exposed;
  assert_true(bd_step_behind(&model, 8, 100) == 8);
  model.cluster = &cpu;
  assert_true(bd_step_behind(&model, 8, 100) == 8);
}

// A gather of what was updated in parts is hidden behind one product, where one call reads it.
static void test_gathers_behind_forward(void **unused) {
  (void)unused;
  bd_cluster gpu = load("h100:2x8"), cpu = load("cpu:2x8");
  bd_cost_model model = {&gpu, {1, {16}}, 1};
  assert_true(bd_step_behind_forward(&model, 8, 100) == 1);
  assert_true(bd_step_behind_forward(&model, 8, 1) == 7);
  assert_true(bd_step_behind_forward(&model, 8, 0) == 8);
  int64_t rows = BD_STEP_BUCKET_BYTES / 4096;
  double gather = bd_cost_exchange_over(&model, 1, BD_STEP_BUCKET_BYTES);
  bd_weight_end several = end_of(&model, rows, true, 1, false),
                once = end_of(&model, rows, true, 1, true);
  assert_true(once.each == several.each);
  assert_true(fabs(several.once - once.once - gather * 7 / 8) < 1e-9 * gather);
  assert_true(fabs(several.apply - once.apply - gather * 7 / 8) < 1e-9 * gather);
  assert_true(end_of(&model, rows, true, 0, true).once == several.once);
  assert_true(end_of(&model, rows, false, 1, true).once ==
              end_of(&model, rows, false, 0, false).once);
  model.cluster = &cpu;
  assert_true(end_of(&model, rows, true, 1, true).once ==
              end_of(&model, rows, true, 0, false).once);
}

// A ring within a node is no slower than one of as many ranks over nodes; many ranks of a node
// together reach another node faster than one of each.
static void test_where_rings_lie(void **unused) {
  (void)unused;
  for (int s = 0; s < SPECS; s++) {
    bd_cluster cluster = load(specs[s]);
    bd_cost_model near = model_of(&cluster, 8, 4), far = model_of(&cluster, 4, 8);
    for (double bytes = 1e3; bytes < 1e10; bytes *= 10) {
      assert_true(bd_cost_all_reduce(&near, 1, bytes) <= bd_cost_all_reduce(&far, 0, bytes));
      assert_true(bd_cost_exchange(&near, 1, bytes) <= bd_cost_exchange(&far, 0, bytes));
    }
  }
  bd_cluster many = load("a100-80gb:64x8");
  bd_cost_model spread = model_of(&many, 64, 8), packed = model_of(&many, 8, 64);
  bd_link one = bd_cost_link(&spread, 0), eight = bd_cost_link(&packed, 1);
  assert_true(one.bytes_per_second == many.inter.bytes_per_second);
  assert_true(eight.bytes_per_second == 8 * many.inter.bytes_per_second);
  // Trees between nodes: a short message takes a logarithm of latencies.
  assert_true(bd_cost_all_reduce(&spread, 0, 8) < 2 * 7 * many.inter.latency_seconds);
}

// All-reduce over the 8 devices of an H200 node, bus bandwidth in GB/s by payload, NCCL 2.27.7
// (docs/costs.md).
static void test_measured_all_reduce(void **unused) {
  (void)unused;
  static const struct {
    double bytes, rate;
  } measured[] = {{1048576.0, 39.9e9},   {4194304.0, 107e9},   {16777216.0, 220e9},
                  {67108864.0, 347e9},   {268435456.0, 436e9}, {1073741824.0, 464e9},
                  {17179869184.0, 482e9}};
  bd_cluster cluster = load("h200:1x8");
  bd_cost_model model = model_of(&cluster, 1, 8);
  for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
    double seconds = 2 * 7.0 / 8 * measured[i].bytes / measured[i].rate;
    double predicted = bd_cost_all_reduce(&model, 1, measured[i].bytes);
    assert_true(fabs(predicted / seconds - 1) < 0.25);
  }
}

// Square products in fp16 on an A100, TFLOP/s by size (docs/costs.md). The preset's rate is that of
// the slowest device of a node, the shape of the curve is the same.
static void test_measured_products(void **unused) {
  (void)unused;
  static const double measured[][2] = {{512, 23.8},   {1024, 99.9},  {1536, 181.5}, {2048, 204.6},
                                       {2560, 246.4}, {3072, 239.9}, {3584, 265.2}, {4096, 264.2}};
  enum { COUNT = sizeof measured / sizeof *measured };
  bd_cluster cluster = load("a100-80gb:1x1");
  double sum = 0, ratio[COUNT];
  for (int i = 0; i < COUNT; i++) {
    double n = measured[i][0];
    bd_product product = {1, n, n, n};
    double seconds =
        bd_cost_product(&cluster, cluster.flops.bf16, &product) + cluster.kernel_seconds;
    ratio[i] = 2 * n * n * n / seconds / (measured[i][1] * 1e12);
    sum += ratio[i];
  }
  assert_true(sum / COUNT < 1 && sum / COUNT > 0.88);
  for (int i = 0; i < COUNT; i++)
    assert_true(fabs(ratio[i] / (sum / COUNT) - 1) < 0.25);
}

// Products run at the rate of their operands: a V100 has units for f16, none for bf16.
static void test_rates_by_operands(void **unused) {
  (void)unused;
  static const bd_dtype dtypes[] = {BD_F32, BD_F16};
  static const int8_t split[BD_MAX_AXES] = {-1, -1, -1, -1};
  bd_cluster v100 = load("v100:1x1");
  bd_cost_model model = model_of(&v100, 1, 1);
  double seconds[2];
  for (int d = 0; d < 2; d++) {
    bd_function *f = bd_function_create(ctx, "f");
    bd_index_map map;
    bd_type types[BD_MAX_RESULTS], type = {dtypes[d], 2, {4096, 4096}};
    bd_id product,
        in[] = {bd_function_add_param(ctx, f, "x", type), bd_function_add_param(ctx, f, "y", type)};
    bd_attr rule = bd_attr_string(ctx, "rule", "ab,bc->ac");
    assert_int_equal(bd_build(ctx, f, BD_OP_CONTRACT, 2, in, 1, &rule, BD_NOWHERE, &product),
                     BD_OK);
    assert_int_equal(bd_op_infer(ctx, f, &f->ops[0], &map, types), BD_OK);
    seconds[d] = bd_cost_op(&model, f, &f->ops[0], &map, split) - v100.kernel_seconds;
  }
  double ratio = v100.flops.f16 / v100.flops.f32;
  assert_true(ratio > 4 && fabs(seconds[0] / seconds[1] / ratio - 1) < 1e-12);
  assert_true(load("mixed:2x1").flops.f16 == v100.flops.f16);
}

// An op that multiplies `tokens` rows by a square matrix in bf16, marked for 8 bits or not.
static bd_function *square_product(int64_t tokens, int64_t width, bool marked, bd_index_map *map) {
  bd_function *f = bd_function_create(ctx, "f");
  bd_type types[BD_MAX_RESULTS], x = {BD_BF16, 2, {tokens, width}},
                                 w = {BD_BF16, 2, {width, width}};
  bd_id product,
      in[] = {bd_function_add_param(ctx, f, "x", x), bd_function_add_param(ctx, f, "w", w)};
  bd_attr attrs[] = {bd_attr_string(ctx, "rule", "ab,bc->ac"),
                     bd_attr_string(ctx, "fp8", "e4m3,e4m3")};
  assert_int_equal(bd_build(ctx, f, BD_OP_CONTRACT, 2, in, 1 + marked, attrs, BD_NOWHERE, &product),
                   BD_OK);
  assert_int_equal(bd_op_infer(ctx, f, &f->ops[0], map, types), BD_OK);
  return f;
}

// What is marked for 8 bits takes the lesser of both, and stays in bf16 where rounding the factors
// takes more than it saves.
static void test_marked_products(void **unused) {
  (void)unused;
  static const struct {
    const char *cluster;
    int64_t tokens, width;
    int ranks; // that the columns are cut over
    bool stays;
  } cases[] = {
      {"h100:1x8", 16384, 8192, 1, false}, {"h100:1x8", 16384, 8192, 8, true},
      {"h100:1x8", 16384, 512, 1, true},   {"h100:1x8", 128, 8192, 1, true},
      {"h100:1x8", 16384, 8200, 1, true},  {"cpu:1x8", 128, 512, 1, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bd_cluster cluster = load(cases[i].cluster);
    bd_cost_model model = {&cluster, {1, {cases[i].ranks}}, 1};
    bd_index_map map, plain_map;
    bd_function *f = square_product(cases[i].tokens, cases[i].width, true, &map);
    bd_function *plain = square_product(cases[i].tokens, cases[i].width, false, &plain_map);
    int8_t split[BD_MAX_AXES] = {(int8_t)bd_index_find(&map, 'c'), -1, -1, -1};
    double marked = bd_cost_arithmetic(&model, f, &f->ops[0], &map, split);
    double bf16 = bd_cost_arithmetic(&model, plain, &plain->ops[0], &plain_map, split);
    double chosen = bd_cost_choose_arithmetic(&model, f, &f->ops[0], &map, split);
    bd_cut_product cut = bd_cost_cut_product(&model, f, &f->ops[0], &map, split);
    bool stays = bd_cost_prefers_bf16(&model, f, &f->ops[0], &map, split);
    assert_false(bd_cost_prefers_bf16(&model, plain, &plain->ops[0], &plain_map, split));
    assert_int_equal(stays, cases[i].stays);
    assert_true(chosen == (stays ? bf16 : marked) && chosen <= marked && chosen <= bf16);
    assert_int_equal(isfinite(cut.start_seconds), stays);
    double as_marked = bd_cost_op(&model, f, &f->ops[0], &map, split);
    double lesser = bd_cost_choose_op(&model, f, &f->ops[0], &map, split);
    assert_true(lesser <= as_marked && as_marked >= marked);
    assert_int_equal(lesser < as_marked, chosen < marked);
    // Under a strategy the mark is final.
    double behind;
    memcpy(f->ops[0].split, split, sizeof split);
    f->ops[0].group = 0;
    assert_int_equal(bd_step_product_of(ctx, &model, f, f->ops[0].out[0], &behind), BD_OK);
    assert_true(behind == as_marked);
  }
}

// Whatever is cut of a product, a part takes its share or more.
static void test_parts_of_products(void **unused) {
  (void)unused;
  bd_cluster cluster = load("h100:1x1");
  for (int parts = 1; parts <= 64; parts *= 2)
    for (int which = 0; which < 4; which++) {
      bd_product whole = {64, 4096, 12288, 2048}, part = whole;
      *(which == 0   ? &part.count
        : which == 1 ? &part.rows
        : which == 2 ? &part.columns
                     : &part.terms) /= parts;
      assert_true(parts * bd_cost_product(&cluster, 1e12, &part) >=
                  bd_cost_product(&cluster, 1e12, &whole) * (1 - 1e-12));
    }
}

static void hold_share(const bd_function *f, const bd_op *op, const bd_cluster *cluster) {
  bd_index_map map;
  bd_type types[BD_MAX_RESULTS];
  int8_t split[BD_MAX_AXES] = {-1, -1, -1, -1};
  assert_int_equal(bd_op_infer(ctx, f, op, &map, types), BD_OK);
  bd_cost_model whole = {cluster, {1, {1}}, 8}, parted = {cluster, {1, {2}}, 8};
  double seconds = bd_cost_op(&whole, f, op, &map, split);
  for (int loop = 0; loop < map.loops; loop++) {
    if (!bd_split_allowed(&map, &parted.mesh, 8, 0, loop)) continue;
    split[0] = (int8_t)loop;
    assert_true(2 * bd_cost_op(&parted, f, op, &map, split) >= seconds * (1 - 1e-12));
  }
}

static void test_parts_of_ops(void **unused) {
  (void)unused;
  static const char *const models[] = {"gpt2-tiny", "llama-tiny"};
  static const char *const clusters[] = {"a100-80gb:1x1", "a100-80gb-2021:1x1", "cpu:1x1"};
  for (int m = 0; m < 2; m++) {
    bd_module *graph, *train;
    bd_model_options options = {0};
    assert_int_equal(bd_model_load(ctx, models[m], &options, &graph), BD_OK);
    assert_int_equal(bd_pass_autodiff(ctx, graph, &train), BD_OK);
    for (int c = 0; c < 3; c++) {
      bd_cluster cluster = load(clusters[c]);
      cluster.work.transcendental_seconds = 1e-9;
      for (int k = 0; k < train->function_count; k++)
        for (int i = 0; i < train->functions[k]->op_count; i++)
          hold_share(train->functions[k], &train->functions[k]->ops[i], &cluster);
    }
  }
}

// A product of rows in groups: x, or what comes in its place, and the other factor; marked for 8
// bits where it has a grain.
static bd_function *grouped_product(bd_op_kind kind, bool transposed, int64_t groups, int64_t c,
                                    int64_t grain) {
  bd_function *f = bd_function_create(ctx, "f");
  bool weights = kind == BD_OP_GROUPED_CONTRACT_DW;
  int64_t wide = c / 2 * 3;
  bd_type x = {BD_BF16, 3, {BD_DIM_BATCH, 2048, transposed ? wide : c}};
  bd_type y = {BD_BF16, 3, {BD_DIM_BATCH, 2048, wide}}, w = {BD_BF16, 3, {groups, c, wide}};
  bd_type ends = {BD_I32, 2, {BD_DIM_BATCH, groups}};
  bd_id made, in[] = {bd_function_add_param(ctx, f, "x", x),
                      bd_function_add_param(ctx, f, "o", weights ? y : w),
                      bd_function_add_param(ctx, f, "ends", ends)};
  bd_attr attrs[] = {bd_attr_int(ctx, "transpose", 1), bd_attr_int(ctx, "grain", grain),
                     bd_attr_string(ctx, "fp8", weights ? "e4m3,e5m2" : "e4m3,e4m3")};
  int first = !transposed, count = grain ? 2 : 0;
  assert_int_equal(
      bd_build(ctx, f, kind, 3, in, transposed + count, attrs + first, BD_NOWHERE, &made), BD_OK);
  return f;
}

// A product for each group, of the rows of all samples: the arithmetic is that of the rows, and
// launches, edges and the traffic of matrices come with every group, however many samples there are.
static void test_grouped_products(void **unused) {
  (void)unused;
  static const int8_t split[BD_MAX_AXES] = {-1, -1, -1, -1};
  bd_cluster cluster = load("h100:1x2");
  for (int way = 0; way < 3; way++) {
    bd_op_kind kind = way == 2 ? BD_OP_GROUPED_CONTRACT_DW : BD_OP_GROUPED_CONTRACT;
    double before = 0;
    for (int64_t groups = 1; groups <= 64; groups *= 4) {
      bd_function *f = grouped_product(kind, way == 1, groups, 1024, 0);
      bd_index_map map;
      bd_type types[BD_MAX_RESULTS];
      bd_cost_model model = {&cluster, {1, {1}}, 8}, half = {&cluster, {1, {1}}, 4};
      assert_int_equal(bd_op_infer(ctx, f, &f->ops[0], &map, types), BD_OK);
      double seconds = bd_cost_op(&model, f, &f->ops[0], &map, split);
      double floor = 2.0 * 8 * 2048 * 1024 * 1536 / cluster.flops.bf16;
      assert_true(seconds > floor + (double)groups * cluster.kernel_seconds);
      assert_true(seconds > before + 0.7 * (double)groups * cluster.kernel_seconds);
      double of_half = bd_cost_op(&half, f, &f->ops[0], &map, split);
      assert_true(of_half < seconds && 2 * of_half > seconds * (1 - 1e-12));
      hold_share(f, &f->ops[0], &cluster);
      before = seconds;
    }
  }
}

// Marked products of groups take the lesser of both: 8 bits where groups are long, bf16 where one
// sample's rows are few for each matrix, and where groups do not begin at multiples of 16.
static void test_marked_groups(void **unused) {
  (void)unused;
  static const struct {
    int64_t samples, groups, width, grain;
    bool stays;
  } cases[] = {{8, 1, 8192, 128, false}, {8, 1, 8192, 8, true}, {1, 64, 1024, 16, true}};
  static const int8_t split[BD_MAX_AXES] = {-1, -1, -1, -1};
  bd_cluster cluster = load("h100:1x1");
  for (int way = 0; way < 3; way++)
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
      bd_op_kind kind = way == 2 ? BD_OP_GROUPED_CONTRACT_DW : BD_OP_GROUPED_CONTRACT;
      const int64_t groups = cases[i].groups, c = cases[i].width;
      bd_function *f = grouped_product(kind, way == 1, groups, c, cases[i].grain);
      bd_function *plain = grouped_product(kind, way == 1, groups, c, 0);
      bd_index_map map;
      bd_type types[BD_MAX_RESULTS];
      bd_cost_model model = {&cluster, {1, {1}}, cases[i].samples};
      assert_int_equal(bd_op_infer(ctx, f, &f->ops[0], &map, types), BD_OK);
      double marked = bd_cost_arithmetic(&model, f, &f->ops[0], &map, split);
      double bf16 = bd_cost_arithmetic(&model, plain, &plain->ops[0], &map, split);
      double chosen = bd_cost_choose_arithmetic(&model, f, &f->ops[0], &map, split);
      assert_int_equal(bd_cost_prefers_bf16(&model, f, &f->ops[0], &map, split), cases[i].stays);
      assert_true(chosen == (cases[i].stays ? bf16 : marked) && chosen <= marked);
      // Of factors that are rounded all numbers are read twice and written once.
      double rows = (double)cases[i].samples * 2048, width = (double)c, wide = width * 1.5;
      double factors = way == 2 ? rows * (width + wide)
                                : rows * (way ? wide : width) + (double)groups * width * wide;
      double rounding = factors * 5 / cluster.memory_bytes_per_second;
      assert_true(cases[i].stays || marked > rounding + 2 * rows * width * wide / cluster.flops.f8);
      hold_share(plain, &plain->ops[0], &cluster);
    }
}

// Small products run beside one another: in the mean one takes less than by itself, and never less
// than its share of one that is larger; large ones do not.
static void test_products_beside(void **unused) {
  (void)unused;
  bd_cluster cluster = load("h100:1x1");
  double rate = cluster.flops.bf16;
  for (double rows = 16; rows <= 65536; rows *= 2) {
    bd_product one = {1, rows, 2048, 1024}, two = {1, 2 * rows, 2048, 1024};
    double alone = bd_cost_product(&cluster, rate, &one);
    double beside = bd_cost_product_beside(&cluster, rate, &one);
    assert_true(2 * beside >= bd_cost_product_beside(&cluster, rate, &two) * (1 - 1e-12));
    assert_true(beside <= alone && beside >= 2 * rows * 2048 * 1024 / rate);
    assert_true(rows > 256 || beside < 0.7 * alone);
    assert_true(rows < 16384 || beside == alone);
  }
}

// Of those that are in 8 bits whole and in bf16 in parts, too.
static void test_parts_of_marked_products(void **unused) {
  (void)unused;
  bd_cluster cluster = load("h100:1x2");
  for (int64_t tokens = 128; tokens <= 65536; tokens *= 2)
    for (int64_t width = 256; width <= 16384; width *= 2) {
      bd_index_map map;
      bd_function *f = square_product(tokens, width, true, &map);
      hold_share(f, &f->ops[0], &cluster);
    }
}

// Scores that go through memory cost more than attention in one kernel, and dropout adds to them.
static void test_materialized_attention(void **unused) {
  (void)unused;
  bd_cluster cluster = load("a100-80gb-2021:1x1");
  for (double keys = 512; keys <= 8192; keys *= 2)
    for (int forward = 0; forward < 2; forward++) {
      bd_attention a = {forward, 64, keys, keys, 128, 128, false, 2};
      double seconds = bd_cost_attention_materialized(&cluster, cluster.flops.bf16, &a);
      double flops = (forward ? 4 : 8) * a.heads * keys * keys * a.width;
      assert_true(seconds > 2 * flops / cluster.flops.bf16);
      a.dropout = true;
      assert_true(bd_cost_attention_materialized(&cluster, cluster.flops.bf16, &a) > seconds);
      a.dropout = false;
      a.values = 64; // what is as wide as values alone is less
      double less = bd_cost_attention_materialized(&cluster, cluster.flops.bf16, &a);
      a.width = 64;
      assert_true(less < seconds &&
                  less > bd_cost_attention_materialized(&cluster, cluster.flops.bf16, &a));
    }
}

enum { TOKENS = 1024, BATCH = 32, LAYERS = 12 };

// As GPT-2 124M has its attention.
static bd_llama_config heads_of(int64_t width, double dropout) {
  return (bd_llama_config){.vocabulary = 11,
                           .positions = TOKENS,
                           .width = 16,
                           .layers = 1,
                           .heads = 12,
                           .kv_heads = 12,
                           .head_width = width,
                           .inner = 16,
                           .activation = BD_OP_SILU,
                           .epsilon = 1e-5,
                           .rotary.theta = 10000,
                           .dropout_attention = dropout,
                           .init_scale = 0.02};
}

static bd_module *train_of(const bd_module *graph, bd_dtype precision) {
  bd_module *train = NULL;
  const char *passes = bd_training_passes(precision, BD_MASTERS_F32, BD_GRADIENTS_F32, "cuda");
  assert_int_equal(bd_pass_run_list(ctx, passes, NULL, stderr, graph, &train), BD_OK);
  return train;
}

// Seconds of the first op of a kind, launch and traffic left out, and its flops.
static double op_seconds(const bd_cluster *cluster, const bd_module *train, bd_op_kind kind,
                         double *out_flops) {
  static const int8_t split[BD_MAX_AXES] = {-1, -1, -1, -1};
  bd_cost_model model = {cluster, {1, {1}}, BATCH};
  bd_index_map map;
  bd_type types[BD_MAX_RESULTS];
  for (int k = 0; k < train->function_count; k++)
    for (int i = 0; i < train->functions[k]->op_count; i++) {
      const bd_function *f = train->functions[k];
      if (f->ops[i].kind != kind) continue;
      assert_int_equal(bd_op_infer(ctx, f, &f->ops[i], &map, types), BD_OK);
      *out_flops = bd_op_flops(f, &f->ops[i], &map, &model.mesh, split, BATCH);
      return bd_cost_arithmetic(&model, f, &f->ops[i], &map, split);
    }
  fail_msg("no such op");
  return 0;
}

static double attention_seconds(const bd_cluster *cluster, int64_t width, double dropout,
                                bd_dtype precision, bool forward, double *out_flops) {
  const bd_model_options options = {0};
  bd_llama_config config = heads_of(width, dropout);
  bd_module *graph;
  assert_int_equal(bd_llama_build(ctx, "test", &config, &options, BD_NOWHERE, &graph), BD_OK);
  return op_seconds(cluster, train_of(graph, precision),
                    forward ? BD_OP_ATTENTION : BD_OP_ATTENTION_GRAD, out_flops);
}

static void hold_rate(const bd_cluster *c, int64_t width, double dropout, bd_dtype precision,
                      bool forward, double rate) {
  double flops, ramp = (1 + c->work.attention_tokens / TOKENS) *
                       (1 + c->work.attention_width / (double)width);
  double seconds = attention_seconds(c, width, dropout, precision, forward, &flops);
  assert_true(flops == (forward ? 4.0 : 10.0) / 2 * BATCH * 12 * TOKENS * TOKENS * width);
  assert_true(fabs(seconds * rate / (flops * ramp) - 1) < 1e-12);
}

// On GPUs attention is priced as the kernel that does it: cuDNN's for halves without dropout and
// heads that it takes, else a generated one, on tensor cores or in f32.
static void test_kernels_of_attention(void **unused) {
  (void)unused;
  static const char *const names[] = {"h200:1x1", "a100-80gb:1x1", "v100:1x1"};
  for (int i = 0; i < 3; i++)
    for (int forward = 0; forward < 2; forward++) {
      bd_cluster c = load(names[i]);
      double part = forward ? c.work.attention_forward : c.work.attention_backward;
      double halves = c.flops.f32 * c.work.attention_generated;
      double singles = c.flops.f32 * c.work.attention_generated_f32;
      hold_rate(&c, 64, 0, BD_F16, forward, c.flops.f16 * part);
      hold_rate(&c, 256, 0, BD_F16, forward, c.flops.f16 * part);
      hold_rate(&c, 64, 0.1, BD_F16, forward, halves);
      hold_rate(&c, 128, 0.1, BD_F16, forward, halves);
      hold_rate(&c, 12, 0, BD_F16, forward, halves);
      hold_rate(&c, 136, 0.1, BD_F16, forward, singles);
      hold_rate(&c, 64, 0, BD_F32, forward, singles);
      hold_rate(&c, 64, 0.1, BD_F32, forward, singles);
      c.work.attention_generated = c.work.attention_generated_f32 = 0;
      hold_rate(&c, 64, 0.1, BD_F16, forward, c.flops.f32 * BD_ATTENTION_GENERATED);
      hold_rate(&c, 64, 0, BD_F32, forward, c.flops.f32 * BD_ATTENTION_GENERATED_F32);
      c.gpu = false;
      hold_rate(&c, 64, 0.1, BD_F16, forward, c.flops.f16 * part);
      hold_rate(&c, 64, 0, BD_F32, forward, c.flops.f32 * part);
    }
}

// With a window keys are as many as that for the ramp. A shorter one takes less.
static void test_attention_with_a_window(void **unused) {
  (void)unused;
  const bd_model_options options = {0};
  bd_cluster c = load("h200:1x1");
  double before = 0, flops;
  for (int64_t window = 32; window <= TOKENS; window *= 2) {
    bd_llama_config config = heads_of(64, 0);
    config.window = window;
    bd_module *graph;
    assert_int_equal(bd_llama_build(ctx, "test", &config, &options, BD_NOWHERE, &graph), BD_OK);
    double seconds = op_seconds(&c, train_of(graph, BD_BF16), BD_OP_ATTENTION, &flops);
    double ramp = (1 + c.work.attention_tokens / (double)window) * (1 + c.work.attention_width / 64);
    double rate = c.flops.bf16 * c.work.attention_forward;
    double points = (double)window * (TOKENS - (double)window / 2);
    assert_true(flops == 4.0 * BATCH * 12 * points * 64);
    assert_true(fabs(seconds * rate / (flops * ramp) - 1) < 1e-12);
    assert_true(seconds > before);
    before = seconds;
  }
}

// Scores that are capped take one function of each more.
static void test_capped_attention(void **unused) {
  (void)unused;
  const bd_model_options options = {0};
  bd_cluster c = load("h200:1x1");
  bd_llama_config config = heads_of(64, 0);
  config.score_cap = 50;
  bd_module *graph;
  assert_int_equal(bd_llama_build(ctx, "test", &config, &options, BD_NOWHERE, &graph), BD_OK);
  const bd_module *train = train_of(graph, BD_BF16);
  c.work.transcendental_seconds = 1e-9;
  for (int forward = 0; forward < 2; forward++) {
    double flops, seconds =
                      op_seconds(&c, train, forward ? BD_OP_ATTENTION : BD_OP_ATTENTION_GRAD, &flops);
    double ramp = (1 + c.work.attention_tokens / TOKENS) * (1 + c.work.attention_width / 64);
    double part = forward ? c.work.attention_forward : c.work.attention_backward;
    double scores = BATCH * 12.0 * TOKENS * TOKENS / 2;
    double wanted = flops * ramp / (c.flops.bf16 * part) + scores * 1e-9;
    assert_true(fabs(seconds / wanted - 1) < 1e-12);
  }
}

// Sinks cost what attention costs, by cuDNN as by generated kernels.
static void test_attention_with_sinks(void **unused) {
  (void)unused;
  const bd_model_options options = {0};
  bd_cluster c = load("h200:1x1");
  for (int plain = 0; plain < 2; plain++) {
    double seconds[2], flops[2];
    for (int sinks = 0; sinks < 2; sinks++) {
      bd_llama_config config = heads_of(64, 0);
      config.window = 64;
      config.sinks = sinks;
      bd_module *graph;
      assert_int_equal(bd_llama_build(ctx, "test", &config, &options, BD_NOWHERE, &graph), BD_OK);
      seconds[sinks] = op_seconds(&c, train_of(graph, plain ? BD_F32 : BD_BF16),
                                  sinks ? BD_OP_SINK_ATTENTION : BD_OP_ATTENTION, &flops[sinks]);
    }
    assert_true(seconds[0] == seconds[1] && flops[0] == flops[1]);
  }
}

static void test_biased_attention(void **unused) {
  (void)unused;
  const bd_model_options options = {0};
  bd_module *graph;
  bd_cluster c = load("h200:1x1"), slower = c;
  assert_int_equal(bd_model_load(ctx, "tests/unit/planner/t5-small", &options, &graph), BD_OK);
  const bd_module *train = train_of(graph, BD_BF16);
  slower.work.attention_generated /= 2;
  for (int forward = 0; forward < 2; forward++) {
    bd_op_kind kind = forward ? BD_OP_RELATIVE_ATTENTION : BD_OP_RELATIVE_ATTENTION_GRAD;
    double flops, seconds = op_seconds(&c, train, kind, &flops);
    assert_true(fabs(op_seconds(&slower, train, kind, &flops) / seconds - 2) < 1e-12);
  }
}

// GPT-2 124M of 32 x 1024 tokens with dropout on an H200, all layers: 17 and 40 ms by generated
// kernels on tensor cores, 32 and 130 ms by those in f32 (docs/costs.md).
static void test_measured_attention(void **unused) {
  (void)unused;
  bd_cluster c = load("h200:1x1");
  double flops, halves = 0, singles = 0;
  for (int forward = 0; forward < 2; forward++) {
    double seconds = LAYERS * attention_seconds(&c, 64, 0.1, BD_BF16, forward, &flops);
    assert_true(fabs(seconds / (forward ? 17e-3 : 40e-3) - 1) < 0.05);
    halves += seconds;
    singles += LAYERS * attention_seconds(&c, 64, 0.1, BD_F32, forward, &flops);
  }
  assert_true(fabs(halves / 57e-3 - 1) < 0.02);
  assert_true(fabs(singles / 162e-3 - 1) < 0.02);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_collectives, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_several_axes, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_buckets, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_sums_behind_backward, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_gathers_behind_forward, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_where_rings_lie, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_measured_all_reduce, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_measured_products, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_rates_by_operands, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_marked_products, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_parts_of_products, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_parts_of_ops, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_grouped_products, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_marked_groups, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_products_beside, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_parts_of_marked_products, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_materialized_attention, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_kernels_of_attention, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_attention_with_a_window, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_capped_attention, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_attention_with_sinks, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_biased_attention, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_measured_attention, open, drop_ctx),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
