// Private to the layer problem: what bringing values from one form to another takes.
#ifndef BD_PLANNER_LAYER_RESHARD_H
#define BD_PLANNER_LAYER_RESHARD_H
#include "planner/layer/space.h"

// What is known of ways between forms; lives in `arena`.
typedef struct bd_reshards bd_reshards;
bd_reshards *bd_reshards_create(bd_arena *arena, const bd_function *forward);

// Seconds to bring forward value `value` from one form to another, as bd_cost_reshard: the sum over
// the collectives of bd_reshard_steps. Each is priced once, and ways are found once, as the rest of
// a way does not depend on how it began. `to` is nowhere partial.
double bd_layer_reshard_seconds(bd_layer_space *space, bd_id value, const bd_sharding *from,
                                const bd_sharding *to);
#endif
