// What to say when the full space has no plan that fits.
#ifndef BD_PLANNER_FULL_REFUSE_H
#define BD_PLANNER_FULL_REFUSE_H
#include "planner/full/graphs.h"

// The leanest plan of the layer graphs in place of that of `of`, where it needs less.
void bd_full_take_leaner(const bd_full_graphs *graphs, bd_search_outcome *of);

// Nothing was found; `near` is what the default space came to, of any schedule where the one that
// is wanted is not emitted. Never BD_OK: as bd_plan_refuse, and BD_EXTERNAL after an interrupt.
BD_NODISCARD bd_status bd_full_refuse(const bd_full_graphs *graphs, bd_search_outcome *near);
#endif
