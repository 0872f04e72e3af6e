// Random layer graphs, and the enumeration of every plan of one: schedule, micro-batches, stages,
// chunks, cuts, devices and options. What a plan costs is written here once more, from the
// schedules' definitions.
#ifndef TESTS_UNIT_PLANNER_SUPPORT_LAYERS_H
#define TESTS_UNIT_PLANNER_SUPPORT_LAYERS_H
#include "planner/graph/layers.h"

enum {
  LAYERS_TRIALS = 4000,
  MOST_LAYERS = 6,
  MOST_MODES = 4,
  MOST_FORMS = 2,
  MOST_OPTIONS = 6,
  LINKS = 3
};

// An instance as a person would state it; the problem of the solver is made of it.
typedef struct instance {
  bd_layers_problem problem;
  int layers, groups, modes, forms;
  bd_layers_group group[3];
  bd_layers_mode mode[MOST_MODES];
  bd_layers_option option[MOST_LAYERS][MOST_OPTIONS];
  bd_layers_layer layer[MOST_LAYERS];
  // Values by producer and last consumer; the chain's own and skips.
  int links, from[MOST_LAYERS + LINKS], to[MOST_LAYERS + LINKS];
  int64_t bytes[MOST_LAYERS + LINKS];
  double latency, bytes_per_second, change_seconds;
  bd_layers_cut cut[MOST_LAYERS];
  double change[MOST_MODES * MOST_FORMS * MOST_FORMS];
  double hand[MOST_LAYERS][MOST_MODES * MOST_MODES * MOST_FORMS * MOST_FORMS];
  int64_t held[MOST_LAYERS][MOST_MODES];
  int micro_batches[2], chunks[2];
  int stage[MOST_LAYERS]; // that are fixed
  bool forbidden_stages[5];
} instance;

// Of the random numbers at hand (tests/unit/random.h); refers to itself.
void layers_make_instance(instance *out_in);
// Seconds of what passes from layers before `layer` to it or later ones, and bytes of what skips.
double layers_hand_seconds(const instance *in, int layer);
int64_t layers_skip_bytes(const instance *in, int layer, int mode);

// The enumeration: what is chosen so far.
typedef struct trial {
  const instance *in;
  int schedule, m, p, v;
  int mode[4], part[MOST_LAYERS], option[MOST_LAYERS];
  double best;
  int64_t lacking; // of the plan that lacks least
} trial;

// Every plan of the instance.
trial layers_enumerate(const instance *in);
// Those of the schedule, the micro-batches, the stages and the chunks of `t`, whose modes are
// chosen for the stages before `stage`.
void layers_try_modes(trial *t, int stage);
#endif
