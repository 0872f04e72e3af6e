// Folders of weights made for a test.
#ifndef BD_TESTS_FRONTEND_SUPPORT_FOLDER_H
#define BD_TESTS_FRONTEND_SUPPORT_FOLDER_H
#include "frontend/frontend.h"

// A tensor of f32; `fill` is the byte that all its bytes have.
typedef struct test_tensor {
  const char *name, *shape; // "[2,3]"
  int elements;
  unsigned char fill;
} test_tensor;

// A new folder under /tmp, in ctx->arena.
const char *test_folder_make(bd_ctx *ctx);
// With everything in it.
void test_folder_remove(bd_ctx *ctx, const char *folder);
void test_folder_write(bd_ctx *ctx, const char *folder, const char *name, const char *text);
// The tensors in this order, `prefix` before each name.
void test_folder_write_tensors(bd_ctx *ctx, const char *folder, const char *name,
                               const char *prefix, int count, const test_tensor *tensors);
bd_status test_folder_load(bd_ctx *ctx, const char *folder, bd_module **out_graph);

// The tensors of a GPT-2 of one layer, and its config.json.
enum { TEST_GPT2_TENSORS = 16 };
extern const test_tensor test_gpt2_tensors[TEST_GPT2_TENSORS];
extern const char test_gpt2_config[];
#endif
