#include "ir/passes/recover/route.h"
void bd_stack_weights(bd_ctx *ctx, bd_module *module, int *changes) {
  (void)ctx;
  (void)module;
  (void)changes;
}
