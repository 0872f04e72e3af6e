// Private to experts: what an expert's computation is read as, a graph of nodes.
#ifndef BD_IR_PASSES_RECOVER_EXPERT_NODE_H
#define BD_IR_PASSES_RECOVER_EXPERT_NODE_H
#include "ir/passes/recover/expert.h"

typedef enum bd_expert_node_kind {
  BD_EXPERT_NODE_PLACED,
  BD_EXPERT_NODE_NUMBER,
  BD_EXPERT_NODE_WEIGHT,
  BD_EXPERT_NODE_APPLIED
} bd_expert_node_kind;

struct bd_expert_node {
  bd_expert_node_kind kind;
  bd_id id; // in the first lane
  bd_expert_role roles[BD_MAX_RANK];
  const bd_op *op;                                           // of what is applied
  int in[2];                                                 // its operands
  char letters[2][BD_MAX_RANK + 1], result[BD_MAX_RANK + 1]; // of a contraction
  double number;                                             // of a number
  const bd_id *weights; // of weights: one per lane; a looked-up one has all experts'
  int leading;          // of a looked-up weight, dimensions that are tokens'
  bd_id made;           // what it was emitted as, or BD_NO_ID
};

// The place of a letter, or -1.
int bd_expert_place_of(const char *letters, char letter);
#endif
