#include "tests/unit/context.h"
#include "ir/base/context.h"

int make_ctx(void **state) {
  *state = bd_ctx_create();
  return *state ? 0 : -1;
}

int drop_ctx(void **state) {
  bd_ctx_destroy(*state);
  return 0;
}
