#include "planner/bound/slowest.h"
#include "planner/bound/chain.h"
#include "planner/bound/room.h"
#include "planner/pipeline/shared.h"
#include "planner/step/bound.h"
#include <math.h>

enum {
  WEIGHTS = 4, // of a micro-batch beside the step's end, that layers are priced with
  CUT_ROUNDS = 40,
};
// Longest paths no further apart than by this factor are looked at together.
#define TOGETHER 1.003
// Of seconds that count as equal.
#define NEAR 1e-9

// By run, what a layer takes at least.
typedef struct weighed {
  const bd_scene *scene;
  const bd_setting *setting;
  bd_moves moves;
  double tie;                       // of the step's end on the first and on the last stage
  double sum;                       // of all stages
  const double *seconds, *backward; // of a micro-batch
  int count, weights[WEIGHTS];      // ascending
  const double *with_end[WEIGHTS];  // so many micro-batches and the step's end, together
} weighed;

// Micro-batches of a stage that have gone forward before the first comes back, but for that.
static int ahead_of(const bd_scene *scene, const bd_setting *setting, int stage) {
  int micro_batches = bd_scene_micro_batches(scene, setting->micro_batch);
  if (bd_scene_schedule(scene) == BD_SCHEDULE_GPIPE) return 0;
  return bd_schedule_in_flight(BD_SCHEDULE_1F1B, stage, setting->stages, micro_batches) - 1;
}

// So many micro-batches, and the step's end: the weight below it, and the rest at its fastest.
static double take_with_end(const weighed *w, int run, double micro_batches) {
  double most = micro_batches * w->seconds[run];
  for (int i = 0; i < w->count && w->weights[i] <= micro_batches; i++)
    most = fmax(most, w->with_end[i][run] + (micro_batches - w->weights[i]) * w->seconds[run]);
  return most;
}

// What a step takes beside the sum of all stages at their fastest: the longest path through its
// passes, that and what follows the passes, and what follows alone, each at most.
typedef struct limit {
  double path, rest, ends;
} limit;

// A stage in the making.
typedef struct filling {
  int stage;
  double most;              // seconds of a micro-batch that paths leave it
  double seconds, backward; // of a micro-batch
  // By two paths that come to the stage's own end, beside the sum of all stages.
  double even_end, late_end;
  double with_end[WEIGHTS]; // of so many micro-batches and the step's end, layers alone
} filling;

// `after`: seconds of the stages after it.
static filling begin_stage(const weighed *w, int stage, double after, const limit *at) {
  int micro_batches = bd_scene_micro_batches(w->scene, w->setting->micro_batch);
  double ahead = ahead_of(w->scene, w->setting, stage), moved = w->moves.of_stage[stage];
  double tie = stage == 0 || stage == w->setting->stages - 1 ? w->tie : 0;
  filling out = {.stage = stage, .seconds = moved};
  out.most = bd_step_most_seconds(bd_scene_schedule(w->scene), stage, w->setting->stages,
                                  micro_batches, after, at->path);
  out.even_end = (micro_batches - 1 - ahead / 2) * moved + tie;
  out.late_end = (micro_batches - 1 - ahead) * moved + tie;
  for (int i = 0; i < w->count; i++)
    out.with_end[i] = tie;
  return out;
}

static filling with_layer(const weighed *w, int run, filling of) {
  int micro_batches = bd_scene_micro_batches(w->scene, w->setting->micro_batch);
  double ahead = ahead_of(w->scene, w->setting, of.stage), seconds = w->seconds[run];
  double backward = ahead * w->backward[run];
  of.seconds += seconds;
  of.backward += w->backward[run];
  of.even_end += take_with_end(w, run, micro_batches - ahead / 2) - seconds;
  of.late_end += take_with_end(w, run, micro_batches - ahead) + backward - seconds;
  for (int i = 0; i < w->count; i++)
    of.with_end[i] += w->with_end[i][run];
  return of;
}

// What the stage's own end takes at least, since its layers take no longer than paths leave it.
static double own_end(const weighed *w, const filling *of) {
  double end = 0, most = of->most - w->moves.of_stage[of->stage];
  for (int i = 0; i < w->count && isfinite(most); i++)
    end = fmax(end, of->with_end[i] - w->weights[i] * most);
  return end;
}

// The stage that has the longest end, or shares a weight with another, need not be the one with the
// longest path.
static bool fits(const weighed *w, const filling *of, const limit *at) {
  double late = bd_step_backward_rest_seconds(
      bd_scene_schedule(w->scene), of->stage, w->setting->stages,
      bd_scene_micro_batches(w->scene, w->setting->micro_batch), of->seconds, of->backward);
  return of->seconds <= of->most && late <= at->path &&
         fmax(of->even_end, of->late_end) <= at->rest && own_end(w, of) <= at->ends;
}

// Whether the chain of layers can be cut so that every stage keeps to the limit: the last stages
// take as many layers as they can.
static bool can_cut(const weighed *w, limit at) {
  int run = w->scene->runs->count - 1, left = w->scene->runs->runs[run].calls;
  double after = 0;
  for (int s = w->setting->stages - 1; s >= 0; s--) {
    filling now = begin_stage(w, s, after, &at), next;
    if (w->tie > at.ends || !fits(w, &now, &at)) return false;
    while (next = with_layer(w, run, now), fits(w, &next, &at)) {
      now = next;
      if (--left > 0) continue;
      if (run == 0) return true;
      left = w->scene->runs->runs[--run].calls;
    }
    after += now.seconds;
  }
  return false;
}

