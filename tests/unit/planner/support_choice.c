#include "tests/unit/planner/support_choice.h"
#include <math.h>

double exhaustive_choice(bd_ctx *ctx, const bd_choice_problem *p) {
  int *option = BD_NEW_ARRAY(ctx->arena, int, p->nodes);
  double best = INFINITY;
  for (;;) {
    double cost, usage;
    bd_choice_evaluate(p, option, &cost, &usage);
    if (usage <= p->budget && cost < best) best = cost;
    int i = 0;
    while (i < p->nodes && ++option[i] == p->node[i].options)
      option[i++] = 0;
    if (i == p->nodes) return best;
  }
}
