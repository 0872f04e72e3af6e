// What a stage can take for any interval of layers: the best ways to run each, by time.
#ifndef BD_PLANNER_GRAPH_FRONTS_H
#define BD_PLANNER_GRAPH_FRONTS_H
#include "planner/graph/meter.h"
#include "planner/graph/setting.h"

// A way to run the layers of an interval within the cap.
typedef struct bd_front_item {
  bd_layers_criteria criteria;
  double sync;
  int trail; // of bd_fronts_trace; -1: of no single way
} bd_front_item;

typedef struct bd_front {
  int count;
  bd_front_item *items; // ascending in criteria.at[0]; none is beaten by another in all it has
} bd_front;

// How a front is kept small when it is larger than `limit` while it is built.
typedef enum bd_front_thinning {
  BD_FRONT_DROP,  // some ways are left out
  BD_FRONT_MERGE, // near ones become one that is as good as each: what is found is a lower bound
} bd_front_thinning;

struct bd_layers_windows;

typedef struct bd_fronts {
  const bd_layers_setting *setting;
  bd_front_thinning thinning;
  int limit;
  double cutoff; // ways that lead to plans of so many seconds or more are left out
  bd_layers_meter *meter;
  int64_t most_work;                       // by the meter
  const struct bd_layers_windows *windows; // of intervals that count; NULL: all do
  bool thinned, stopped;
  bd_front **rows; // per stage, mode and first layer: see bd_fronts_get
  int *lengths;    // of each row
  int trail_count, trail_capacity;
  struct bd_front_trail *trails;
} bd_fronts;

// All intervals of all stages, with one chunk per stage. `out_fronts` has its first seven members
// set. Lives in ctx->arena. When that is too much work, `stopped` is set and the fronts are not
// whole.
void bd_fronts_build(bd_ctx *ctx, bd_fronts *out_fronts);

// Of layers [first, last) on stage `stage` in mode `mode`, entered in form `enter` and left in form
// `leave`.
const bd_front *bd_fronts_get(const bd_fronts *fronts, int stage, int mode, int first, int last,
                              int enter, int leave);

// The options of the interval's layers, from `first` on.
void bd_fronts_trace(const bd_fronts *fronts, int trail, int length, int *out_options);

#endif
