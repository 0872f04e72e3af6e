// Private to partition: attention as two ops on a rank, one for an early chunk of the queries and
// one for a late chunk, which the rank swaps with the one at the mirrored place of the mesh.
#ifndef BD_IR_PARTITION_BALANCE_H
#define BD_IR_PARTITION_BALANCE_H
#include "ir/index.h"
#include "ir/partition_values.h"

// The chunks of a value with queries, as the two ops read or make them; BD_NO_ID: not yet made.
typedef struct bd_chunks {
  bd_id half[2]; // the second one mirrored
  int group;     // of the op that they were first made for
} bd_chunks;

// Such an op of the source function under its split: what it reads of each operand and makes of
// each result, whose types are `types`, and the queries in a chunk.
typedef struct bd_balanced {
  const bd_op *op;
  const bd_index_map *map;
  const bd_type *types;
  const bd_sharding *need, *made;
  const int8_t *split;
  int64_t chunk;
} bd_balanced;

// Appends both ops, and what brings them their operands. `chunks`: per source value; those of
// operands and results become known, but those that an op of the same group, which attention run
// again and its gradient have, made in the right sharding are there. Of a result without queries
// they are two summands.
BD_NODISCARD bd_status bd_balance_op(bd_versions *versions, bd_chunks *chunks,
                                     const bd_balanced *balanced);

// Appends what makes a result whole in its own place, as value `out`: its chunks brought back and
// joined, or its summands added.
void bd_balance_result(bd_versions *versions, const bd_chunks *chunks, const bd_balanced *balanced,
                       int result, bd_id out);
#endif
