// A bound of one setting by prices (Lagrangian relaxation): a second of a stage, of the slowest
// stage and of its sync, a byte of a part, a device of a group. Under prices every layer stands for
// itself, so that the best cut is a shortest path over (layer, part, mode, form).
#ifndef BD_PLANNER_GRAPH_PRICES_H
#define BD_PLANNER_GRAPH_PRICES_H
#include "planner/graph/meter.h"
#include "planner/graph/setting.h"

typedef struct bd_layers_prices {
  const bd_layers_setting *setting;
  bd_layers_meter *meter;
  int64_t most_work; // by the meter
  int parts, modes, forms;
  const int *mode; // per stage: the only one, -1: any
  // Per stage: of criteria; of sync; of seconds that are half forward and half backward.
  bd_layers_criteria *weight;
  double *sync_weight, *both_weight;
  double *byte;       // per part: what a byte held for its micro-batches costs
  double *fixed_byte; // per stage: of any chunk
  double *device;     // per group
  double *to_go;      // [layer][part][mode][form]: the least from this layer on, itself included
  double *after;      // the same, without this layer and its option
  double constant;    // what is taken off the least of all
  double bound;   // the best so far: no plan of the setting on these modes takes less; INFINITY:
                  // there is none
  double ceiling; // no plan takes more
  bool ready;     // the sums from every layer on are those of the prices
  struct bd_price_row *rows; // prices as they are searched
  int row_count;
} bd_layers_prices;

// What is chosen under the prices at hand.
typedef struct bd_priced_path {
  int *part, *option, *mode; // per layer; mode: of its part
} bd_priced_path;

// Prices to begin with. `out_prices` has its first three members and `mode` set. Where there are
// too many sums, `to_go` is NULL and the bound stays 0. Lives in ctx->arena.
void bd_layers_prices_open(bd_ctx *ctx, bd_layers_prices *out_prices);
// As opened, on other modes.
void bd_layers_prices_restart(bd_layers_prices *prices, const int *mode);

// Moves prices for at most `rounds` rounds so that the bound rises (subgradients, with steps by
// what is left to the target: Polyak), and leaves those of the highest. Ends when it reaches
// `target` seconds, of which it may be no more than an estimate. `visit`, unless NULL, is shown the
// path of every round.
void bd_layers_prices_climb(bd_ctx *ctx, bd_layers_prices *prices, double target, int rounds,
                            void (*visit)(void *user, const bd_priced_path *path), void *user);

// What a layer costs under the prices, without the boundary before it.
double bd_layers_priced_option(const bd_layers_prices *prices, int layer, int part, int option);
// What the boundary before `layer` costs that lies between the parts `part` - 1 and `part`, or
// begins the first part; modes and forms left and right.
double bd_layers_priced_entry(const bd_layers_prices *prices, int layer, int part, int left_mode,
                              int left_form, int mode, int form);
static inline size_t bd_layers_priced_at(const bd_layers_prices *prices, int layer, int part,
                                         int mode, int form) {
  size_t at = (size_t)layer * (size_t)prices->parts + (size_t)part;
  return (at * (size_t)prices->modes + (size_t)mode) * (size_t)prices->forms + (size_t)form;
}
#endif
