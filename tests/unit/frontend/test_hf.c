#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frontend/frontend.h"
#include "ir/base/file.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Writes a folder with a GPT-2 of one layer, whose tensors' names start with `prefix` and whose
// token embedding has `rows` rows, and loads it.
static bd_status load_folder(bd_ctx *ctx, const char *prefix, int rows, bd_module **out_graph) {
  static const char config[] = "{\"model_type\": \"gpt2\", \"vocab_size\": 3, \"n_positions\": 2, "
                               "\"n_embd\": 2, \"n_layer\": 1, \"n_head\": 1, \"n_inner\": 1}";
  static const struct {
    const char *name, *shape;
    int elements;
  } tensors[] = {{"wpe.weight", "[2,2]", 4},
                 {"h.0.ln_1.weight", "[2]", 2},
                 {"h.0.ln_1.bias", "[2]", 2},
                 {"h.0.attn.c_attn.weight", "[2,6]", 12},
                 {"h.0.attn.c_attn.bias", "[6]", 6},
                 {"h.0.attn.c_proj.weight", "[2,2]", 4},
                 {"h.0.attn.c_proj.bias", "[2]", 2},
                 {"h.0.ln_2.weight", "[2]", 2},
                 {"h.0.ln_2.bias", "[2]", 2},
                 {"h.0.mlp.c_fc.weight", "[2,1]", 2},
                 {"h.0.mlp.c_fc.bias", "[1]", 1},
                 {"h.0.mlp.c_proj.weight", "[1,2]", 2},
                 {"h.0.mlp.c_proj.bias", "[2]", 2},
                 {"ln_f.weight", "[2]", 2},
                 {"ln_f.bias", "[2]", 2}};
  bd_text header = bd_text_init(ctx->arena);
  int end = 8 * rows;
  bd_text_addf(&header,
               "{\"%swte.weight\":{\"dtype\":\"F32\",\"shape\":[%d,2],\"data_offsets\":"
               "[0,%d]}",
               prefix, rows, end);
  for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; ++i) {
    int begin = end;
    end += 4 * tensors[i].elements;
    bd_text_addf(&header, ",\"%s%s\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[%d,%d]}",
                 prefix, tensors[i].name, tensors[i].shape, begin, end);
  }
  bd_text_add(&header, "}");
  size_t bytes = 8 + header.length + (size_t)end;
  unsigned char *file = bd_arena_alloc(ctx->arena, bytes);
  for (int i = 0; i < 8; ++i)
    file[i] = (unsigned char)(header.length >> (8 * i));
  memcpy(file + 8, header.data, header.length);

  char folder[] = "/tmp/braid_hf_XXXXXX";
  assert_non_null(mkdtemp(folder));
  const char *config_path = bd_path_join(ctx, folder, "config.json");
  const char *weights_path = bd_path_join(ctx, folder, "model.safetensors");
  assert_int_equal(bd_file_write(ctx, config_path, config, sizeof config - 1), BD_OK);
  assert_int_equal(bd_file_write(ctx, weights_path, file, bytes), BD_OK);
  bd_model_options options = {0};
  bd_status status = bd_model_load(ctx, folder, &options, out_graph);
  unlink(config_path);
  unlink(weights_path);
  rmdir(folder);
  return status;
}

static void test_prefixes(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  bd_module *graph = NULL;
  assert_int_equal(load_folder(ctx, "", 3, &graph), BD_OK);
  assert_string_equal(graph->weights[0].storage.name, "wte.weight");
  assert_int_equal(load_folder(ctx, "transformer.", 3, &graph), BD_OK);
  assert_string_equal(graph->weights[0].storage.name, "transformer.wte.weight");
  bd_ctx_destroy(ctx);
}

static void test_weights_must_agree(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  bd_module *graph = NULL;
  assert_int_equal(load_folder(ctx, "", 4, &graph), BD_INVALID);
  assert_non_null(strstr(ctx->last_diag->message, "[4, 2], but config.json makes it [3, 2]"));
  assert_int_equal(load_folder(ctx, "other.", 3, &graph), BD_INVALID);
  assert_non_null(strstr(ctx->last_diag->message, "is missing"));
  bd_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_prefixes),
      cmocka_unit_test(test_weights_must_agree),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
