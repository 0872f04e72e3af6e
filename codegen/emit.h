// What the writers of C share: the module, the kernels given out so far, and the file being
// written.
#ifndef BD_CODEGEN_EMIT_H
#define BD_CODEGEN_EMIT_H
#include "codegen/codegen.h"
#include "codegen/epilogue.h"
#include "codegen/fused.h"
#include "codegen/kernel/kernel.h"
#include "codegen/prefetch.h"
#include "ir/layout.h"

// A logical extent split over mesh axes: where a rank's part starts and how long it is, known at
// start.
typedef struct bd_emit_range {
  int64_t extent;
  uint32_t axes;
} bd_emit_range;

typedef struct bd_emitter {
  bd_ctx *ctx;
  bd_module *module;
  const bd_plan *plan;
  bd_kernel_set *kernels;
  int kernel_count;
  int **step_kernel; // per function of the module, per step: its kernel's number, or -1; NULL until
                     // seen
  int *sum_kernel;   // per op of main: the kernel of a sum of gradients, or -1
  const bd_prefetch *prefetch; // per function
  const bd_fused *fused;       // likewise
  // Of the stage being written:
  bd_layout layout;
  bd_text *text;
  int range_count, range_capacity;
  bd_emit_range *ranges;
  int instruction_count; // of all stages so far
  bd_text *instructions; // their rows of the program's table
  int table_count;
  bd_text *tables; // static tables of what does not advance evenly
  int extra_count;
  const bd_emit_extra *extras; // that the README names
} bd_emitter;

// One function being written.
typedef struct bd_emit_body {
  bd_emitter *emitter;
  const bd_function *function;
  bd_text *text;
  bool *fetched; // per value: the host has the ends of groups that it holds
} bd_emit_body;

// Mesh axes (bit mask, those of size 1 left out) along which the value's sharding says `at`.
uint32_t bd_emit_axes(const bd_module *module, const bd_sharding *sharding, int at);
// The runtime's name of an element type ("BD_RT_F32"), and the C type of its elements.
const char *bd_emit_dtype(bd_dtype dtype);
const char *bd_emit_c_type(bd_dtype dtype);
int64_t bd_emit_elements(const bd_module *module, const bd_value *value);
// The members of a call's shape that say to which formats of 8 bits an op's factors are rounded,
// the second's first where they are `swapped`, and where they have room for that. Nothing for
// factors that are not rounded. Whether they have room.
bool bd_emit_float8(const bd_emit_body *body, const bd_op *op, bool swapped);

// C expressions of the first index and valid count of an extent split over `axes`.
const char *bd_emit_start(bd_emitter *emitter, int64_t extent, uint32_t axes);
const char *bd_emit_count(bd_emitter *emitter, int64_t extent, uint32_t axes);
// Of dimension `dim` of a value.
const char *bd_emit_dim_start(bd_emitter *emitter, const bd_value *value, int dim);
const char *bd_emit_dim_count(bd_emitter *emitter, const bd_value *value, int dim);

// The kernels of a function, generated when first asked for.
BD_NODISCARD bd_status bd_emit_kernels(bd_emitter *emitter, int function);
BD_NODISCARD bd_status bd_emit_sum_kernel(bd_emitter *emitter, int op);
// A call of the kernels `number`, `number` + 1, .. of a step that begins with `first_op`, on
// `buffers` and `random`, which are C expressions.
typedef struct bd_emit_call {
  int first_op, number, parts, buffer_count;
  const char *buffers, *random;
} bd_emit_call;
BD_NODISCARD bd_status bd_emit_kernel_call(bd_emitter *emitter, bd_text *text,
                                           const bd_function *function, const bd_emit_call *call);

// Which parts of its frame a function needs, beyond its values: of function `number` main's
// gradient of the loss among them.
bool bd_emit_makes_gradient(const bd_emitter *emitter, int number);
bool bd_emit_uses_random(const bd_function *function);
bool bd_emit_uses_tape(const bd_function *function);
bool bd_emit_uses_workspace(const bd_function *function);
// Whether main passes parameter `index` (what is restored from the tape is found there).
bool bd_emit_is_passed(const bd_function *function, int index);

