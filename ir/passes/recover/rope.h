// Rotary positions written out: x * cos + rotate_half(x) * sin, by tables of places times powers of
// one number.
#ifndef BD_IR_PASSES_RECOVER_ROPE_H
#define BD_IR_PASSES_RECOVER_ROPE_H
#include "ir/passes/recover/edit.h"

bd_status bd_recover_rope(bd_edit *e, const void *user);
#endif
