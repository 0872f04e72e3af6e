// Which bytes of a call's memory the steps of a function of an exec module touch.
#ifndef BD_CODEGEN_TOUCH_H
#define BD_CODEGEN_TOUCH_H
#include "ir/fuse.h"

// Bytes of the workspace or of a slot of the tape; empty for what lies elsewhere, which every call
// is given apart.
typedef struct bd_stretch {
  bd_segment segment;
  int64_t start, end;
} bd_stretch;

bd_stretch bd_stretch_of(const bd_module *module, const bd_function *function, bd_id value);
bool bd_stretch_meet(bd_stretch a, bd_stretch b);

// Whether an op reads the bytes, or works in them (`scratch`).
bool bd_op_reads(const bd_module *module, const bd_function *function, const bd_op *op,
                 bd_stretch bytes);
// Whether a step writes them, or works in them.
bool bd_step_writes(const bd_module *module, const bd_function *function, const bd_fusion *fusion,
                    int step, bd_stretch bytes);
// Whether a step reads or writes them.
bool bd_step_touches(const bd_module *module, const bd_function *function, const bd_fusion *fusion,
                     int step, bd_stretch bytes);
#endif