// Ops [first, first + count) of a function.
typedef struct bd_emit_ops {
  int first, count;
} bd_emit_ops;
// The number of a new instruction that runs some ops of a function and `more` with them: step
// `step` of function `number` of the module, or -1 and an op of main.
int bd_emit_instruction(bd_emitter *emitter, int number, int step, const bd_function *function,
                        bd_emit_ops ops, bd_emit_ops more);
// Begins such an instruction; returns its number.
int bd_emit_mark(bd_emitter *emitter, bd_text *text, int number, int step,
                 const bd_function *function, bd_emit_ops ops, bd_emit_ops more);

// The C function of a layer: function `function` of the module, to the emitter's text.
BD_NODISCARD bd_status bd_emit_function(bd_emitter *emitter, int function);
// A step that is a call of the runtime.
BD_NODISCARD bd_status bd_emit_library_op(const bd_emit_body *body, const bd_op *op);
// Of attention that cuDNN may do: the condition under which the kernel call that follows runs. Of
// other ops nothing.
void bd_emit_attend(const bd_emit_body *body, const bd_op *op);
BD_NODISCARD bd_status bd_emit_embed_dw(const bd_emit_body *body, const bd_op *op);
BD_NODISCARD bd_status bd_emit_contract(const bd_emit_body *body, const bd_op *op);
// A product of rows in groups, and before it what brings the ends of its groups to the host.
BD_NODISCARD bd_status bd_emit_grouped(const bd_emit_body *body, const bd_op *op);
// How many ends of groups a function brings there: its room for them.
int64_t bd_emit_ends(const bd_function *function);
// A product in parts and the collective that sums it: one part of each, in a loop over `part`.
typedef struct bd_emit_part {
  const bd_op *product, *collective;
  const bd_parts *parts;
} bd_emit_part;
void bd_emit_contract_part(const bd_emit_body *body, const bd_emit_part *part);
void bd_emit_collective_part(const bd_emit_body *body, const bd_emit_part *part);
// A product with an epilogue: the condition of the statement that follows, which does the work of
// the other step where the library cannot.
void bd_emit_epilogue(const bd_emit_body *body, const bd_op *op, const bd_epilogue *epilogue);
// A collective, reading and writing C expressions.
void bd_emit_collective(bd_emitter *emitter, bd_text *text, const bd_function *function,
                        const bd_op *op, const char *in, const char *out);

// Whether a call of function `number` on this stage is followed by one whose gathers begin before
// step `step` of it (-1: before any step, or after all).
bool bd_emit_begins_ahead(const bd_emitter *emitter, int number, int step);
// The same gather as fields of a bd_rt_gather, without what says where and when.
void bd_emit_gather(bd_emitter *emitter, bd_text *text, const bd_function *function,
                    const bd_op *op);
// A gather of a function's weight that begins here and ends at bd_rt_await(rt, slot).
void bd_emit_prefetch(bd_emitter *emitter, bd_text *text, const bd_function *function,
                      const bd_op *op, int slot);

// forward, backward and the step of the stage.
BD_NODISCARD bd_status bd_emit_stage_main(bd_emitter *emitter);

// Integers over the iterations of a loop as one C expression: a constant, `base + i * stride`, or
// an entry of a table.
void bd_emit_series(bd_emitter *emitter, bd_text *text, const int64_t *values, int count);

// The table of a stage's weights: `runsN`.
void bd_emit_weights(bd_emitter *emitter, const bd_layout *layouts, int stage, bd_text *text);
// main.c: the tables of weights and stages.
BD_NODISCARD bd_status bd_emit_program(bd_emitter *emitter, const bd_layout *layouts,
                                       bd_text *text);
// Whether a program calls oneDNN: it alone convolves.
bool bd_emit_convolves(const bd_module *module);
// What surrounds it: the Makefile, and how stages call kernels.
void bd_emit_makefile(const bd_emitter *emitter, bd_text *text);
void bd_emit_evaluation_makefile(const bd_emitter *emitter, bd_text *text);
void bd_emit_kernel_header(const bd_emitter *emitter, bd_text *text);
// The page that tells how the folder is built and run, and what its files are.
void bd_emit_readme(const bd_emitter *emitter, bd_text *text);
// The assembler file that embeds the device code.
void bd_emit_device_code(bd_text *text);
#endif
