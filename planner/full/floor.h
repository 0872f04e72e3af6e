// What no pipeline of unequal stages beats, whatever its schedule. Numbers alone.
#ifndef BD_PLANNER_FULL_FLOOR_H
#define BD_PLANNER_FULL_FLOOR_H
#include "ir/base/context.h"

// Devices that a stage may take, all of one group.
typedef struct bd_floor_size {
  int group, devices;
} bd_floor_size;

// Layers in runs of equal ones, to be spread over stages of these sizes.
typedef struct bd_floor {
  int run_count, group_count, size_count, micro_batches;
  int most_stages;
  const int *calls;         // per run: its layers
  const int *group_devices; // per group: how many there are
  const bd_floor_size *sizes;
  // [run][size]: the least that a layer adds to its stage's seconds of a micro-batch, forward,
  // backward and sync / micro_batches together; INFINITY: no such stage can run it.
  const double *seconds;
  // Per size: what every such stage spends at least on messages of a micro-batch.
  const double *handing;
  double limit; // steps of so many seconds or more are of no interest: the floor may end there
  // [run][size]: the least that it adds to the time in which the first micro-batch passes its stage
  // for the first time and the last one for the last time, together.
  const double *passing;
  int rounds;   // of looking for values that tell more
  bool roughly; // passing counts for nothing, which takes no time to speak of
} bd_floor;

// A step takes at least so many seconds; INFINITY when a run has no size. `out_used`: per size,
// whether the bound is made of stages of that size.
//
// With u a stage's seconds of a micro-batch as above, q its passing and T the step, every stage has
// m u + (q of the stages before it) <= T, since its work begins after the first micro-batch has
// passed those and ends before the last one has come back through them. Let a layer have a value, a
// stage of d devices take up at most r(d) of value in a second, and pass no faster than k(d) a
// value. A stage that starts with slack a = T - (q before it) takes up v <= r a / m and leaves
// a - k v. The most that n devices can take up is then a h(n), where h(n) is the largest of
// r/m + (1 - k r/m) h(n - d): so T >= (value of all layers) / h(all devices), for any values (LP
// duality). A stage that spends x on messages has a/m - x left, no more than (a/m) (1 - m x /
// limit), as a <= T.
double bd_floor_seconds(bd_ctx *ctx, const bd_floor *floor, bool *out_used);
#endif
