// The library segment has room for as many key-value heads of the longest attention that cuDNN
// takes as fill a device.
#include "frontend/transformer.h"
#include "ir/memory.h"
#include "ir/pass.h"
#include "runtime/braid_rt_abi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MIB ((int64_t)1 << 20)
enum { KEY_HEADS = 2, WIDTH = 64 }; // of each head

static bd_llama_config llama_of(int64_t positions, int64_t group) {
  return (bd_llama_config){.vocabulary = 11,
                           .positions = positions,
                           .width = 16,
                           .layers = 2,
                           .heads = KEY_HEADS * group,
                           .kv_heads = KEY_HEADS,
                           .head_width = WIDTH,
                           .inner = 16,
                           .activation = BD_OP_SILU,
                           .epsilon = 1e-5,
                           .rotary.theta = 10000,
                           .init_scale = 0.02};
}

static bd_module *train_of(bd_ctx *ctx, const bd_llama_config *config, bd_dtype precision) {
  const bd_model_options options = {0};
  bd_module *graph = NULL, *train = NULL;
  bd_status status = bd_llama_build(ctx, "test", config, &options, BD_NOWHERE, &graph);
  if (status == BD_OK)
    status = bd_pass_run_list(
        ctx, bd_training_passes(precision, BD_MASTERS_F32, BD_GRADIENTS_F32, "cuda"), NULL, stderr,
        graph, &train);
  bd_diags_print(ctx, stderr, false);
  assert_int_equal(status, BD_OK);
  train->cuda = true;
  return train;
}

static int64_t segment_of(const bd_llama_config *config, bd_dtype precision) {
  bd_ctx *ctx = bd_ctx_create();
  int64_t bytes = bd_memory_library_bytes(train_of(ctx, config, precision));
  bd_ctx_destroy(ctx);
  return bytes;
}

static void expect(int64_t positions, int64_t group, bd_dtype precision, int64_t mib) {
  bd_llama_config config = llama_of(positions, group);
  assert_int_equal(segment_of(&config, precision), mib * MIB);
}

// Gradients of scores of 2 bytes, and 4 bytes of each key's two gradients per query head of
// several, for 396 blocks of 128 keys of a query head; then what is not counted, to the next MiB.
static void test_models(void **state) {
  (void)state;
  expect(256, 1, BD_BF16, 32);
  expect(512, 1, BD_BF16, 50);           // 99 heads
  expect(1024, 1, BD_BF16, 50 * 2 + 1);  // 50 heads
  expect(1024, 4, BD_BF16, 13 * 9 + 1);  // 13 key-value heads
  expect(2048, 1, BD_BF16, 25 * 8 + 1);  // 25 heads
  expect(4096, 1, BD_BF16, 8 * 32 + 1);  // 13 would exceed 256 MiB
  expect(8192, 1, BD_BF16, 2 * 128 + 1); // 7 would
  expect(8192, 1, BD_F16, 2 * 128 + 1);
  expect(8192, 1, BD_F8, 2 * 128 + 1);   // attention is in bf16
  expect(8192, 2, BD_BF16, 256 + 4 + 1); // one key-value head
  expect(8192, 4, BD_BF16, 512 + 8 + 1);
  expect(8200, 1, BD_BF16, 132); // 8256 x 8320, and two would exceed 256 MiB
  expect(8192, 8, BD_BF16, 1024 + 16 + 1);
  // Tiles of 4096 and of 16384 rows: scores, of several heads each one's two gradients, sums of keys
  // and of queries, what a tile makes.
  expect(8192, 16, BD_BF16, 512 + 16 + 4 + 16 + 8 + 1 + 1);
  expect(32768, 1, BD_BF16, 512 + 16 + 4 + 2 + 4 + 1);
  bd_llama_config config = llama_of(8192, 4);
  config.window = 1000; // all scores exist all the same
  assert_int_equal(segment_of(&config, BD_BF16), (512 + 8 + 1) * MIB);
  config = llama_of(32768, 1);
  config.window = 1025; // 8192 rows by 9216 keys; sums of keys and of queries, what a tile makes
  assert_int_equal(segment_of(&config, BD_BF16), (144 + 16 + 2 + 1 + 3) * MIB);
}

