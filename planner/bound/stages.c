#include "planner/bound/stages.h"
#include "planner/bound/chain.h"
#include "planner/step/bound.h"
#include <math.h>

enum { ROUNDS = 24 };

typedef struct staging {
  int stages, micro_batches, layers;
  bd_schedule schedule;
  const double *seconds, *backward;
  const bd_moves *moves;
} staging;

// The last layers on the last stages: what they take together, and what a step takes beside the sum
// of all stages at least, because of one of these.
typedef struct cut {
  double sum, rest;
} cut;

// What a step takes beside all stages at least, by its paths through one of them.
static double rest_of(const staging *of, int stage, double seconds, double backward, double after) {
  double late = bd_step_backward_rest_seconds(of->schedule, stage, of->stages, of->micro_batches,
                                              seconds, backward);
  return fmax(late, bd_step_rest_seconds(of->schedule, stage, of->stages, of->micro_batches,
                                         seconds, after));
}

// The least sum of a cut whose rest is below `limit`; the rests before it are no more than those of
// any cut, as they are told by the least that later stages take.
static cut least_cut(const staging *of, double limit, cut *best) {
  int layers = of->layers, width = layers + 1;
  for (int i = 0; i < (of->stages + 1) * width; i++)
    best[i] = (cut){INFINITY, INFINITY};
  best[of->stages * width + layers] = (cut){0, 0};
  double sent = 0;
  for (int s = of->stages - 1; s >= 0; sent += of->moves->of_stage[s--])
    for (int to = layers; to > s; to--) {
      cut after = best[(s + 1) * width + to];
      if (isinf(after.sum)) continue;
      for (int from = s; from < to && (s > 0 || from == 0); from++) {
        double seconds = of->seconds[bd_stage_cell(layers, s, from, to)];
        double rest = rest_of(of, s, seconds + of->moves->of_stage[s],
                              of->backward[to] - of->backward[from], after.sum + sent);
        cut *out = &best[s * width + from];
        if (rest >= limit || seconds + after.sum >= out->sum) continue;
        *out = (cut){seconds + after.sum, fmax(after.rest, rest)};
      }
    }
  return best[0];
}

const double *bd_bound_backward_before(bd_ctx *ctx, const bd_scene *scene,
                                       const bd_setting_layers *layers) {
  double *out = BD_NEW_ARRAY(ctx->arena, double, scene->runs->calls + 1);
  for (int r = 0, l = 0; r < scene->runs->count; r++)
    for (int i = 0; i < scene->runs->runs[r].calls; i++, l++)
      out[l + 1] = out[l] + bd_bound_backward(layers, r);
  return out;
}

double bd_bound_stages(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting, int layers,
                       const double *seconds, const double *backward, const bd_moves *moves) {
  staging of = {.stages = setting->stages,
                .micro_batches = bd_scene_micro_batches(scene, setting->micro_batch),
                .layers = layers,
                .schedule = bd_scene_schedule(scene),
                .seconds = seconds,
                .backward = backward,
                .moves = moves};
  cut *states = BD_NEW_ARRAY(ctx->arena, cut, (int64_t)(setting->stages + 1) * (layers + 1));
  double stretch = bd_bound_step(scene, setting->stages, setting->micro_batch, 1);
  double sent = moves->sum, best = INFINITY, limit = INFINITY;
  for (int round = 0; round < ROUNDS; round++) {
    cut now = least_cut(&of, limit, states);
    double even = (now.sum + sent) * stretch;
    if (even >= best) return best;
    if (round + 1 == ROUNDS) return even;
    best = fmin(best, fmax(now.sum + sent + now.rest, even));
    limit = now.rest;
  }
  return best;
}
