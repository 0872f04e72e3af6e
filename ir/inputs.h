// The inputs of a module's main.
#ifndef BD_IR_INPUTS_H
#define BD_IR_INPUTS_H
#include "ir/module.h"

// The number of the first input of a kind, or -1.
int bd_input_find(const bd_module *module, bd_input_kind kind);

// Elements of one sample of it.
int64_t bd_input_elements(const bd_module *module, int input);

// What its elements must be below: the first extent of operand 0, or the last, of an op of `kind`
// that has the input as operand 1, rows of a table or classes of a loss. 0: no op has it.
int64_t bd_input_indexes(const bd_module *module, bd_op_kind kind, int input, bool last);
#endif
