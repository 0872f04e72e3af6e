// Arenas for a module that is written anew, step by step: what a step makes is kept whole, and what
// it took goes.
#ifndef BD_IR_PASSES_STAGES_H
#define BD_IR_PASSES_STAGES_H
#include "ir/module.h"

typedef struct bd_stages {
  bd_ctx *ctx;
  bd_arena *results, *scratch, *kept[2];
  bd_owned held[3];
  int turn;
} bd_stages;

// From here on ctx->arena is for the next step. `stages` is the caller's, and stays where it is
// until bd_stages_end.
void bd_stages_begin(bd_ctx *ctx, bd_stages *stages);
// Ends a step: a copy of what it made, good until the end of the next step.
bd_module *bd_stages_keep(bd_stages *stages, const bd_module *made);
// Frees all; ctx->arena is what it was. A copy of `last` in it, unless that is NULL.
bd_module *bd_stages_end(bd_stages *stages, const bd_module *last);
#endif