// The least that the longest path takes, whatever follows the passes.
static double least_path(const weighed *w, double high) {
  double low = 0;
  for (int round = 0; round < CUT_ROUNDS; round++) {
    double middle = (low + high) / 2;
    *(can_cut(w, (limit){middle, INFINITY, INFINITY}) ? &high : &low) = middle;
  }
  return low;
}

// The least that a step takes with a longest path from `least` to `most`; `best` if that is no
// less.
static double least_rest(const weighed *w, double least, double most, double best) {
  double low = least, high = best;
  if (!can_cut(w, (limit){most, high, high - least})) return best;
  for (int round = 0; round < CUT_ROUNDS; round++) {
    double middle = (low + high) / 2;
    *(can_cut(w, (limit){most, middle, middle - least}) ? &high : &low) = middle;
  }
  return low;
}

static double most_rest(const weighed *w) {
  int most = bd_scene_micro_batches(w->scene, w->setting->micro_batch);
  double high = w->tie + most * w->moves.sum;
  for (int r = 0; r < w->scene->runs->count; r++)
    high += w->scene->runs->runs[r].calls * (take_with_end(w, r, most) + most * w->backward[r]);
  return high;
}

static double step_seconds(const weighed *w) {
  double rest = most_rest(w), least = least_path(w, rest), most;
  for (; least + w->tie < rest; least = most) {
    most = fmax(least * TOGETHER, least + NEAR * w->sum);
    rest = least_rest(w, least, most, rest);
  }
  return w->sum + rest;
}

// One, the least micro-batches that any path weighs with a step's end, the most, and some between.
static int list_weights(const bd_scene *scene, const bd_setting *setting, int *out) {
  int most = bd_scene_micro_batches(scene, setting->micro_batch), count = 0;
  int least = most - ahead_of(scene, setting, 0);
  out[count++] = 1;
  for (int i = 0; i + 1 < WEIGHTS; i++) {
    int weight = least + (most - least) * i / (WEIGHTS - 2);
    if (weight > out[count - 1]) out[count++] = weight;
  }
  return count;
}

// By run, what a layer takes at least of `weight` micro-batches and the step's end together; of 0,
// of one without the end. `*out_possible` false: some layer is not possible. `*layers`: of another
// tied form, or empty; they become those of this one.
static bd_status price(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting, int weight,
                       bd_setting_layers *layers, const double **out_takes, double *out_sum,
                       bool *out_possible) {
  bd_setting_layers open;
  bd_priced priced;
  BD_TRY(bd_setting_open_among(ctx, scene, setting, weight, layers->layers ? layers : NULL, &open));
  *layers = open;
  *out_possible = bd_price_layers(ctx, scene, &open, 1, 0, &priced);
  if (!*out_possible) return BD_OK;
  double *takes = BD_NEW_ARRAY(ctx->arena, double, scene->runs->count);
  for (int r = 0; r < scene->runs->count; r++)
    takes[r] = (weight ? weight : 1) * priced.points[r].seconds;
  *out_takes = takes;
  *out_sum = priced.value;
  return BD_OK;
}

// `layers`: by weight, and those without an end. `*out_whole` false: some layer is not possible, or
// the time is up.
static bd_status weigh(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                       bd_deadline deadline, bd_setting_layers *layers, weighed *out,
                       bool *out_whole) {
  *out = (weighed){.scene = scene, .setting = setting};
  out->count = list_weights(scene, setting, out->weights);
  double sum;
  BD_TRY(price(ctx, scene, setting, 0, &layers[WEIGHTS], &out->seconds, &out->sum, out_whole));
  for (int i = 0; i < out->count && *out_whole; i++) {
    BD_TRY(price(ctx, scene, setting, out->weights[i], &layers[i], &out->with_end[i], &sum,
                 out_whole));
    *out_whole = *out_whole && !bd_deadline_passed(deadline);
  }
  if (!*out_whole) return BD_OK;
  double *backward = BD_NEW_ARRAY(ctx->arena, double, scene->runs->count);
  for (int r = 0; r < scene->runs->count; r++)
    backward[r] = bd_bound_backward(&layers[WEIGHTS], r);
  out->backward = backward;
  out->moves = bd_bound_moves(scene, setting, &layers[WEIGHTS]);
  out->sum += out->moves.sum;
  out->tie = bd_shared_tie_seconds(scene, setting);
  return BD_OK;
}

bd_status bd_bound_slowest(bd_ctx *ctx, const bd_scene *scene, bd_deadline deadline, int count,
                           bd_bounded *bounded) {
  bd_setting_layers layers[WEIGHTS + 1] = {0};
  for (int t = 0; t < count && !bd_deadline_passed(deadline); t++) {
    weighed w;
    bool whole;
    BD_TRY(weigh(ctx, scene, &bounded[t].setting, deadline, layers, &w, &whole));
    if (whole) bounded[t].seconds = fmax(bounded[t].seconds, step_seconds(&w));
  }
  return BD_OK;
}
