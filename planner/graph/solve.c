// Layer graphs solved: the best plan, and where there is none, by how much the caps are too small.
#include "planner/graph/lacking.h"
#include "planner/graph/search.h"

#define WORK ((int64_t)1 << 32)
#define HURRIED_WORK ((int64_t)1 << 25)

bd_status bd_layers_solve(bd_ctx *ctx, const bd_layers_problem *problem, bd_deadline deadline,
                          double cutoff, bool hurried, bd_layers_answer *out) {
  bd_layers_meter meter = {.deadline = deadline};
  bd_layers_aim aim = hurried ? BD_LAYERS_GOOD : BD_LAYERS_BEST;
  BD_TRY(bd_layers_search(ctx, problem, &meter, hurried ? HURRIED_WORK : WORK, cutoff, aim, out));
  if (hurried || out->found || isfinite(cutoff) || isfinite(out->bound)) return BD_OK;
  return bd_layers_find_lacking(ctx, problem, deadline, WORK, out);
}
