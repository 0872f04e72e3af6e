// Private to ir: comparing the ways to a sharding.
#ifndef BD_IR_RESHARD_H
#define BD_IR_RESHARD_H
#include "ir/mesh.h"

// How dear the collectives from one sharding to another are, to choose among versions of one value:
// 0 when they only cut replicas, -1 when there is no way. `to` differs from a partial of `from` only
// by being no partial.
int bd_reshard_rank(const bd_mesh *mesh, const bd_sharding *from, const bd_sharding *to);
#endif
