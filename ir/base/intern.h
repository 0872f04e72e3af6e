// The table behind bd_intern: one per session, shared by a context and its children.
#ifndef BD_IR_BASE_INTERN_H
#define BD_IR_BASE_INTERN_H
#include "ir/base/context.h"

typedef struct bd_intern bd_intern_table;

// NULL when out of memory.
bd_intern_table *bd_intern_create(void);
void bd_intern_destroy(bd_intern_table *table);

// The arena of the strings, for tests that make it run out.
bd_arena *bd_intern_arena(bd_intern_table *table);

// Ends the innermost bd_ctx_run of `ctx`: the arena hook of a context.
_Noreturn void bd_ctx_exhausted(bd_ctx *ctx, size_t wanted_bytes);
#endif
