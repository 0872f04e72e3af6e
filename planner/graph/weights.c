#include "planner/graph/weights.h"
#include "planner/bound/climb.h"
#include <math.h>

typedef struct weighing {
  const bd_layers_setting *setting;
  const bd_layers_problem *problem;
  const double *cheapest; // [layer][group]: least devices x rest of its options; per class only
  double weight[BD_LAYERS_MAX_GROUPS];
} weighing;

bd_layers_criteria bd_layers_linear_weight(const bd_layers_setting *setting) {
  if (setting->schedule == BD_SCHEDULE_GPIPE) return (bd_layers_criteria){{0, 1, 1}};
  if (setting->criteria > 1) return (bd_layers_criteria){{0, 1}};
  return (bd_layers_criteria){{setting->micro_batches - 1.0 / setting->chunks}};
}

double bd_layers_linear_rest(const bd_layers_setting *setting, const bd_layers_criteria *c) {
  if (setting->schedule == BD_SCHEDULE_GPIPE) return c->at[1] + c->at[2];
  return setting->criteria > 1 ? c->at[1] : bd_layers_rest(setting, c);
}

static bool is_copy(const bd_layers_problem *problem, int layer) {
  return layer && problem->layers[layer].class == problem->layers[layer - 1].class;
}

static double layer_work(const weighing *w, int layer) {
  const double *cheapest = &w->cheapest[layer * w->problem->group_count];
  double work = INFINITY;
  for (int g = 0; g < w->problem->group_count; g++)
    if (isfinite(cheapest[g])) work = fmin(work, w->weight[g] * cheapest[g]);
  return work;
}

// All stages together weigh no more than all devices, and than so many of the heaviest mode.
static double capacity_of(const weighing *w) {
  double all = 0, heaviest = 0;
  for (int g = 0; g < w->problem->group_count; g++)
    all += w->weight[g] * w->problem->groups[g].count;
  for (int n = 0; n < w->problem->mode_count; n++)
    heaviest = fmax(heaviest, w->weight[w->problem->modes[n].group] * w->problem->modes[n].devices);
  return fmin(all, w->setting->stages * heaviest);
}

static double bound_of(void *user) {
  const weighing *w = user;
  double sum = 0, work = 0;
  for (int i = 0; i < w->problem->layer_count; i++) {
    if (!is_copy(w->problem, i)) work = layer_work(w, i);
    sum += work;
  }
  double capacity = capacity_of(w);
  return capacity > 0 ? sum / capacity : 0;
}

// Groups start out as fast as they are on the layers that they can run.
static void begin(weighing *w) {
  int groups = w->problem->group_count;
  for (int g = 0; g < groups; g++) {
    double own = 0, best = 0;
    for (int i = 0; i < w->problem->layer_count; i++) {
      const double *cheapest = &w->cheapest[i * groups];
      double least = INFINITY;
      for (int k = 0; k < groups; k++)
        least = fmin(least, cheapest[k]);
      if (!isfinite(cheapest[g]) || !isfinite(least)) continue;
      own += cheapest[g];
      best += least;
    }
    w->weight[g] = own > 0 ? best / own : 1;
  }
}

static void climb(weighing *w) {
  static const double factors[] = {0.5, 0.8, 0.95, 1.05, 1.25, 2};
  const bd_climb climb = {.value = w->weight,
                          .count = w->problem->group_count,
                          .factors = factors,
                          .factor_count = sizeof factors / sizeof *factors,
                          .rounds = 4,
                          .bound_of = bound_of,
                          .user = w};
  (void)bd_climb_run(&climb);
}

// The least of a layer on each group.
static void measure_layer(const bd_layers_setting *setting, int layer, double *out) {
  const bd_layers_problem *problem = setting->problem;
  for (int g = 0; g < problem->group_count; g++)
    out[g] = INFINITY;
  for (int n = 0; n < problem->mode_count; n++) {
    const bd_layers_usable *usable = bd_layers_usable_of(setting, layer, n);
    double *least = &out[problem->modes[n].group];
    for (int k = 0; k < usable->count; k++)
      *least = fmin(*least,
                    problem->modes[n].devices *
                        bd_layers_linear_rest(
                            setting, bd_layers_option_criteria(setting, layer, usable->option[k])));
  }
}

void bd_layers_weigh(bd_ctx *ctx, bd_layers_setting *setting) {
  const bd_layers_problem *problem = setting->problem;
  int groups = problem->group_count, layers = problem->layer_count;
  double *cheapest = BD_NEW_ARRAY(ctx->arena, double, layers *groups);
  for (int i = 0; i < layers; i++) {
    double *at = &cheapest[i * groups];
    if (!is_copy(problem, i)) measure_layer(setting, i, at);
    for (int g = 0; is_copy(problem, i) && g < groups; g++)
      at[g] = at[g - groups];
  }
  weighing w = {.setting = setting, .problem = problem, .cheapest = cheapest};
  begin(&w);
  if (groups > 1) climb(&w);
  setting->capacity = capacity_of(&w);
  for (int n = 0; n < problem->mode_count; n++)
    setting->mode_weight[n] = w.weight[problem->modes[n].group] * problem->modes[n].devices;
  setting->work_before = BD_NEW_ARRAY(ctx->arena, double, layers + 1);
  for (int i = 0; i < layers; i++)
    setting->work_before[i + 1] = setting->work_before[i] + layer_work(&w, i);
}
