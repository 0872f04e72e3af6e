#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ir/base/file.h"
#include "ir/base/text.h"
#include "tests/unit/frontend/support_folder.h"
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char single[] = "model.safetensors", index_name[] = "model.safetensors.index.json";

typedef struct bench {
  bd_ctx *ctx;
  const char *folder;
  test_tensor tensors[TEST_GPT2_TENSORS + 2]; // a GPT-2's, and room for more
} bench;

static bench start(void) {
  bench b = {.ctx = bd_ctx_create()};
  b.folder = test_folder_make(b.ctx);
  memcpy(b.tensors, test_gpt2_tensors, sizeof test_gpt2_tensors);
  test_folder_write(b.ctx, b.folder, "config.json", test_gpt2_config);
  return b;
}

static void end(bench *b) {
  test_folder_remove(b->ctx, b->folder);
  bd_ctx_destroy(b->ctx);
}

static void write_single(bench *b, const char *prefix, int count) {
  test_folder_write_tensors(b->ctx, b->folder, single, prefix, count, b->tensors);
}

// The first `cut` tensors in a.safetensors, the others in b.safetensors, and `index` (NULL: one
// that says so, with `last` as the file of the last tensor).
static void write_shards(bench *b, int cut, int count, const char *index, const char *last) {
  bd_ctx *ctx = b->ctx;
  test_folder_write_tensors(ctx, b->folder, "a.safetensors", "", cut, b->tensors);
  test_folder_write_tensors(ctx, b->folder, "b.safetensors", "", count - cut, b->tensors + cut);
  bd_text text = bd_text_init(ctx->arena);
  bd_text_add(&text, "{\"metadata\": {\"total_size\": 1e3}, \"weight_map\": {");
  for (int i = 0; i < TEST_GPT2_TENSORS; ++i)
    bd_text_addf(&text, "%s\"%s\": \"%s\"", i > 0 ? "," : "", b->tensors[i].name,
                 i < cut                     ? "a.safetensors"
                 : i + 1 < TEST_GPT2_TENSORS ? "b.safetensors"
                                             : last);
  bd_text_add(&text, "}}");
  test_folder_write(ctx, b->folder, index_name, index ? index : text.data);
}

static void expect(bench *b, const char *message) {
  bd_module *graph = NULL;
  bd_status status = test_folder_load(b->ctx, b->folder, &graph);
  if (!message) {
    assert_int_equal(status, BD_OK);
    return;
  }
  assert_int_equal(status, BD_INVALID);
  assert_non_null(strstr(b->ctx->last_diag->message, message));
  assert_int_equal(b->ctx->error_count, 1);
}

static void test_prefixes(void **state) {
  (void)state;
  bench b = start();
  bd_module *graph = NULL;
  write_single(&b, "", TEST_GPT2_TENSORS);
  assert_int_equal(test_folder_load(b.ctx, b.folder, &graph), BD_OK);
  assert_string_equal(graph->weights[0].storage.name, "wte.weight");
  write_single(&b, "transformer.", TEST_GPT2_TENSORS);
  assert_int_equal(test_folder_load(b.ctx, b.folder, &graph), BD_OK);
  assert_string_equal(graph->weights[0].storage.name, "transformer.wte.weight");
  end(&b);
}

static void test_weights_must_agree(void **state) {
  (void)state;
  bench b = start();
  b.tensors[0] = (test_tensor){"wte.weight", "[4,2]", 8, 0};
  write_single(&b, "", TEST_GPT2_TENSORS);
  expect(&b, "[4, 2], but config.json makes it [3, 2]");
  end(&b);
  b = start();
  write_single(&b, "other.", TEST_GPT2_TENSORS);
  expect(&b, "is missing");
  end(&b);
}

