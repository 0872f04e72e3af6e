// What is left of a search once its plan is known: a bound that comes nearer to it.
#ifndef BD_PLANNER_CLOSING_H
#define BD_PLANNER_CLOSING_H
#include "planner/batch.h"

// Where the bound lies more than a little below the plan in hand: raises that of the settings that
// it is of, the least first, until it is near or the setting of the least bound has no dearer one
// (planner/bound/slowest.h). The plan stays. A search that ends in between is cut.
BD_NODISCARD bd_status bd_search_close(bd_search *search);
#endif
