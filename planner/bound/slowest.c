#include "planner/bound/slowest.h"
#include "planner/bound/chain.h"
#include "planner/bound/ends.h"
#include "planner/bound/filling.h"
#include "planner/bound/room.h"
#include "planner/bound/stages.h"
#include "planner/pipeline/shared.h"
#include <math.h>

enum { CUT_ROUNDS = 40 };
// Longest paths no further apart than by this factor are looked at together.
#define TOGETHER 1.003
// Of seconds that count as equal.
#define NEAR 1e-9

// The least that the longest path takes, whatever follows the passes.
static double least_path(const bd_weighed *w, double high) {
  double low = 0;
  for (int round = 0; round < CUT_ROUNDS; round++) {
    double middle = (low + high) / 2;
    *(bd_weighed_can_cut(w, (bd_step_limit){middle, INFINITY, INFINITY, 0}) ? &high : &low) =
        middle;
  }
  return low;
}

// The least that a step takes with a longest path from `least` to `most`; `best` if that is no
// less.
static double least_rest(const bd_weighed *w, double least, double most, double best) {
  double low = least, high = best;
  if (!bd_weighed_can_cut(w, (bd_step_limit){most, high, high - least, 0})) return best;
  for (int round = 0; round < CUT_ROUNDS; round++) {
    double middle = (low + high) / 2;
    *(bd_weighed_can_cut(w, (bd_step_limit){most, middle, middle - least, 0}) ? &high : &low) =
        middle;
  }
  return low;
}

static double most_rest(const bd_weighed *w) {
  int most = bd_scene_micro_batches(w->scene, w->setting->micro_batch);
  double high = w->tie + most * w->moves.sum;
  for (int r = 0; r < w->scene->runs->count; r++)
    high +=
        w->scene->runs->runs[r].calls * (bd_weighed_with_end(w, r, most) + most * w->backward[r]);
  return high;
}

static double step_seconds(const bd_weighed *w) {
  double rest = most_rest(w), least = least_path(w, rest), most;
  for (; least + w->tie < rest; least = most) {
    most = fmax(least * TOGETHER, least + NEAR * w->sum);
    rest = least_rest(w, least, most, rest);
  }
  return w->sum + rest;
}

// One, the least micro-batches that any path weighs with a step's end, and up to those that an end
// which all stages share is weighed with.
static int list_weights(const bd_scene *scene, const bd_setting *setting, int *out) {
  int micro_batches = bd_scene_micro_batches(scene, setting->micro_batch), count = 0;
  int least = micro_batches - bd_weighed_ahead(scene, setting, 0);
  int most = micro_batches + setting->stages - 1;
  out[count++] = 1;
  for (int i = 0; i + 1 < BD_WEIGHTS; i++) {
    int weight = least + (most - least) * i / (BD_WEIGHTS - 2);
    if (weight > out[count - 1]) out[count++] = weight;
  }
  return count;
}

// By run, what a layer takes at least of `weight` micro-batches and the step's end together; of 0,
// of one without the end. `*out_possible` false: some layer is not possible. `*layers`: of another
// tied form, or empty; they become those of this one. `out_span`: the same of spans of layers; NULL
// where they are too many.
static bd_status price(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting, int weight,
                       bd_setting_layers *layers, const double **out_takes, const double **out_span,
                       double *out_sum, bool *out_possible) {
  bd_setting_layers open;
  bd_priced priced;
  BD_TRY(bd_setting_open_among(ctx, scene, setting, weight, layers->layers ? layers : NULL, &open));
  *layers = open;
  *out_possible = bd_price_layers(ctx, scene, &open, 1, 0, &priced);
  if (!*out_possible) return BD_OK;
  double *takes = BD_NEW_ARRAY(ctx->arena, double, scene->runs->count);
  double micro_batches = weight ? weight : 1;
  for (int r = 0; r < scene->runs->count; r++)
    takes[r] = micro_batches * priced.points[r].seconds;
  *out_takes = takes;
  *out_span = NULL;
  if (bd_ends_are_told(scene, setting))
    *out_span = bd_weighed_span(ctx, scene, open.links, priced.of_form, micro_batches);
  *out_sum = priced.value;
  return BD_OK;
}

// `layers`: by weight, and those without an end. `*out_whole` false: some layer is not possible, or
// the time is up.
static bd_status weigh(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                       bd_deadline deadline, bd_setting_layers *layers, bd_weighed *out,
                       bd_weighed_spans *out_spans, bool *out_whole) {
  *out = (bd_weighed){.scene = scene, .setting = setting};
  out->count = list_weights(scene, setting, out->weights);
  double sum;
  BD_TRY(price(ctx, scene, setting, 0, &layers[BD_WEIGHTS], &out->seconds, &out_spans->seconds,
               &out->sum, out_whole));
  for (int i = 0; i < out->count && *out_whole; i++) {
    BD_TRY(price(ctx, scene, setting, out->weights[i], &layers[i], &out->with_end[i],
                 &out_spans->with_end[i], &sum, out_whole));
    *out_whole = *out_whole && !bd_deadline_passed(deadline);
  }
  if (!*out_whole) return BD_OK;
  double *backward = BD_NEW_ARRAY(ctx->arena, double, scene->runs->count);
  for (int r = 0; r < scene->runs->count; r++)
    backward[r] = bd_bound_backward(&layers[BD_WEIGHTS], r);
  out->backward = backward;
  out_spans->backward = bd_bound_backward_before(ctx, scene, &layers[BD_WEIGHTS]);
  out->moves = bd_bound_moves(scene, setting, &layers[BD_WEIGHTS]);
  out->sum += out->moves.sum;
  out->cut = bd_weighed_cuts(ctx, scene, setting, &layers[BD_WEIGHTS]);
  for (int i = 0; i < 2; i++)
    out->held[i] = BD_NEW_ARRAY(ctx->arena, double, scene->runs->calls + 1);
  out->tie = bd_shared_tie_seconds(scene, setting);
  return BD_OK;
}

bd_status bd_bound_slowest(bd_ctx *ctx, const bd_scene *scene, bd_deadline deadline, double enough,
                           int count, bd_bounded *bounded) {
  bd_setting_layers layers[BD_WEIGHTS + 1] = {0};
  for (int t = 0; t < count && !bd_deadline_passed(deadline); t++) {
    bd_weighed w;
    bd_weighed_spans spans;
    bool whole;
    double *seconds = &bounded[t].seconds;
    BD_TRY(weigh(ctx, scene, &bounded[t].setting, deadline, layers, &w, &spans, &whole));
    if (!whole) continue;
    *seconds = fmax(*seconds, step_seconds(&w));
    if (spans.seconds && *seconds < enough)
      *seconds = fmax(*seconds, bd_bound_ends(ctx, &w, &spans, most_rest(&w), enough));
  }
  return BD_OK;
}
