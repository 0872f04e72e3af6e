#include "planner/graph/room.h"
#include <math.h>

// Sums are rounded.
#define ROUNDING 1e-9

// Of a layer's options that some stage may run: the least that one holds of its own, and the least
// workspace.
typedef struct least_bytes {
  double own, workspace;
} least_bytes;

static least_bytes least_of_layer(const bd_layers_setting *setting, int layer, double tapes,
                                  double weight_inputs) {
  const bd_layers_problem *problem = setting->problem;
  least_bytes least = {INFINITY, INFINITY};
  for (int mode = 0; mode < problem->mode_count; mode++) {
    const bd_layers_usable *usable = bd_layers_usable_of(setting, layer, mode);
    for (int k = 0; k < usable->count; k++) {
      const bd_layers_option *o = &problem->layers[layer].options[usable->option[k]];
      least.own = fmin(least.own, (double)o->fixed_bytes + tapes * (double)o->micro_batch_bytes +
                                      weight_inputs * (double)o->weight_input_bytes);
      least.workspace = fmin(least.workspace, (double)o->workspace_bytes);
    }
  }
  return least;
}

// Of a stage with chunks the largest counts for every tape: at least the mean of them.
static double least_held(const bd_layers_setting *setting) {
  const bd_layers_problem *problem = setting->problem;
  double tapes = INFINITY, weight_inputs = INFINITY, sum = 0, workspace = INFINITY;
  for (int s = 0; s < setting->stages; s++) {
    tapes = fmin(tapes, (double)setting->hold[s].tapes / setting->chunks);
    weight_inputs = fmin(weight_inputs, (double)setting->hold[s].weight_inputs / setting->chunks);
  }
  least_bytes least = {0, 0};
  for (int i = 0; i < problem->layer_count; i++) {
    if (!i || problem->layers[i].class != problem->layers[i - 1].class)
      least = least_of_layer(setting, i, tapes, weight_inputs);
    sum += least.own;
    workspace = fmin(workspace, least.workspace);
  }
  return sum + setting->stages * workspace;
}

int bd_layers_most_stages(const bd_layers_problem *problem, int group) {
  int fewest = 0;
  for (int n = 0; n < problem->mode_count; n++)
    if (problem->modes[n].group == group && (!fewest || problem->modes[n].devices < fewest))
      fewest = problem->modes[n].devices;
  return fewest ? problem->groups[group].count / fewest : 0;
}

// The caps of the stages together, on the groups with the largest.
static double most_room(const bd_layers_setting *setting) {
  const bd_layers_problem *problem = setting->problem;
  bool taken[BD_LAYERS_MAX_GROUPS] = {false};
  double room = 0;
  for (int left = setting->stages; left > 0;) {
    int best = -1;
    for (int g = 0; g < problem->group_count; g++)
      if (!taken[g] && (best < 0 || problem->groups[g].cap_bytes > problem->groups[best].cap_bytes))
        best = g;
    if (best < 0) break;
    int stages = bd_layers_most_stages(problem, best);
    if (stages > left) stages = left;
    room += stages * (double)problem->groups[best].cap_bytes;
    left -= stages;
    taken[best] = true;
  }
  return room;
}

bool bd_layers_have_room(const bd_layers_setting *setting) {
  return least_held(setting) <= most_room(setting) * (1 + ROUNDING);
}
