// Differentiation of one function, for the pass `autodiff`.
#ifndef BD_IR_PASSES_AUTODIFF_H
#define BD_IR_PASSES_AUTODIFF_H
#include "ir/op_semantics.h"

// Which values depend on active parameters by ops that have gradients. `out_active`: per value.
void bd_autodiff_propagate(const bd_function *function, const bool *active_params,
                           bool *out_active);

// Makes the backward function of `forward`, which becomes its peer and gets its `saves`: all
// parameters, then the values that the backward function reads. Gradients come in for the results
// where `result_has`, in order, and go out for those parameters where `need` that they reach. Every
// result of the backward function is made by an op and stands once. It lives in ctx->arena.
// Errors: BD_UNSUPPORTED where a result that no gradient is defined for would need one.
BD_NODISCARD bd_status bd_autodiff_function(bd_ctx *ctx, bd_function *forward, const bool *need,
                                            const bool *result_has, const char *name,
                                            bd_function **out_backward);
#endif
