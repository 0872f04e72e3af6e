// What kernels that work row by row share.
#ifndef BD_CODEGEN_KERNEL_ROWS_H
#define BD_CODEGEN_KERNEL_ROWS_H
#include "codegen/kernel/gen.h"

// Items are the rows of an operand: its leading dimensions; lanes run along the last one.
bd_gen_nest bd_gen_row_nest(const bd_gen *g, int operand);

// A scalar f64 rounded to f32.
LLVMValueRef bd_gen_to_f32(bd_gen *g, LLVMValueRef scalar);
#endif
