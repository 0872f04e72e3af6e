// Prices of what a setting's plans share (Lagrangian relaxation; Fisher, Management Science 27,
// 1981): a second of a stage, of the slowest stage and of its sync, a byte of a part, a device of a
// group. Under prices every layer stands for itself: priced_path.h finds the best plan, which gives
// a bound in seconds of a step, and ascent.h moves the prices so that it rises.
#ifndef BD_PLANNER_GRAPH_PRICES_H
#define BD_PLANNER_GRAPH_PRICES_H
#include "planner/graph/meter.h"
#include "planner/graph/setting.h"

// Prices of the first three kinds add up to 1 each, as a maximum is the largest of all means with
// such weights; the others are in seconds and not negative.
typedef enum bd_price_kind {
  BD_PRICE_REST,   // of the slowest stage's rest: of a stage and a criterion
  BD_PRICE_SECOND, // of its second rest
  BD_PRICE_SYNC,   // of the longest sync: of a stage
  BD_PRICES_SHARED,
  BD_PRICE_BYTES = BD_PRICES_SHARED, // of as many bytes as the largest cap: of a part
  BD_PRICE_DEVICES,                  // of all devices of a group
} bd_price_kind;

typedef struct bd_price {
  bd_price_kind kind;
  int of;             // a stage, a part or a group
  int criterion;      // of a stage
  double value, best; // best: at the highest bound
  double gradient, direction;
} bd_price;

typedef struct bd_layers_prices {
  const bd_layers_setting *setting;
  bd_layers_meter *meter;
  int64_t most_work; // by the meter
  int parts, modes, forms;
  const int *mode; // per stage: the only one, -1: any
  int price_count;
  bd_price *price;
  double largest_cap; // bytes, of all groups
  // What follows from the prices. Per stage: of criteria; of sync; of seconds that are half forward
  // and half backward.
  bd_layers_criteria *weight;
  double *sync_weight, *both_weight;
  double *byte;       // per part: what a byte held for its micro-batches costs
  double *fixed_byte; // per stage: of any chunk
  double *device;     // per group
  double *to_go;      // [layer][part][mode][form]: the least from this layer on, itself included
  double *after;      // the same, without this layer and its option
  double constant;    // what is taken off the least of all
  bool ready;         // the sums from every layer on are those of the prices
  double bound;   // the best so far: no plan of the setting on these modes takes less; INFINITY:
                  // there is none
  double ceiling; // no plan takes more
} bd_layers_prices;

// Prices to begin with. `out_prices` has its first three members and `mode` set. Where there are
// too many sums, `to_go` is NULL and the bound stays 0. Lives in ctx->arena, and refers to `mode`.
void bd_layers_prices_open(bd_ctx *ctx, bd_layers_prices *out_prices);
// As opened, on other modes.
void bd_layers_prices_restart(bd_layers_prices *prices, const int *mode);
// Weights as the prices say.
void bd_layers_prices_apply(bd_layers_prices *prices);

// What a criterion of a stage counts for under a price of rest.
double bd_layers_price_factor(const bd_layers_setting *setting, const bd_price *price);
// Seconds of a layer under the prices, without the boundary before it.
double bd_layers_priced_option(const bd_layers_prices *prices, int layer, int part, int option);
// Seconds of the boundary before `layer` that lies between the parts `part` - 1 and `part`, or
// begins the first part; modes and forms left and right. INFINITY: not possible.
double bd_layers_priced_entry(const bd_layers_prices *prices, int layer, int part, int left_mode,
                              int left_form, int mode, int form);
// Bytes that a part which begins at `layer` holds of what skips to it.
double bd_layers_skipped_bytes(const bd_layers_setting *setting, int layer, int part, int mode);
static inline size_t bd_layers_priced_at(const bd_layers_prices *prices, int layer, int part,
                                         int mode, int form) {
  size_t at = (size_t)layer * (size_t)prices->parts + (size_t)part;
  return (at * (size_t)prices->modes + (size_t)mode) * (size_t)prices->forms + (size_t)form;
}
#endif
