// What the writers of a stage's passes share: the pass, loops over its ops, and where values are
// in each iteration.
#ifndef BD_CODEGEN_EMIT_PASS_H
#define BD_CODEGEN_EMIT_PASS_H
#include "codegen/emit.h"

// The forward or the backward pass of a stage, being written.
typedef struct bd_emit_pass {
  bd_emitter *emitter;
  const bd_function *main;
  bd_text *text;
  const int *forward_call; // per op of main: number of the forward call, or of the one it derives
  const bool *awaited;     // per value of main: see bd_emit_awaited
} bd_emit_pass;

// A run of `count` iterations of `period` consecutive ops of the stage.
typedef struct bd_emit_repeat {
  const int *ops; // indices into main, of all iterations in order
  int period, count;
} bd_emit_repeat;

// An op of a loop's body: the op of main that it is in each iteration.
typedef struct bd_emit_looped {
  const int *ops;
  int count;
} bd_emit_looped;

// The longest stretch from the first of `count` ops on that is one body repeated. What advances
// evenly for most of it stops there: the last layer of a stage may differ. Else tables serve.
bd_emit_repeat bd_emit_find_repeat(const bd_emit_pass *pass, const int *ops, int count);
// The op at `position` of the body; the array lives in the context's arena.
bd_emit_looped bd_emit_loop_op(const bd_emit_pass *pass, const bd_emit_repeat *repeat,
                               int position);

// The function that an op of main calls; NULL of other ops.
const bd_function *bd_emit_callee(const bd_emit_pass *pass, const bd_op *op);
// The function whose gathers begin in a call, or -1.
int bd_emit_ahead_of(const bd_emit_pass *pass, const bd_op *call);

// What op `op` of main is given: what a backward call restores, then the operands.
int bd_emit_given_count(const bd_emit_pass *pass, int op);
bd_place bd_emit_given_place(const bd_emit_pass *pass, int op, int index);
bd_place bd_emit_result_place(const bd_emit_pass *pass, int op, int index);
// Of main's gradient of the loss, on the stage where a call reads it.
bd_place bd_emit_loss_gradient_place(const bd_emit_pass *pass);

// Per value of main: whether it is a weight whose update ranks of the stage share, and that none of
// its forward calls gathers from parts: they take it as it lies, and it may be gathered until then.
const bool *bd_emit_awaited(const bd_emitter *emitter);
// Whether operand `index` of op `op` of main is one, and the op a call that reads it.
bool bd_emit_awaits(const bd_emit_pass *pass, const bd_op *op, int index);

// C expressions, to the pass's text: the address that is `places` over `count` iterations, and that
// of what an op is given or of its result.
void bd_emit_places(const bd_emit_pass *pass, const bd_place *places, int count);
void bd_emit_given(const bd_emit_pass *pass, bd_emit_looped op, int index);
void bd_emit_result(const bd_emit_pass *pass, bd_emit_looped op, int index);

// The call of a layer, with what it begins for the calls after it.
void bd_emit_layer_call(const bd_emit_pass *pass, bd_emit_looped call);
// The gathers of the first call among ops [first, end) of main, which begin with the pass.
void bd_emit_first_gathers(const bd_emit_pass *pass, int first, int end);
#endif
