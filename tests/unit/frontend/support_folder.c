#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/frontend/support_folder.h"

#include "ir/base/file.h"
#include "ir/base/text.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char test_gpt2_config[] = "{\"model_type\": \"gpt2\", \"vocab_size\": 3, \"n_positions\": 2, "
                                "\"n_embd\": 2, \"n_layer\": 1, \"n_head\": 1, \"n_inner\": 1}";
const test_tensor test_gpt2_tensors[TEST_GPT2_TENSORS] = {
    {"wte.weight", "[3,2]", 6, 1},
    {"wpe.weight", "[2,2]", 4, 2},
    {"h.0.ln_1.weight", "[2]", 2, 3},
    {"h.0.ln_1.bias", "[2]", 2, 4},
    {"h.0.attn.c_attn.weight", "[2,6]", 12, 5},
    {"h.0.attn.c_attn.bias", "[6]", 6, 6},
    {"h.0.attn.c_proj.weight", "[2,2]", 4, 7},
    {"h.0.attn.c_proj.bias", "[2]", 2, 8},
    {"h.0.ln_2.weight", "[2]", 2, 9},
    {"h.0.ln_2.bias", "[2]", 2, 10},
    {"h.0.mlp.c_fc.weight", "[2,1]", 2, 11},
    {"h.0.mlp.c_fc.bias", "[1]", 1, 12},
    {"h.0.mlp.c_proj.weight", "[1,2]", 2, 13},
    {"h.0.mlp.c_proj.bias", "[2]", 2, 14},
    {"ln_f.weight", "[2]", 2, 15},
    {"ln_f.bias", "[2]", 2, 16}};

const char *test_folder_make(bd_ctx *ctx) {
  char folder[] = "/tmp/braid_hf_XXXXXX";
  assert_non_null(mkdtemp(folder));
  return bd_intern_z(ctx, folder);
}

void test_folder_remove(bd_ctx *ctx, const char *folder) {
  DIR *open = opendir(folder);
  assert_non_null(open);
  for (struct dirent *entry = readdir(open); entry; entry = readdir(open))
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      unlink(bd_path_join(ctx, folder, entry->d_name));
  closedir(open);
  assert_int_equal(rmdir(folder), 0);
}

void test_folder_write(bd_ctx *ctx, const char *folder, const char *name, const char *text) {
  assert_int_equal(bd_file_write(ctx, bd_path_join(ctx, folder, name), text, strlen(text)), BD_OK);
}

void test_folder_write_tensors(bd_ctx *ctx, const char *folder, const char *name,
                               const char *prefix, int count, const test_tensor *tensors) {
  bd_text header = bd_text_init(ctx->arena), data = bd_text_init(ctx->arena);
  for (int i = 0; i < count; ++i) {
    size_t begin = data.length;
    for (int byte = 0; byte < 4 * tensors[i].elements; ++byte)
      bd_text_add_n(&data, (const char *)&tensors[i].fill, 1);
    bd_text_addf(&header, "%s\"%s%s\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
                 i > 0 ? "," : "{", prefix, tensors[i].name, tensors[i].shape, begin, data.length);
  }
  bd_text_add(&header, "}");
  bd_text file = bd_text_init(ctx->arena);
  for (int i = 0; i < 8; ++i) {
    char byte = (char)(header.length >> (8 * i));
    bd_text_add_n(&file, &byte, 1);
  }
  bd_text_add_n(&file, header.data, header.length);
  bd_text_add_n(&file, data.data, data.length);
  assert_int_equal(bd_file_write(ctx, bd_path_join(ctx, folder, name), file.data, file.length),
                   BD_OK);
}

bd_status test_folder_load(bd_ctx *ctx, const char *folder, bd_module **out_graph) {
  bd_model_options options = {0};
  return bd_model_load(ctx, folder, &options, out_graph);
}
