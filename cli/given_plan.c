#include "cli/given_plan.h"
#include <string.h>

// An option that pins what the plan says as well.
typedef struct pin {
  const char *option;
  bool agrees;
} pin;

static bool same_mesh(const bd_mesh *a, const bd_mesh *b) {
  bool same = a->axes == b->axes;
  for (int axis = 0; same && axis < a->axes; axis++)
    same = a->size[axis] == b->size[axis];
  return same;
}

static bd_status check_pins(bd_ctx *ctx, const char *path, const bd_arguments *arguments,
                            const bd_plan_request *request, const bd_plan *plan) {
  const pin pins[] = {
      {"--global-batch", request->global_batch == plan->global_batch},
      {"--optimizer", strcmp(request->optimizer, plan->optimizer) == 0},
      {"--stages", request->stages == plan->stages},
      {"--mesh", same_mesh(&request->mesh, &plan->mesh)},
      {"--micro-batch", request->micro_batch == plan->micro_batch},
      {"--schedule", request->schedule == (int)plan->schedule},
      {"--zero", request->zero == (plan->zero_axes != 0)},
  };
  for (size_t i = 0; i < sizeof pins / sizeof *pins; i++) {
    const char *value = bd_argument(arguments, pins[i].option);
    if (value && !pins[i].agrees)
      return bd_fail(ctx, BD_INVALID, bd_loc_file(path), "the plan says otherwise; leave %s %s out",
                     pins[i].option, value);
  }
  static const char *const open[] = {"--pin", "--forbid", "--partial"};
  for (size_t i = 0; i < sizeof open / sizeof *open; i++)
    if (bd_argument(arguments, open[i]))
      return bd_fail(ctx, BD_INVALID, bd_loc_file(path),
                     "a plan that is given is not searched for; leave %s out", open[i]);
  if (bd_argument(arguments, "--recompute"))
    return bd_fail(ctx, BD_INVALID, bd_loc_file(path),
                   "the plan says of each value whether it is saved; leave --recompute out");
  return BD_OK;
}

bd_status bd_given_plan_accept(bd_ctx *ctx, const char *path, const bd_arguments *arguments,
                               const bd_cluster *cluster, const bd_plan_request *request,
                               bd_plan *plan) {
  BD_TRY(check_pins(ctx, path, arguments, request, plan));
  BD_TRY(bd_plan_check_bytes(ctx, cluster, request->cap_bytes, plan));
  plan->cap_bytes = bd_plan_cap_bytes(cluster, request->cap_bytes, plan);
  // Bounds and alternatives were another's: of the plan before it was edited, or of another
  // cluster.
  plan->bound_seconds = plan->gap = 0;
  plan->search = NULL;
  plan->alternative_count = 0;
  return BD_OK;
}
