// What the formats of `braid solve` have in common.
#include "planner/bare.h"

bd_deadline bd_bare_deadline(const bd_bare_request *request) {
  return (bd_deadline){bd_clock_seconds() + request->limit_seconds, request->stop};
}

double bd_bare_gap(double cost, double bound) {
  if (cost <= bound) return 0;
  return bound > 0 ? cost / bound - 1 : INFINITY;
}

void bd_bare_add_gap(bd_text *text, double cost, double bound) {
  double gap = bd_bare_gap(cost, bound);
  if (isfinite(gap))
    bd_text_addf(text, "gap %.4g %%", 100 * gap);
  else
    bd_text_add(text, "no gap is known: the bound is 0");
}

const char *bd_bare_ending(const bd_bare_request *request) {
  return request->stop && *request->stop ? "stopped by an interrupt" : "stopped by the time limit";
}

void bd_bare_warn_gap(bd_ctx *ctx, const bd_bare_request *request, const char *why, double cost,
                      double bound, const char *unit) {
  bd_text gap = bd_text_init(ctx->arena);
  bd_bare_add_gap(&gap, cost, bound);
  bd_warn(ctx, bd_loc_file(request->file),
          "%s: the answer costs %.16g%s, and none costs less than %.16g%s (%s)", why, cost, unit,
          bound, unit, gap.data);
}

void bd_bare_warn_cut(bd_ctx *ctx, const bd_bare_request *request, double cost, double bound,
                      const char *unit) {
  const char *why = bd_intern_f(ctx, "the search was %s", bd_bare_ending(request));
  bd_bare_warn_gap(ctx, request, why, cost, bound, unit);
}

bd_status bd_bare_fail_interrupted(bd_ctx *ctx, const bd_bare_request *request) {
  return bd_fail(ctx, BD_EXTERNAL, bd_loc_file(request->file),
                 "the search was interrupted before it found an answer; nothing is written");
}
