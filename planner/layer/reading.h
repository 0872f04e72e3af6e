// Private to the layer problem: what ops read of values from elsewhere, and what bringing it to
// them takes.
#ifndef BD_PLANNER_LAYER_READING_H
#define BD_PLANNER_LAYER_READING_H
#include "planner/choice/choice.h"
#include "planner/layer/space.h"

// One operand of one op that reads a value of another cluster or of the boundary.
typedef struct bd_reading {
  int op, operand;
  bd_id value;
  bool flows, may_stay_partial;
  double handed_share; // bd_layer_handed_share
} bd_reading;

bd_reading bd_layer_reading(const bd_layer_space *space, int op, int operand);

// What an operand's gradient looks like as an op split so makes it: partial over axes whose loop
// the operand lacks.
bd_sharding bd_layer_operand_gradient(const bd_layer_space *space, int op, int operand,
                                      const int8_t split[BD_MAX_AXES]);

// Where a value may come from: its forms, and for each, where its gradient is wanted. `passed`: and
// where an op wants it for which additions hand it on as it is; NULL where there is none. Backward
// brings it to one from the other, or to both as it comes.
typedef struct bd_sources {
  int count;
  bd_sharding *form, *home, *passed;
} bd_sources;

// The least seconds of bringing a gradient to both places where it is wanted, given those of
// bringing it to either. INFINITY where it must not go home.
double bd_layer_bring_both(bd_layer_space *space, bd_id value, const bd_sharding *home,
                           double home_seconds, const bd_sharding *passed, double passed_seconds);

// Adds to cost[source][i] the seconds to carry a value from its form to a cluster under its option
// number options[i], its gradient back to where it is wanted, and the value again to backward. What
// several readers want is shared among them. What only this call needs lies in `scratch`.
void bd_layer_add_carrying(bd_arena *scratch, bd_layer_space *space, const bd_reading *reading,
                           const bd_sources *from, const bd_cluster_ops *to, const int *options,
                           int count, double *cost);

// Of the seconds of bd_layer_add_carrying, those to carry the value from `from`, a source per
// option of its producer, to the cluster under each of its options: no more than all of them, and
// few classes. They become the edge's, and live in `arena`. False where its costs would be more
// than `most`.
bool bd_layer_carry_there(bd_arena *arena, bd_arena *scratch, bd_layer_space *space,
                          const bd_reading *reading, const bd_sources *from,
                          const bd_cluster_ops *to, int64_t most, bd_choice_edge *edge);
#endif
