// Names for the values that a pass adds to functions, each unlike all that are there.
#ifndef BD_IR_FREE_NAMES_H
#define BD_IR_FREE_NAMES_H
#include "ir/module.h"
#include "ir/name_map.h"

typedef struct bd_free_names {
  bd_ctx *ctx;
  bd_name_map taken;
} bd_free_names;

// No name of a value that the function has now is free. It lives in ctx->arena. Numbers, which
// values without a name get (bd_function_add_value), are not to be asked for.
bd_free_names bd_free_names_of(bd_ctx *ctx, const bd_function *function);

// `wanted`, or that with a number behind it; it is taken from then on. Interned.
const char *bd_free_names_take(bd_free_names *names, const char *wanted);
#endif
