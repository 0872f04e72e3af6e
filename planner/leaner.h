// How lean plans get where none fits.
#ifndef BD_PLANNER_LEANER_H
#define BD_PLANNER_LEANER_H
#include "planner/batch.h"

// Whether anything holds less than the leanest plan: leaner ones are looked for a byte below the
// last, and in ever longer steps once several were found, until there is none a byte below. So what
// a refusal asks for is exact as far as this search can tell. A rough search only makes sure that
// nothing fits. A plan that fits after all is taken in hand.
BD_NODISCARD bd_status bd_search_confirm_leanest(bd_search *search);
#endif
