#include "planner/bound/chain.h"
#include "planner/step/bound.h"

enum { CUT_ROUNDS = 40 };

double bd_bound_step(const bd_scene *scene, int stages, int64_t micro_batch, double sum) {
  return bd_step_least_seconds(bd_scene_schedule(scene), stages,
                               bd_scene_micro_batches(scene, micro_batch), sum);
}

double bd_bound_backward(const bd_setting_layers *layers, int run) {
  return layers->layers ? bd_layer_backward_seconds(layers->layers[run])
                        : bd_layer_sketch_backward(layers->sketches[run]);
}

// The chain of layers, of so many seconds each by run and form.
typedef struct chain {
  const bd_scene *scene;
  const bd_setting *setting;
  const bd_setting_layers *layers;
  const double *const *of_form;
  const bd_moves *moves;
  double *filled; // of the stage in the making, per form of its first layer
} chain;

// A stage in the making, from its last layer on.
typedef struct filling {
  int stage, layers;
  double seconds, backward;
  double most, rest; // seconds that it may take, and what a step may beside all stages
} filling;

// Takes one more layer, of a run, if the stage may.
static bool fill(const chain *c, int layer, int run, filling *to) {
  double seconds =
             c->moves->of_stage[to->stage] +
             bd_links_add(c->layers->links, layer, c->of_form[run], 1, !to->layers, c->filled),
         backward = to->backward + bd_bound_backward(c->layers, run);
  double rest = bd_step_backward_rest_seconds(
      bd_scene_schedule(c->scene), to->stage, c->setting->stages,
      bd_scene_micro_batches(c->scene, c->setting->micro_batch), seconds, backward);
  if (seconds > to->most || rest > to->rest) return false;
  to->layers++;
  to->seconds = seconds;
  to->backward = backward;
  return true;
}

// Whether the chain can be cut into the setting's stages so that a step takes no more than the sum
// of all stages and `rest`: the last stages take as many layers as they can.
static bool can_cut(const chain *c, double rest) {
  const bd_setting *setting = c->setting;
  int run = c->scene->runs->count - 1, left = c->scene->runs->runs[run].calls;
  int layer = c->scene->runs->calls - 1;
  int micro_batches = bd_scene_micro_batches(c->scene, setting->micro_batch);
  double after = 0;
  for (int s = setting->stages - 1; s >= 0; s--) {
    filling now = {.stage = s, .seconds = c->moves->of_stage[s], .rest = rest};
    now.most = bd_step_most_seconds(bd_scene_schedule(c->scene), s, setting->stages, micro_batches,
                                    after, rest);
    while (fill(c, layer, run, &now)) {
      layer--;
      if (--left > 0) continue;
      if (run == 0) return true;
      left = c->scene->runs->runs[--run].calls;
    }
    after += now.seconds;
  }
  return false;
}

// What a step takes beside the sum `total` of its stages, whatever the cut into contiguous stages,
// to a small fraction; it is `least` at least.
static double rest_seconds(const chain *c, double total, double least) {
  int others = bd_scene_micro_batches(c->scene, c->setting->micro_batch) - 1;
  double low = least, high = others * total;
  for (int round = 0; round < CUT_ROUNDS; round++) {
    double middle = (low + high) / 2;
    if (can_cut(c, middle))
      high = middle;
    else
      low = middle;
  }
  return low;
}

bd_chain_bound bd_bound_chain(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                              const bd_setting_layers *layers, const double *const *of_form,
                              const bd_moves *moves) {
  int forms = layers->links ? layers->links->form_count : 1;
  chain of = {scene, setting, layers, of_form, moves, BD_NEW_ARRAY(ctx->arena, double, forms)};
  double stretch = bd_bound_step(scene, setting->stages, setting->micro_batch, 1);
  double total = moves->sum + bd_links_sum(ctx, layers->links, scene->runs, of_form, 1);
  double rest = rest_seconds(&of, total, total * (stretch - 1));
  return (bd_chain_bound){total + rest, total};
}
