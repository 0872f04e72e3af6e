// The textual grammar of all stages, out and in. Grammar: docs/ir.md.
#ifndef BD_IR_PRINT_H
#define BD_IR_PRINT_H
#include "ir/base/text.h"
#include "ir/module.h"

// Deterministic; parsing the text and printing again gives the same bytes.
void bd_module_print(const bd_module *module, bd_text *text);

// Reads a module and verifies it. Errors: BD_INVALID at line and column.
BD_NODISCARD bd_status bd_module_parse(bd_ctx *ctx, const char *file, const char *data,
                                       size_t bytes, bd_module **out_module);

// Checks every rule of the module's stage: SSA, arities, attributes, types against index rules,
// call signatures, forward/backward pairs, shardings within the mesh, no overlapping live
// placements. Errors: BD_INVALID with the op's place.
BD_NODISCARD bd_status bd_module_verify(bd_ctx *ctx, const bd_module *module);
#endif
