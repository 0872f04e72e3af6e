#include "planner/remat/answer.h"
#include <math.h>

void bd_remat_steps_add(bd_ctx *ctx, bd_remat_steps *steps, int what, int at) {
  if (steps->count == steps->capacity) {
    int capacity = steps->capacity ? 2 * steps->capacity : 64;
    steps->step = bd_arena_grow(ctx->arena, steps->step, (size_t)steps->count, (size_t)capacity,
                                sizeof *steps->step);
    steps->capacity = capacity;
  }
  steps->step[steps->count++] = (bd_remat_step){what, at};
}

bd_status bd_remat_answer_check(bd_ctx *ctx, const char *of, double replayed_cost, int64_t peak,
                                int64_t budget, bd_remat_answer *answer) {
  if (peak > budget || fabs(replayed_cost - answer->cost) > 1e-9 * replayed_cost)
    return bd_fail(ctx, BD_INTERNAL, BD_NOWHERE,
                   "the replay of the %s's sequence takes %lld of %lld %s and costs %.17g, not "
                   "%.17g",
                   of, (long long)peak, (long long)budget, answer->unit, replayed_cost,
                   answer->cost);
  answer->peak = (double)peak;
  return BD_OK;
}

static void add_number(bd_text *out, const char *key, double value) {
  bd_text_add(out, ",\n ");
  bd_text_add_json_member(out, key, value);
}

static void print_json(const bd_remat_answer *answer, bd_text *out) {
  bd_text_add(out, "{\"sequence\": [");
  for (int i = 0; i < answer->steps.count; i++) {
    const bd_remat_step *step = &answer->steps.step[i];
    bd_text_addf(out, "%s{\"do\": \"%s\", \"at\": %d}", i ? ",\n  " : "\n  ",
                 answer->word[step->what], step->at);
  }
  bd_text_add(out, "]");
  add_number(out, "cost", answer->cost);
  add_number(out, "base_cost", answer->base_cost);
  add_number(out, "bound", answer->bound);
  add_number(out, "peak", answer->peak);
  add_number(out, "budget", answer->budget);
  add_number(out, "seconds", answer->seconds);
  bd_text_add(out, "}\n");
}

// Steps of one kind whose places count up or down are one run.
static int run_end(const bd_remat_steps *steps, int first) {
  int last = first, stride = 0;
  while (last + 1 < steps->count && steps->step[last + 1].what == steps->step[first].what) {
    int now = steps->step[last + 1].at - steps->step[last].at;
    if ((now != 1 && now != -1) || (stride && now != stride)) break;
    stride = now;
    last++;
  }
  return last;
}

static void print_steps(const bd_remat_answer *answer, bd_text *out) {
  const bd_remat_steps *steps = &answer->steps;
  for (int i = 0; i < steps->count;) {
    int last = run_end(steps, i);
    bd_text_addf(out, "  %-9s %d", answer->word[steps->step[i].what], steps->step[i].at);
    if (last > i) bd_text_addf(out, " to %d", steps->step[last].at);
    bd_text_add(out, "\n");
    i = last + 1;
  }
}

static void add_line(bd_text *out, const char *name, double value, const char *unit) {
  bd_text_addf(out, "%-10s", name);
  bd_text_add_double(out, value);
  bd_text_addf(out, " %s", unit);
}

static double percent_over(double value, double base) {
  return base > 0 ? (value / base - 1) * 100 : 0;
}

// Why the answer may not be the best.
static void warn_gap(bd_ctx *ctx, const bd_bare_request *request, const bd_remat_answer *answer) {
  const char *why = "a finer search takes too much memory";
  if (answer->cut) why = bd_intern_f(ctx, "the search was %s", bd_bare_ending(request));
  if (answer->grain > 1)
    why = bd_intern_f(ctx, "%s; sizes are counted in units of %.0f %s", why, answer->grain,
                      answer->unit);
  bd_bare_warn_gap(ctx, request, why, answer->cost, answer->bound, "");
}

void bd_remat_answer_print(bd_ctx *ctx, const bd_bare_request *request,
                           const bd_remat_answer *answer, bd_text *out) {
  if (answer->cost > answer->bound && (answer->cut || answer->grain > 1))
    warn_gap(ctx, request, answer);
  if (request->json) {
    print_json(answer, out);
    return;
  }
  bd_text_addf(out, "%s\n", answer->problem);
  add_line(out, "cost", answer->cost, answer->time_unit);
  bd_text_addf(out, ", %.3f %% over the base of ", percent_over(answer->cost, answer->base_cost));
  bd_text_add_double(out, answer->base_cost);
  bd_text_add(out, "\n");
  add_line(out, "bound", answer->bound, answer->time_unit);
  bd_text_add(out, ": ");
  if (answer->bound >= answer->cost)
    bd_text_add(out, "optimal");
  else
    bd_bare_add_gap(out, answer->cost, answer->bound);
  bd_text_add(out, "\n");
  add_line(out, "peak", answer->peak, answer->unit);
  bd_text_add(out, " of a budget of ");
  bd_text_add_double(out, answer->budget);
  bd_text_addf(out, "\nseconds   %.3f", answer->seconds);
  if (answer->cut) bd_text_addf(out, ", %s", bd_bare_ending(request));
  bd_text_add(out, "\n\nsequence\n");
  print_steps(answer, out);
}
