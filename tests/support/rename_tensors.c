// Copies a safetensors file under other names: tensors whose names begin with BEFORE stand there for
// each NOW, with which their names begin instead.
//   rename_tensors FROM TO BEFORE NOW...
#include "tests/support/tensor_names.h"

int main(int argc, char **argv) {
  if (argc < 5) {
    fprintf(stderr, "usage: rename_tensors FROM TO BEFORE NOW...\n");
    return 2;
  }
  bd_ctx *ctx = bd_ctx_create();
  if (!ctx) return 2;
  const bd_status status = bd_tensor_names_change(ctx, argv[1], argv[2], argv[3], argc - 4,
                                                  (const char *const *)argv + 4);
  bd_diags_print(ctx, stderr, false);
  bd_ctx_destroy(ctx);
  return bd_status_exit_code(status);
}
