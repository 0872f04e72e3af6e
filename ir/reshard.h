// The way from one sharding to another, without the program: for comparing and costing ways.
#ifndef BD_IR_RESHARD_H
#define BD_IR_RESHARD_H
#include "ir/mesh.h"
#include "ir/op.h"

#define BD_MAX_RESHARD_STEPS 64

// One collective along one mesh axis.
typedef struct bd_reshard_step {
  bd_op_kind kind;
  int axis;
  bd_sharding before, after;
} bd_reshard_step;

// The collectives that bd_reshard (ir/partition.h) appends, in order; returns how many. `to`
// differs from a partial of `from` only by being no partial.
int bd_reshard_steps(const bd_mesh *mesh, const bd_sharding *from, const bd_sharding *to,
                     bd_reshard_step out_steps[BD_MAX_RESHARD_STEPS]);

// How dear the collectives from one sharding to another are, to choose among versions of one value:
// 0 when they only cut replicas, -1 when there is no way. `to` differs from a partial of `from`
// only by being no partial.
int bd_reshard_rank(const bd_mesh *mesh, const bd_sharding *from, const bd_sharding *to);
#endif
