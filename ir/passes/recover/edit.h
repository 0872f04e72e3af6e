// Rewriting one function op by op: a rule looks at each op in turn and may make others in its
// place. What the replaced ops alone needed is dropped afterwards.
#ifndef BD_IR_PASSES_RECOVER_EDIT_H
#define BD_IR_PASSES_RECOVER_EDIT_H
#include "ir/index.h"

// Who reads the values of a function.
typedef struct bd_readers {
  const int *first;      // per value, and one more: where its readers start
  const int *ops;        // ops that read it, in order; as often as they do
  const bool *is_result; // per value
} bd_readers;

typedef struct bd_edit {
  bd_ctx *ctx;
  const bd_function *from;
  bd_readers readers; // of `from`
  bd_function *to;    // NULL while nothing has changed
  bd_id *moved;       // per value of `from`: the one of `to`
  int at;             // the op of `from` that the rule looks at
  int copied;         // ops of `from` that `to` has, or has others for
  int changes;        // ops that were replaced
} bd_edit;

// In ctx->arena.
bd_readers bd_find_readers(bd_ctx *ctx, const bd_function *function);

// Looks at op `e->at` of `e->from`. To replace it: bd_edit_emit, then bd_edit_stand for each result
// that is read. Ops before it have their results in `to`, under bd_edit_value.
typedef bd_status (*bd_edit_rule)(bd_edit *e, const void *user);

// *function: rewritten where the rule has changed anything. Adds to *changes the ops replaced.
BD_NODISCARD bd_status bd_edit_run(bd_ctx *ctx, bd_edit_rule rule, const void *user,
                                   bd_function **function, int *changes);

// The value of `to` that holds a value of `from` made before the current op.
bd_id bd_edit_value(bd_edit *e, bd_id id);
// The type of a value of `to`.
const bd_type *bd_edit_type(const bd_edit *e, bd_id id);
// Makes an op in `to`; *out: its first result. The others are in order after it.
BD_NODISCARD bd_status bd_edit_emit(bd_edit *e, bd_op_kind kind, int in_count, const bd_id *in,
                                    int attr_count, const bd_attr *attrs, bd_id *out);
// `made`, of `to`, stands for `id`, a result of the current op.
void bd_edit_stand(bd_edit *e, bd_id id, bd_id made);

// The op of `from` that makes a value, or NULL for a parameter.
const bd_op *bd_edit_producer(const bd_edit *e, bd_id id);
// How often a value of `from` is read; being a result counts.
int bd_edit_reads(const bd_edit *e, bd_id id);
#endif
