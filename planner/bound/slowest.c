#include "planner/bound/slowest.h"
#include "planner/bound/chain.h"
#include "planner/bound/room.h"
#include "planner/pipeline/shared.h"
#include <math.h>

enum {
  WEIGHTS = 4, // of a micro-batch beside the step's end, that layers are priced with
  CUT_ROUNDS = 40,
};

// By run, what a layer takes at least.
typedef struct weighed {
  const bd_scene *scene;
  const bd_setting *setting;
  bd_moves moves;
  double tie;                       // of the step's end on the first and on the last stage
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

// A stage in the making, beside what it has in the sum of all stages: by both paths, without what
// follows the passes and with it.
typedef struct filling {
  int stage;
  double even, late;
  double even_end, late_end;
} filling;

static filling begin_stage(const weighed *w, int stage) {
  int others = bd_scene_micro_batches(w->scene, w->setting->micro_batch) - 1;
  double ahead = ahead_of(w->scene, w->setting, stage), moved = w->moves.of_stage[stage];
  double tie = stage == 0 || stage == w->setting->stages - 1 ? w->tie : 0;
  double even = (others - ahead / 2) * moved, late = (others - ahead) * moved;
  return (filling){stage, even, late, even + tie, late + tie};
}

static filling with_layer(const weighed *w, int run, filling of) {
  int micro_batches = bd_scene_micro_batches(w->scene, w->setting->micro_batch);
  double ahead = ahead_of(w->scene, w->setting, of.stage), seconds = w->seconds[run];
  double backward = ahead * w->backward[run];
  of.even += (micro_batches - 1 - ahead / 2) * seconds;
  of.late += (micro_batches - 1 - ahead) * seconds + backward;
  of.even_end += take_with_end(w, run, micro_batches - ahead / 2) - seconds;
  of.late_end += take_with_end(w, run, micro_batches - ahead) + backward - seconds;
  return of;
}

// The first stage may be busy with what it shares with the last one while another has the passes
// that take longest.
static bool fits(const weighed *w, const filling *of, double rest) {
  return fmax(of->even, of->late) + w->tie <= rest && fmax(of->even_end, of->late_end) <= rest;
}

// Whether the chain of layers can be cut so that no stage takes more beside the sum of all: the
// last stages take as many layers as they can.
static bool can_cut(const weighed *w, double rest) {
  int run = w->scene->runs->count - 1, left = w->scene->runs->runs[run].calls;
  for (int s = w->setting->stages - 1; s >= 0; s--) {
    filling now = begin_stage(w, s), next;
    if (!fits(w, &now, rest)) return false;
    while (next = with_layer(w, run, now), fits(w, &next, rest)) {
      now = next;
      if (--left > 0) continue;
      if (run == 0) return true;
      left = w->scene->runs->runs[--run].calls;
    }
  }
  return false;
}

static double step_seconds(const weighed *w) {
  double sum = w->moves.sum, low = 0, high = w->tie;
  int most = bd_scene_micro_batches(w->scene, w->setting->micro_batch);
  for (int r = 0; r < w->scene->runs->count; r++) {
    int calls = w->scene->runs->runs[r].calls;
    sum += calls * w->seconds[r];
    high += calls * (take_with_end(w, r, most) + most * w->backward[r]);
  }
  high += most * w->moves.sum;
  for (int round = 0; round < CUT_ROUNDS; round++) {
    double middle = (low + high) / 2;
    *(can_cut(w, middle) ? &high : &low) = middle;
  }
  return sum + low;
}

// The least micro-batches that any path weighs with a step's end, the most, and some between.
static int list_weights(const bd_scene *scene, const bd_setting *setting, int *out) {
  int most = bd_scene_micro_batches(scene, setting->micro_batch), count = 0;
  int least = most - ahead_of(scene, setting, 0);
  for (int i = 0; i < WEIGHTS; i++) {
    int weight = least + (most - least) * i / (WEIGHTS - 1);
    if (!count || weight > out[count - 1]) out[count++] = weight;
  }
  return count;
}

// By run, what a layer takes at least of `weight` micro-batches and the step's end together; of 0,
// of one without the end. `*out_possible` false: some layer is not possible. `*layers`: of another
// tied form, or empty; they become those of this one.
static bd_status price(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting, int weight,
                       bd_setting_layers *layers, const double **out_takes, bool *out_possible) {
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
  return BD_OK;
}

// `layers`: by weight, and those without an end. `*out_whole` false: some layer is not possible, or
// the time is up.
static bd_status weigh(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                       bd_deadline deadline, bd_setting_layers *layers, weighed *out,
                       bool *out_whole) {
  *out = (weighed){.scene = scene, .setting = setting};
  out->count = list_weights(scene, setting, out->weights);
  BD_TRY(price(ctx, scene, setting, 0, &layers[WEIGHTS], &out->seconds, out_whole));
  for (int i = 0; i < out->count && *out_whole; i++) {
    BD_TRY(price(ctx, scene, setting, out->weights[i], &layers[i], &out->with_end[i], out_whole));
    *out_whole = *out_whole && !bd_deadline_passed(deadline);
  }
  if (!*out_whole) return BD_OK;
  double *backward = BD_NEW_ARRAY(ctx->arena, double, scene->runs->count);
  for (int r = 0; r < scene->runs->count; r++)
    backward[r] = bd_bound_backward(&layers[WEIGHTS], r);
  out->backward = backward;
  out->moves = bd_bound_moves(scene, setting, &layers[WEIGHTS]);
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
