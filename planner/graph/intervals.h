// What any interval of layers takes at least on a stage in a mode, by prices of a byte: options are
// chosen in part (the linear relaxation of the choice within the cap: Sinha and Zoltners,
// Operations Research 27, 1979).
#ifndef BD_PLANNER_GRAPH_INTERVALS_H
#define BD_PLANNER_GRAPH_INTERVALS_H
#include "planner/graph/chain.h"
#include "planner/graph/devices.h"
#include "planner/graph/priced_path.h"

typedef struct bd_layers_interval {
  double sum;             // fill and priced sync; INFINITY: it does not fit
  double rest;            // that the slowest stage has at least: a part that is a sum over layers
  unsigned char price[2]; // of a byte, in the grid, which gives them
} bd_layers_interval;

typedef struct bd_layers_intervals {
  const bd_layers_prices *prices; // what they say of sync is used
  const bd_layers_setting *setting;
  const bd_layers_problem *problem;
  const bd_layers_effort *effort;
  bd_devices devices;
  int layers, stages, modes;
  bool stopped;
  bd_layers_interval *at; // see bd_layers_interval_at
  double *grid;           // prices of a byte
  // Of the stage and mode at hand: sums over the layers before each, of the option that is least
  // under every price [price][layer]; of bytes, and per layer the workspace, the least.
  double *before[2];
  double *bytes_before, *workspace;
  double *receive; // [layer][mode]: the least
} bd_layers_intervals;

// `out_intervals` has its first four members set; false: there are too many of them, or no time.
// Lives in ctx->arena.
bool bd_layers_intervals_open(bd_ctx *ctx, bd_layers_intervals *out_intervals);
// Takes a stage and a mode in hand.
void bd_layers_intervals_select(bd_layers_intervals *intervals, int stage, int mode);

static inline bd_layers_interval *bd_layers_interval_at(const bd_layers_intervals *n, int stage,
                                                        int mode, int first, int end) {
  size_t row = ((size_t)stage * (size_t)n->modes + (size_t)mode) * (size_t)n->layers;
  return &n->at[(row + (size_t)first) * (size_t)(n->layers + 1) + (size_t)end];
}

// Counts work; false: there is no time for more.
bool bd_layers_intervals_spend(bd_layers_intervals *intervals, int64_t work);
// What the hand-over before `layer` takes at least of the stage that sends, whatever the forms.
double bd_layers_least_send(const bd_layers_intervals *intervals, int layer, int from, int to);

typedef struct bd_layers_hand {
  double sum, rest;
} bd_layers_hand;
// Of seconds half forward and half backward.
bd_layers_hand bd_layers_hand_of(const bd_layers_setting *setting, double seconds);
#endif
