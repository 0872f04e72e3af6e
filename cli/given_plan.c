#include "cli/given_plan.h"
#include "cli/machine.h"
#include "ir/base/file.h"
#include "ir/plan_details.h"
#include <math.h>
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
  // Bounds and alternatives may be another's: of the plan before it was edited, or of another
  // cluster.
  plan->bound_seconds = plan->gap = 0;
  plan->search = NULL;
  plan->alternative_count = 0;
  return BD_OK;
}

// No plan file may say a gap that its bound does not.
static bool is_sound(const bd_plan *plan) {
  double gap = plan->step_seconds / plan->bound_seconds - 1;
  return plan->bound_seconds > 0 && gap >= 0 && fabs(gap - plan->gap) <= 1e-9 * (1 + gap);
}

// Whether the cluster file that a plan names is the one that is given.
static bool names_one(bd_ctx *ctx, const char *path, const char *named, const char *given) {
  return named && given && bd_file_is_one(bd_machine_beside(ctx, path, named), given);
}

bd_status bd_given_plan_keep_record(bd_ctx *ctx, const char *path, const char *data, size_t bytes,
                                    const bd_module *train, bd_plan *plan) {
  bd_plan read, same = *plan;
  const char *cluster = plan->cluster;
  bd_plan_details *details = BD_NEW(ctx->arena, bd_plan_details);
  BD_TRY(bd_plan_parse(ctx, path, data, bytes, train, &read));
  if (!is_sound(&read)) return BD_OK;
  // The file may name the cluster from its own folder: compared as it stands there, kept as given.
  if (names_one(ctx, path, read.cluster, cluster)) same.cluster = read.cluster;
  same.bound_seconds = read.bound_seconds;
  same.gap = read.gap;
  same.search = read.search;
  same.alternative_count = read.alternative_count;
  same.alternatives = read.alternatives;
  *details = *plan->details;
  if (read.details) {
    details->familiar_count = read.details->familiar_count;
    details->familiar = read.details->familiar;
  }
  same.details = details;
  bd_text text = bd_text_init(ctx->arena);
  bd_plan_print(&same, train, &text);
  if (text.length == bytes && memcmp(text.data, data, bytes) == 0) {
    *plan = same;
    plan->cluster = cluster;
  }
  return BD_OK;
}