// Values of a width that cuDNN does not take leave attention to generated kernels, whatever keys have.
static void test_values(void **state) {
  (void)state;
  static const struct {
    int64_t values;
    int64_t mib;
  } cases[] = {{32, 2 * 128 + 1}, {128, 2 * 128 + 1}, {20, 32}, {264, 32}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const bd_latent latent = {.rank = 8, .plain_width = 48, .value_width = cases[i].values};
    bd_llama_config config = llama_of(8192, 1);
    config.head_width = 16;
    config.latent = &latent;
    config.attention_scale = 1;
    assert_int_equal(segment_of(&config, BD_BF16), cases[i].mib * MIB);
  }
}

// What cuDNN does not take, and what is too much, leaves the least.
static void test_least(void **state) {
  (void)state;
  expect(8192, 1, BD_F32, 32);
  expect(8192, 4, BD_F32, 32);
  expect(8191, 16, BD_BF16, 32); // 8191 is prime
  expect(32771, 1, BD_BF16, 32);
  expect(BD_MAX_CONFIG_EXTENT, 1, BD_BF16, 32);
  bd_llama_config config = llama_of(8192, 4);
  config.dropout_attention = 0.1;
  assert_int_equal(segment_of(&config, BD_BF16), 32 * MIB);
  config = llama_of(8192, 4);
  config.score_cap = 50; // as large as without
  assert_int_equal(segment_of(&config, BD_BF16), (512 + 8 + 1) * MIB);
  config = llama_of(8192, 4);
  config.head_width = 12; // no multiple of 8
  assert_int_equal(segment_of(&config, BD_BF16), 32 * MIB);
  config.head_width = 264;
  assert_int_equal(segment_of(&config, BD_BF16), 32 * MIB);
}

// The most of several functions counts, but none beyond the limit, and none that is not called; on
// CPUs there is no such segment.
static void test_functions(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  bd_llama_config shorter = llama_of(4096, 2), longer = llama_of(8192, 2),
                  endless = llama_of(65537, 2);
  bd_module *train = train_of(ctx, &shorter, BD_BF16);
  const bd_module *others[] = {train_of(ctx, &longer, BD_BF16), train_of(ctx, &endless, BD_BF16)};
  assert_int_equal(bd_memory_library_bytes(train), (3 * 66 + 1) * MIB);
  for (int i = 0; i < 2; ++i) {
    bd_function *block = bd_module_find(others[i], "block.grad");
    assert_non_null(block);
    block->name = bd_intern_f(ctx, "other%d.grad", i);
    bd_module_add_function(ctx, train, block);
  }
  assert_int_equal(bd_memory_library_bytes(train), (3 * 66 + 1) * MIB);
  int called = 0;
  for (int i = 0; i < train->main->op_count; ++i) {
    bd_op *op = &train->main->ops[i];
    if (op->kind != BD_OP_CALL || strcmp(op->callee, "block.grad") || called == 2) continue;
    op->callee = bd_intern_f(ctx, "other%d.grad", called++);
  }
  assert_int_equal(called, 2);
  assert_int_equal(bd_memory_library_bytes(train), (256 + 4 + 1) * MIB);
  train->cuda = false;
  assert_int_equal(bd_memory_library_bytes(train), 0);
  bd_ctx_destroy(ctx);
}

// As cuDNN 9.19 said for sm_90; and sizes whose product is no number.
static void test_attention(void **state) {
  (void)state;
  assert_int_equal(bd_memory_attention_bytes(1, 1, 4096, 4096, 64, 64), 33554688);
  assert_int_equal(bd_memory_attention_bytes(1, 8, 4096, 4096, 128, 128), 285212928);
  assert_int_equal(bd_memory_attention_bytes(1, 4, 8192, 8192, 128, 128), 553648384);
  assert_int_equal(bd_memory_attention_bytes(1, 2, 2048, 2048, 80, 80), 18088192);
  assert_int_equal(bd_memory_attention_bytes(1, 3, 1024, 4096, 64, 64), 28311808);
  assert_int_equal(bd_memory_attention_bytes(1, 3, 5000, 3001, 64, 64), 95497216);
  assert_int_equal(bd_memory_attention_bytes(1, 1, 3001, 5000, 128, 128), 30802176);
  assert_int_equal(bd_memory_attention_bytes(1, 1, 16384, 16384, 128, 128), 536871168);
  assert_int_equal(bd_memory_attention_bytes(48, 1, 1024, 1024, 64, 64), 100663552);
  assert_int_equal(bd_memory_attention_bytes(50, 1, 1024, 1024, 64, 64), 104857856);
  assert_int_equal(bd_memory_attention_bytes(21, 2, 1000, 1000, 64, 64), 98832640);
  assert_int_equal(bd_memory_attention_bytes(2, 4, 8192, 8192, 128, 128), 1107296512);
  // Values of a width of their own count where query heads share them.
  assert_int_equal(bd_memory_attention_bytes(1, 1, 4096, 4096, 192, 128), 33554688);
  assert_int_equal(bd_memory_attention_bytes(1, 8, 4096, 4096, 192, 64), 285212928);
  assert_int_equal(bd_memory_attention_bytes(1, 4, 8192, 8192, 192, 128),
                   4 * 2 * (8192 * 8192 + 8192 * (192 + 128)) + 256);
  // The most that there is, and a tile more.
  assert_int_equal(bd_memory_attention_bytes(1, 1, 32768, 32768 - 128, 64, 64),
                   2147483648 - 8388608 + 256);
  assert_int_equal(bd_memory_attention_bytes(1, 1, 32768, 32768, 64, 64), 0);
  for (int bit = 0; bit < 63; ++bit) {
    int64_t size = (int64_t)1 << bit;
    assert_true(bd_memory_attention_bytes(1, 1, size, size, size, size) <= BD_LIBRARY_MOST_BYTES);
    assert_true(bd_memory_attention_bytes(1, size, 1, 1, size, size) <= BD_LIBRARY_MOST_BYTES);
    assert_true(bd_memory_attention_bytes(1, size, size, INT64_MAX / size, 8, 8) == 0);
  }
  assert_int_equal(bd_memory_attention_bytes(1, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX), 0);
}

