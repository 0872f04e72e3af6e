// The rules of a module, split by what they look at. Errors of all: BD_INVALID at the op's or
// function's place.
#ifndef BD_IR_VERIFY_INTERNAL_H
#define BD_IR_VERIFY_INTERNAL_H
#include "ir/name_map.h"
#include "ir/print.h"

typedef struct bd_verifier {
  bd_ctx *ctx;
  const bd_module *module;
  bd_name_map functions; // to their numbers in the module
} bd_verifier;

// The function of that name, or NULL.
const bd_function *bd_verifier_find(const bd_verifier *v, const char *name);

// Extents are positive, and the type has at most BD_MAX_ELEMENTS elements at the micro-batch (one
// sample while it is not yet known).
BD_NODISCARD bd_status bd_verify_type(bd_verifier *v, bd_loc loc, const char *name,
                                      const bd_type *type);
// Values, their names, types and shardings; every operand is defined above its use.
BD_NODISCARD bd_status bd_verify_values(bd_verifier *v, const bd_function *function);
// One op by itself: level, arity, attributes, group, split, and types against its index rule.
BD_NODISCARD bd_status bd_verify_op(bd_verifier *v, const bd_function *function, int index);
// Roles, peers, saved and restored values, and what a backward function returns.
BD_NODISCARD bd_status bd_verify_pair(bd_verifier *v, const bd_function *function);
// What counts over the samples of a rank.
BD_NODISCARD bd_status bd_verify_pool(bd_verifier *v, const bd_function *function);
// main: its parameters, calls and results.
BD_NODISCARD bd_status bd_verify_main(bd_verifier *v);
// exec: no two values that live at once share bytes of the workspace or of a tape slot.
BD_NODISCARD bd_status bd_verify_places(bd_verifier *v, const bd_function *function);
#endif
