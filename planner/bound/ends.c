#include "planner/bound/ends.h"
#include "planner/bound/stages.h"
#include <math.h>

enum {
  MOST_CELLS = 1 << 18, // of stages, and of layers that they begin and end with
  SPLITS = 32,          // of what the longest end may take
};

// An interval that the longest end of a stage lies in.
typedef struct interval {
  double low, high;
  double passes; // seconds that they take at least
} interval;

typedef struct ends {
  bd_ctx *ctx;
  const bd_weighed *w;
  const bd_weighed_spans *spans;
  double *seconds; // by stage and span, under the limit at hand
} ends;

bool bd_ends_are_told(const bd_scene *scene, const bd_setting *setting) {
  int64_t width = scene->runs->calls + 1;
  return setting->stages * width * width <= MOST_CELLS;
}

// Per layer, its run.
static int *list_runs(bd_ctx *ctx, const bd_scene *scene) {
  int *out = BD_NEW_ARRAY(ctx->arena, int, scene->runs->calls), layer = 0;
  for (int r = 0; r < scene->runs->count; r++)
    for (int i = 0; i < scene->runs->runs[r].calls; i++)
      out[layer++] = r;
  return out;
}

const double *bd_weighed_span(bd_ctx *ctx, const bd_scene *scene, const bd_links *links,
                              const double *const *of_form, double weight) {
  int calls = scene->runs->calls, width = calls + 1, *run = list_runs(ctx, scene);
  double *out = BD_NEW_ARRAY(ctx->arena, double, (int64_t)width *width);
  double *chain = BD_NEW_ARRAY(ctx->arena, double, links ? links->form_count : 1);
  for (int to = 1; to <= calls; to++)
    for (int l = to - 1; l >= 0; l--)
      out[l * width + to] = weight * bd_links_add(links, l, of_form[run[l]], 1, l + 1 == to, chain);
  return out;
}

// What messages take more where a stage has these layers.
static double more_messages(const bd_weighed *w, int stage, int from, int to) {
  int calls = w->scene->runs->calls;
  double more = 0;
  if (!w->cut) return 0;
  if (stage + 1 < w->setting->stages && to < calls) more += w->cut[stage * calls + to - 1].left;
  if (stage > 0 && from > 0) more += w->cut[(stage - 1) * calls + from - 1].right;
  return more;
}

// With ends of `most` seconds.
static void fill_table(ends *e, double most) {
  const bd_weighed *w = e->w;
  int calls = w->scene->runs->calls, stages = w->setting->stages;
  for (int s = 0; s < stages; s++) {
    double own = most - (s == 0 || s + 1 == stages ? w->tie : 0);
    for (int from = 0; from < calls; from++)
      for (int to = from + 1; to <= calls; to++) {
        int span = from * (calls + 1) + to;
        double seconds = e->spans->seconds[span];
        for (int i = 0; i < w->count; i++)
          seconds = fmax(seconds, (e->spans->with_end[i][span] - own) / w->weights[i]);
        e->seconds[bd_stage_cell(calls, s, from, to)] = seconds + more_messages(w, s, from, to);
      }
  }
}

static interval interval_of(ends *e, double low, double high) {
  const bd_weighed *w = e->w;
  fill_table(e, high);
  double passes = bd_bound_stages(e->ctx, w->scene, w->setting, w->scene->runs->calls, e->seconds,
                                  e->spans->backward, &w->moves);
  return (interval){low, high, passes};
}

static double least_of(const interval *of) {
  return of->low + of->passes;
}

double bd_bound_ends(bd_ctx *ctx, const bd_weighed *w, const bd_weighed_spans *spans,
                     double longest, double enough) {
  int64_t width = w->scene->runs->calls + 1;
  ends e = {ctx, w, spans, BD_NEW_ARRAY(ctx->arena, double, w->setting->stages *width *width)};
  interval of[SPLITS + 1];
  int least = 0;
  of[0] = interval_of(&e, w->tie, fmax(w->tie, fmin(longest, enough - w->sum)));
  for (int count = 1; count <= SPLITS && least_of(&of[least]) < enough; count++) {
    double middle = (of[least].low + of[least].high) / 2;
    interval upper = {middle, of[least].high, of[least].passes};
    of[least] = interval_of(&e, of[least].low, middle);
    of[count] = upper;
    for (int i = least = 0; i <= count; i++)
      if (least_of(&of[i]) < least_of(&of[least])) least = i;
  }
  return fmin(least_of(&of[least]), enough);
}
