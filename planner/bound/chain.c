#include "planner/bound/chain.h"
#include "planner/step/bound.h"

enum { CUT_ROUNDS = 40 };

static int micro_batches_of(const bd_scene *scene, int64_t micro_batch) {
  return (int)(scene->request->global_batch / micro_batch);
}

double bd_bound_step(const bd_scene *scene, int stages, int64_t micro_batch, double sum) {
  return bd_step_least_seconds(bd_scene_schedule(scene), stages,
                               micro_batches_of(scene, micro_batch), sum);
}

// Whether the chain of layers, of so many seconds each by run, can be cut into the setting's stages
// so that a step takes no more than the sum of all stages and `rest`: the last stages take as many
// layers as they can.
static bool can_cut(const bd_scene *scene, const bd_setting *setting, const double *points,
                    const bd_moves *moves, double rest) {
  int run = scene->runs->count - 1, left = scene->runs->runs[run].calls;
  int micro_batches = micro_batches_of(scene, setting->micro_batch);
  double after = 0;
  for (int s = setting->stages - 1; s >= 0; s--) {
    double filled = moves->of_stage[s],
           most = bd_step_most_seconds(bd_scene_schedule(scene), s, setting->stages, micro_batches,
                                       after, rest);
    while (filled + points[run] <= most) {
      filled += points[run];
      if (--left > 0) continue;
      if (run == 0) return true;
      left = scene->runs->runs[--run].calls;
    }
    after += filled;
  }
  return false;
}

// What a step takes beside the sum `total` of its stages, whatever the cut into contiguous stages,
// to a small fraction; it is `least` at least.
static double rest_seconds(const bd_scene *scene, const bd_setting *setting, const double *points,
                           const bd_moves *moves, double total, double least) {
  int others = micro_batches_of(scene, setting->micro_batch) - 1;
  double low = least, high = others * total;
  for (int round = 0; round < CUT_ROUNDS; round++) {
    double middle = (low + high) / 2;
    if (can_cut(scene, setting, points, moves, middle))
      high = middle;
    else
      low = middle;
  }
  return low;
}

bd_chain_bound bd_bound_chain(const bd_scene *scene, const bd_setting *setting,
                              const double *points, const bd_moves *moves) {
  double stretch = bd_bound_step(scene, setting->stages, setting->micro_batch, 1);
  double total = moves->sum;
  for (int r = 0; r < scene->runs->count; r++)
    total += scene->runs->runs[r].calls * points[r];
  double rest = rest_seconds(scene, setting, points, moves, total, total * (stretch - 1));
  return (bd_chain_bound){total + rest, total};
}
