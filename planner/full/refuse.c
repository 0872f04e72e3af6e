#include "planner/full/refuse.h"
#include "ir/base/text.h"
#include "planner/full/full.h"
#include "planner/told/refuse.h"

void bd_full_take_leaner(const bd_full_graphs *g, bd_search_outcome *of) {
  if (!g->over_bytes || (of->lacking_bytes > 0 && g->over_bytes >= of->lacking_bytes)) return;
  of->plan = g->leanest;
  of->lacking_bytes = g->over_bytes;
}

// What stands in the way of a schedule: the cap, the time, or what it asks of stages and
// micro-batches.
static const char *reason_of(const bd_full_graphs *g) {
  if (g->over_bytes) return " within the cap";
  return g->cut ? " in time" : ", whatever the cap";
}

// Nothing of the schedule that is wanted was found; `near` is of another.
static bd_status refuse_schedule(const bd_full_graphs *g, const bd_search_outcome *near) {
  const bd_plan_request *request = g->space.request;
  bool pinned = request->mesh.axes || request->stages || request->micro_batch;
  const char *way_out = pinned ? "leave --schedule or pins out" : "leave --schedule out";
  bd_text text = bd_text_init(g->ctx->arena);
  bd_text_addf(&text, "no plan with schedule %s%s was found%s",
               bd_schedule_name((bd_schedule)request->schedule), pinned ? " and the pins" : "",
               reason_of(g));
  if (g->over_bytes)
    bd_text_addf(&text, ": the leanest that was found needs %lld bytes a rank, the cap is %lld",
                 (long long)(g->leanest.cap_bytes + g->over_bytes),
                 (long long)g->leanest.cap_bytes);
  const char *other = bd_schedule_name(near->plan.schedule);
  if (near->found)
    bd_text_addf(&text, "; with schedule %s there is one: %s%s", other, way_out,
                 g->over_bytes ? ", or raise --memory-cap" : "");
  else
    bd_text_addf(&text,
                 "; the leanest with schedule %s needs %lld bytes a rank, the cap is %lld: %s, and "
                 "raise --memory-cap",
                 other, (long long)(near->cap_bytes + near->lacking_bytes),
                 (long long)near->cap_bytes, way_out);
  if (g->cut) bd_text_add(&text, ", or raise --time-limit");
  return bd_fail(g->ctx, BD_INFEASIBLE, BD_NOWHERE, "%s", text.data);
}

// Perhaps another schedule or less haste would do.
bd_status bd_full_refuse(const bd_full_graphs *g, bd_search_outcome *near) {
  const bd_plan_request *request = g->space.request;
  if (request->stop && *request->stop)
    return bd_fail(g->ctx, BD_EXTERNAL, BD_NOWHERE,
                   "the search was interrupted before it found a plan; nothing is written");
  if (near->found) return refuse_schedule(g, near);
  if (near->lacking_bytes > 0 && bd_plan_needs_full(request)) {
    if (!g->over_bytes) return refuse_schedule(g, near);
    near->lacking_bytes = 0;
  }
  bd_full_take_leaner(g, near);
  near->cut = g->cut;
  return bd_plan_refuse(g->ctx, g->space.train, g->space.cluster, request, near);
}
