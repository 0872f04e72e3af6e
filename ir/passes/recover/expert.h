// What an expert computes of a token: ops that act on each row alone, with matrices and biases that
// are the expert's own. Experts are read side by side, and emitted once for all of them.
#ifndef BD_IR_PASSES_RECOVER_EXPERT_H
#define BD_IR_PASSES_RECOVER_EXPERT_H
#include "ir/passes/recover/trace.h"

// What a dimension of a value within an expert is.
typedef enum bd_expert_role {
  BD_EXPERT_BATCH,
  BD_EXPERT_TOKEN,
  BD_EXPERT_CHOICE, // repeated for every choice of a token
  BD_EXPERT_NUMBER, // of the expert, where matrices of all are one
  BD_EXPERT_FEATURE,
} bd_expert_role;

enum { BD_EXPERT_MOST_NODES = 64 };

typedef struct bd_expert_node bd_expert_node;

typedef struct bd_experts {
  bd_edit *e;
  int count;    // of experts
  int lanes;    // values that are read side by side: `count`, or 1 whose weights are of all experts
  bd_id chosen; // result of the topk by which tokens choose
  // Where lanes is 1 and weights are looked up, per value of e->from: whether it follows from
  // `chosen`. NULL: all experts are given all tokens.
  const bool *follows;
  bd_id x; // what all experts are given, [batch, token, features..]; BD_NO_ID: not found
  int node_count, depth;
  bd_expert_node *nodes;
} bd_experts;

// Nodes for a reading, in e->ctx->arena.
bd_expert_node *bd_experts_room(bd_edit *e);
// Reads the values `ids`, a lane each, whose dimensions are `roles`. *out: the node that they are.
// False: they are something else than experts of one kind.
bool bd_experts_read(bd_experts *x, const bd_id *ids, const bd_expert_role *roles, int *out);
// Emits a node and all that it is made of, for tokens [batch, expert, place, features..]. *out has
// that form.
BD_NODISCARD bd_status bd_experts_emit(bd_experts *x, int node, bd_id placed, bd_id *out);
// `head`, then a letter for each of so many features: a part of a rule.
void bd_experts_letters(const char *head, int features, char *out);
#endif