// One head of so many tokens that the gradients of its scores are in tiles: of 8192 rows of four
// query heads, of 16384 of one, and none where no tile divides the tokens or its sums are too many.
static void test_tiles(void **state) {
  (void)state;
  assert_int_equal(bd_memory_attention_tiles_bytes(4, 131072, 131072, 128, 128, 0), 717227776);
  assert_int_equal(bd_memory_attention_tiles_bytes(1, 32768, 32768, 64, 64, 0), 564135680);
  assert_int_equal(bd_memory_attention_tiles_bytes(4, 131071, 131071, 128, 128, 0), 0);
  // Sums of dk and dv in f32, halves of a tile's, by their own widths.
  assert_int_equal(bd_memory_attention_tiles_bytes(1, 32768, 32768, 192, 64, 0) -
                       bd_memory_attention_tiles_bytes(1, 32768, 32768, 128, 128, 0),
                   (4 + 2) * 64 * 16384);
  assert_int_equal(bd_memory_attention_tiles_bytes(4, (int64_t)1 << 21, (int64_t)1 << 21, 128, 128, 0),
                   0);
  // 4096 rows by 8191 keys; a window of which no tile has room.
  assert_int_equal(bd_memory_attention_tiles_bytes(4, 32768, 32768, 128, 128, 4096), 335543552);
  assert_int_equal(bd_memory_attention_tiles_bytes(4, 32768, 32768, 128, 128, 16000), 0);
  assert_int_equal(bd_memory_attention_tiles_bytes(1, 32768, 32768, 128, 128, INT64_MAX), 0);
  assert_int_equal(bd_memory_attention_tiles_bytes(INT64_MAX, 4096, 4096, 128, 128, 0), 0);
  assert_int_equal(bd_memory_attention_tiles_bytes(1, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, 0), 0);
}

// Room for one head is what the longest attention wants for it, and never more.
static void test_one_head(void **state) {
  (void)state;
  static const struct {
    int64_t positions, group, mib;
  } cases[] = {{1024, 1, 32}, {1024, 4, 32}, {4096, 1, 33}, {8192, 1, 129}, {8192, 4, 521}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    bd_ctx *ctx = bd_ctx_create();
    bd_llama_config config = llama_of(cases[i].positions, cases[i].group);
    bd_module *train = train_of(ctx, &config, BD_BF16);
    train->one_head = true;
    assert_int_equal(bd_memory_library_bytes(train), cases[i].mib * MIB);
    bd_ctx_destroy(ctx);
  }
}

static void test_abi(void **state) {
  (void)state;
  assert_int_equal(BD_LIBRARY_KEPT_BYTES, BD_RT_KEPT_BYTES);
  assert_int_equal(BD_MEMORY_LEAST_TILE, BD_RT_LEAST_TILE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_models),    cmocka_unit_test(test_least), cmocka_unit_test(test_values),
      cmocka_unit_test(test_functions), cmocka_unit_test(test_attention),
      cmocka_unit_test(test_tiles),     cmocka_unit_test(test_one_head),
      cmocka_unit_test(test_abi)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
