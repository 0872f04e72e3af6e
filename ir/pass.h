// Passes: named functions from one module to the next. `ir/passes.def` lists them.
#ifndef BD_IR_PASS_H
#define BD_IR_PASS_H
#include "ir/print.h"

typedef bd_status (*bd_pass_run)(bd_ctx *ctx, const bd_module *in, bd_module **out_module);

typedef struct bd_pass {
  const char *name;
  bd_stage before, after;
  const char *summary;
  bd_pass_run run;
} bd_pass;

#define BD_PASS(NAME, spelling, before, after, summary)                                            \
  BD_NODISCARD bd_status bd_pass_##NAME(bd_ctx *ctx, const bd_module *in, bd_module **out_module);
#include "ir/passes.def"
#undef BD_PASS

// NULL: there is none of that name.
const bd_pass *bd_pass_find(const char *name);

// The list that makes a training module, in this precision (f32, bf16, f16 or f8), of a graph in
// f32, for a target: "cuda" or "cpu". BD_MASTERS_NONE goes with bf16 only, BD_GRADIENTS_BF16 with
// that.
const char *bd_training_passes(bd_dtype precision, bd_masters masters, bd_gradients gradients,
                               const char *target);

// All of them, for diagnostics: "canonicalize, cse, ...".
const char *bd_pass_names(bd_ctx *ctx);

// Whether all passes of a comma-separated list are known, and `print_after` (a pass, "all" or
// NULL). Errors: BD_INVALID.
BD_NODISCARD bd_status bd_pass_check_list(bd_ctx *ctx, const char *names, const char *print_after);

// Runs a comma-separated list, verifying after each. `print_after`: a pass name, "all" or NULL; the
// modules go to `stream`.
BD_NODISCARD bd_status bd_pass_run_list(bd_ctx *ctx, const char *names, const char *print_after,
                                        FILE *stream, const bd_module *in, bd_module **out_module);
#endif
