// Gathers of weights that may begin before other steps of their function, or of the call before,
// beside which they run.
#ifndef BD_CODEGEN_PREFETCH_H
#define BD_CODEGEN_PREFETCH_H
#include "codegen/beside.h"

enum { BD_PREFETCH_AHEAD = -1 };

// A function's steps. `begin`, per step: the step before which its work begins, which is the step
// itself but for gathers that are prefetched: of weights (ZeRO 3), into bytes of the workspace that
// no step in between touches; BD_PREFETCH_AHEAD for those that nothing of the function hinders,
// which begin before the call. `slot`, per step that begins elsewhere: its number below
// BD_RT_PREFETCHES; of those that begin before the call no other function has it. Steps come in the
// order of `beside`, the slots of which no gather has.
typedef struct bd_prefetch {
  bd_fusion fusion;
  bd_epilogues epilogues;
  bd_beside beside;
  int *begin, *slot;
} bd_prefetch;

// Per function of a placed module. On CPUs every step begins itself.
const bd_prefetch *bd_prefetch_find(bd_ctx *ctx, const bd_module *module);

// The call (an op of main) that follows a call in its pass on its stage, or -1.
int bd_prefetch_next(const bd_module *module, int call);

// Before which step of function `before` the gather of a step that begins before the call of
// `function` can begin, when that is called next: what is left of `before` does not touch the
// bytes. The step count of `before` when that is its end.
int bd_prefetch_start(const bd_module *module, const bd_prefetch *all, int before, int function,
                      int step);
#endif
