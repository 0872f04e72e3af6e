#include "ir/free_names.h"

bd_free_names bd_free_names_of(bd_ctx *ctx, const bd_function *function) {
  bd_free_names names = {ctx, bd_name_map_init(ctx->arena)};
  for (bd_id v = 0; v < function->value_count; v++)
    bd_name_map_add(&names.taken, function->values[v].name, v);
  return names;
}

const char *bd_free_names_take(bd_free_names *names, const char *wanted) {
  const char *name = bd_intern_z(names->ctx, wanted);
  for (int number = 2; !bd_name_map_add(&names->taken, name, -1); number++)
    name = bd_intern_f(names->ctx, "%s.%d", wanted, number);
  return name;
}
