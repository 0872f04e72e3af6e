// The order in which nodes are eliminated, cheapest first.
#ifndef BD_PLANNER_SELECT_BUCKET_PLAN_H
#define BD_PLANNER_SELECT_BUCKET_PLAN_H
#include "planner/select/bucket.h"

typedef struct bd_select_bucket_step {
  int node, member; // the member of the free set
  // Steps of the nodes of its table, the one eliminated last (outermost) first.
  int scope_count, scope[BD_SELECT_MOST_SCOPE];
} bd_select_bucket_step;

typedef struct bd_select_bucket_order {
  int count;
  bd_select_bucket_step *step;
  int *position; // of each node of the model: its step, or -1 when it is not eliminated
  struct bd_select_bucket_planner *planner;
} bd_select_bucket_order;

bd_select_bucket_order *bd_select_bucket_order_create(bd_ctx *ctx, const bd_select_model *model,
                                                      size_t entries);

// See bd_select_bucket_plan. Returns the work it was.
double bd_select_bucket_order_plan(bd_select_bucket_order *order, const bd_select_free_set *set,
                                   double cap, uint64_t *random);
#endif
