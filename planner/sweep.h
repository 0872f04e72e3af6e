// In which order a search attempts its settings, and until when.
#ifndef BD_PLANNER_SWEEP_H
#define BD_PLANNER_SWEEP_H
#include "planner/batch.h"

// The least bound first, until none can beat the plan in hand; a lean search until it has one.
BD_NODISCARD bd_status bd_sweep_fastest(bd_search *search);

// When nothing fits, settings that cannot fit are looked at as well, the leanest first: all of
// them, or until there is a plan below whose bytes others are looked for.
BD_NODISCARD bd_status bd_sweep_leanest(bd_search *search);

// Until there is a plan: every setting that may have one.
BD_NODISCARD bd_status bd_sweep_lean(bd_search *search);

// Whether any plan fits: settings are bounded, and the leanest few solved. Those of fine meshes are
// left out where bytes tell that no other fits.
BD_NODISCARD bd_status bd_sweep_any(bd_search *search);
#endif
