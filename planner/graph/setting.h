// What the search of a layer graph holds fixed: schedule, micro-batches, stages and chunks.
#ifndef BD_PLANNER_GRAPH_SETTING_H
#define BD_PLANNER_GRAPH_SETTING_H
#include "planner/graph/layers.h"

#define BD_LAYERS_CRITERIA 4

// With p stages and m micro-batches, bd_step_seconds is  sum of fill + max of rest + max of second
// rest (of GPipe, whose slowest forward and slowest backward may be on two stages) + max of sync.
// All are sums over the layers of a stage, but for a maximum in `rest` under zero-bubble; the
// criteria are sums from which both follow, and which grow with all seconds. criteria[0] gives
// fill.
typedef struct bd_layers_criteria {
  double at[BD_LAYERS_CRITERIA];
} bd_layers_criteria;

// Options of a layer that stages of a mode may run, dominated ones left out.
typedef struct bd_layers_usable {
  int count;
  int *option; // indices into the layer's
} bd_layers_usable;

typedef struct bd_layers_setting {
  const bd_layers_problem *problem;
  bd_schedule schedule;
  int stages, chunks, micro_batches;
  int criteria; // how many count
  bd_schedule_hold hold[BD_LAYERS_MAX_STAGES];
  // Per stage, with one chunk: where its layers may end, as their stages are fixed.
  int least_end[BD_LAYERS_MAX_STAGES], most_end[BD_LAYERS_MAX_STAGES];
  bd_layers_usable *usable;          // [layer][mode]
  bd_layers_criteria *of_option;     // per layer and option: see bd_layers_option_criteria
  int *first_option;                 // per layer: where its options begin in of_option
  double *fill_before, *rest_before; // per layer 0..layer_count: the least sums of those before it
  // Stages weigh as their devices do, each by its group, and together at most `capacity`; the work
  // of a layer is the least product of weight and rest over its options. So the largest rest of a
  // plan is at least all work over the capacity.
  double mode_weight[BD_LAYERS_MAX_MODES];
  double capacity;
  double *work_before; // per layer 0..layer_count: the sum of those before it
  double tolerance;    // of criteria[0] and sync: differences below are rounding
} bd_layers_setting;

// `*out_possible` false: some layer has no option, or the schedule does not allow it.
void bd_layers_setting_open(bd_ctx *ctx, const bd_layers_problem *problem, bd_schedule schedule,
                            int stages, int chunks, int micro_batches,
                            bd_layers_setting *out_setting, bool *out_possible);

// With one chunk: where a stage may end that begins with layer `first`, and where any may at most.
static inline int bd_layers_first_end(const bd_layers_setting *setting, int stage, int first) {
  if (stage == setting->stages - 1) return setting->problem->layer_count;
  return first + 1 > setting->least_end[stage] ? first + 1 : setting->least_end[stage];
}
static inline int bd_layers_last_end(const bd_layers_setting *setting, int stage) {
  int end = setting->problem->layer_count - (setting->stages - 1 - stage);
  return end < setting->most_end[stage] ? end : setting->most_end[stage];
}

// Options of a layer that stages of a mode may run.
static inline const bd_layers_usable *bd_layers_usable_of(const bd_layers_setting *setting,
                                                          int layer, int mode) {
  return &setting->usable[layer * setting->problem->mode_count + mode];
}

// Of seconds that are spent half in forward and half in backward.
bd_layers_criteria bd_layers_criteria_both(const bd_layers_setting *setting, double seconds);
static inline const bd_layers_criteria *bd_layers_option_criteria(const bd_layers_setting *setting,
                                                                  int layer, int option) {
  return &setting->of_option[setting->first_option[layer] + option];
}
// Bytes that a stage holds under an option for its micro-batches in flight.
static inline int64_t bd_layers_option_held(const bd_layers_setting *setting, int stage,
                                            const bd_layers_option *option) {
  const bd_schedule_hold *hold = &setting->hold[stage];
  return hold->tapes * option->micro_batch_bytes + hold->weight_inputs * option->weight_input_bytes;
}
void bd_layers_criteria_add(const bd_layers_setting *setting, bd_layers_criteria *sum,
                            const bd_layers_criteria *add);
double bd_layers_fill(const bd_layers_setting *setting, const bd_layers_criteria *criteria);
double bd_layers_rest(const bd_layers_setting *setting, const bd_layers_criteria *criteria);
double bd_layers_rest_second(const bd_layers_setting *setting, const bd_layers_criteria *criteria);

// No plan of the setting takes less: every layer under the option that is best for the sum of all
// stages and the slowest together, with all work shared by all devices or all stages equal.
double bd_layers_setting_bound(const bd_layers_setting *setting);
#endif