// What lies beside the model's weights: buffers may, a second copy of a tied weight too when it is
// one, and nothing else.
static void test_other_tensors(void **state) {
  (void)state;
  static const struct {
    test_tensor tensor;
    const char *message;
  } cases[] = {{{"h.0.attn.bias", "[1,1,2,2]", 4, 0}, NULL},
               {{"h.0.attn.rotary_emb.inv_freq", "[1]", 1, 0}, NULL},
               {{"lm_head.weight", "[3,2]", 6, 1}, NULL},
               {{"lm_head.weight", "[3,2]", 6, 2}, "differs from \"wte.weight\""},
               {{"lm_head.weight", "[2,3]", 6, 1}, "differs from \"wte.weight\""},
               {{"v_head.weight", "[1,2]", 2, 1}, "\"v_head.weight\" is none of the model"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    bench b = start();
    b.tensors[TEST_GPT2_TENSORS] = cases[i].tensor;
    write_single(&b, "", TEST_GPT2_TENSORS + 1);
    expect(&b, cases[i].message);
    end(&b);
  }
}

static void test_untied(void **state) {
  (void)state;
  static const char untied[] =
      "{\"model_type\": \"gpt2\", \"vocab_size\": 3, \"n_positions\": 2, \"n_embd\": 2, "
      "\"n_layer\": 1, \"n_head\": 1, \"n_inner\": 1, \"tie_word_embeddings\": false}";
  bench b = start();
  test_folder_write(b.ctx, b.folder, "config.json", untied);
  b.tensors[TEST_GPT2_TENSORS] = (test_tensor){"lm_head.weight", "[3,2]", 6, 77};
  write_single(&b, "", TEST_GPT2_TENSORS + 1);
  expect(&b, NULL);
  write_single(&b, "", TEST_GPT2_TENSORS);
  expect(&b, "tensor \"lm_head.weight\" of the model is missing");
  end(&b);
}

static void test_shards(void **state) {
  (void)state;
  static const struct {
    int count;
    const char *index, *last, *message;
  } cases[] = {
      {TEST_GPT2_TENSORS, NULL, "b.safetensors", NULL},
      {TEST_GPT2_TENSORS, NULL, "a.safetensors", "is not in the file it is said to be in"},
      {TEST_GPT2_TENSORS, NULL, "c.safetensors", "cannot open"},
      {TEST_GPT2_TENSORS, NULL, "../b.safetensors", "must be a plain file name"},
      {TEST_GPT2_TENSORS, NULL, "..", "must be a plain file name"},
      {TEST_GPT2_TENSORS, NULL, "", "must be a plain file name"},
      {TEST_GPT2_TENSORS + 1, NULL, "b.safetensors", "\"more\" is not in the index's"},
      {TEST_GPT2_TENSORS, "{\"weight_map\": {}}", "", "names no tensor"},
      {TEST_GPT2_TENSORS, "{\"weight_map\": {\"x\": 1}}", "", "must be a plain file name"},
      {TEST_GPT2_TENSORS, "{\"weightmap\": {}}", "", "\"weight_map\""},
      {TEST_GPT2_TENSORS, "{\"weight_map\": {\"x\": \"a\"}, \"map\": 1}", "", "\"map\""},
      {TEST_GPT2_TENSORS, "{\"weight_map\": {\"x\": \"a.safetensors\", \"x\": \"a.safetensors\"}}",
       "", "\"x\""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    bench b = start();
    b.tensors[TEST_GPT2_TENSORS] = (test_tensor){"more", "[1]", 1, 0};
    write_shards(&b, 5, cases[i].count, cases[i].index, cases[i].last);
    expect(&b, cases[i].message);
    end(&b);
  }
}

static void test_tensor_in_two_shards(void **state) {
  (void)state;
  bench b = start();
  b.tensors[TEST_GPT2_TENSORS] = b.tensors[0];
  write_shards(&b, 5, TEST_GPT2_TENSORS + 1, NULL, "b.safetensors");
  expect(&b, "tensor \"wte.weight\" is also in");
  end(&b);
}

// A link may lead to a file beside it, or to the blobs of a cache's snapshot.
static void test_links(void **state) {
  (void)state;
  static const struct {
    const char *target, *message;
  } cases[] = {{"real.safetensors", NULL},
               {"/etc/passwd", "is a link to no file of its folder"},
               {"../../../../etc/passwd", "is a link to no file of its folder"},
               {"../../blobs/../passwd", "is a link to no file of its folder"},
               {"second", "is a link to no file of its folder"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    bench b = start();
    test_folder_write_tensors(b.ctx, b.folder, "real.safetensors", "", TEST_GPT2_TENSORS,
                              b.tensors);
    assert_int_equal(symlink(cases[i].target, bd_path_join(b.ctx, b.folder, single)), 0);
    assert_int_equal(symlink("/etc/passwd", bd_path_join(b.ctx, b.folder, "second")), 0);
    expect(&b, cases[i].message);
    end(&b);
  }
}

static void test_cache(void **state) {
  (void)state;
  bench b = start();
  bd_ctx *ctx = b.ctx;
  const char *blobs = bd_path_join(ctx, b.folder, "blobs");
  const char *snapshots = bd_path_join(ctx, b.folder, "snapshots");
  const char *snapshot = bd_path_join(ctx, snapshots, "1");
  assert_int_equal(mkdir(blobs, 0755), 0);
  assert_int_equal(mkdir(snapshots, 0755), 0);
  assert_int_equal(mkdir(snapshot, 0755), 0);
  test_folder_write_tensors(ctx, blobs, "abc", "", TEST_GPT2_TENSORS, b.tensors);
  test_folder_write(ctx, snapshot, "config.json", test_gpt2_config);
  assert_int_equal(symlink("../../blobs/abc", bd_path_join(ctx, snapshot, single)), 0);
  bd_module *graph = NULL;
  assert_int_equal(test_folder_load(ctx, snapshot, &graph), BD_OK);
  test_folder_remove(ctx, snapshot);
  test_folder_remove(ctx, snapshots);
  test_folder_remove(ctx, blobs);
  end(&b);
}

static const char *shape_of(bd_ctx *ctx, const bd_storage *storage, int *out_elements) {
  bd_text text = bd_text_init(ctx->arena);
  *out_elements = 1;
  for (int d = 0; d < storage->rank; ++d) {
    bd_text_addf(&text, "%s%lld", d > 0 ? "," : "[", (long long)storage->dims[d]);
    *out_elements *= (int)storage->dims[d];
  }
  bd_text_add(&text, "]");
  return text.data;
}

// Of a layer norm's weight as files before 2020 have it; other names stay.
static const char *older_name(bd_ctx *ctx, const char *name) {
  const char *norm = strstr(name, "LayerNorm.");
  if (!norm) return name;
  const char *last = norm + strlen("LayerNorm.");
  return bd_intern_f(ctx, "%.*s%s", (int)(last - name), name,
                     strcmp(last, "weight") == 0 ? "gamma" : "beta");
}

// A BERT with the older names, and with the heads that its pretraining had.
static void test_older_bert(void **state) {
  (void)state;
  static const char config[] =
      "{\"model_type\": \"bert\", \"vocab_size\": 5, \"max_position_embeddings\": 3, "
      "\"type_vocab_size\": 2, \"hidden_size\": 2, \"intermediate_size\": 3, "
      "\"num_hidden_layers\": 1, \"num_attention_heads\": 1}";
  bench b = start();
  bd_module *graph = NULL;
  test_folder_write(b.ctx, b.folder, "config.json", config);
  assert_int_equal(test_folder_load(b.ctx, b.folder, &graph), BD_OK);
  int count = graph->weight_count;
  test_tensor *tensors = BD_NEW_ARRAY(b.ctx->arena, test_tensor, count + 2);
  for (int i = 0; i < count; ++i) {
    const bd_storage *storage = &graph->weights[i].storage;
    tensors[i].name = older_name(b.ctx, storage->name);
    tensors[i].shape = shape_of(b.ctx, storage, &tensors[i].elements);
  }
  tensors[count] = (test_tensor){"bert.pooler.dense.weight", "[2,2]", 4, 0};
  tensors[count + 1] = (test_tensor){"cls.seq_relationship.bias", "[2]", 2, 0};
  test_folder_write_tensors(b.ctx, b.folder, single, "", count + 2, tensors);
  assert_int_equal(test_folder_load(b.ctx, b.folder, &graph), BD_OK);
  for (int i = 0; i < count; ++i)
    assert_string_equal(graph->weights[i].storage.name, tensors[i].name);
  end(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_prefixes),      cmocka_unit_test(test_weights_must_agree),
      cmocka_unit_test(test_other_tensors), cmocka_unit_test(test_untied),
      cmocka_unit_test(test_shards),        cmocka_unit_test(test_tensor_in_two_shards),
      cmocka_unit_test(test_links),         cmocka_unit_test(test_cache),
      cmocka_unit_test(test_older_bert),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
