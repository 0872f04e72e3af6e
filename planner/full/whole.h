// What no pipeline of whole layers beats. Numbers alone.
#ifndef BD_PLANNER_FULL_WHOLE_H
#define BD_PLANNER_FULL_WHOLE_H
#include "planner/full/share.h"

// Devices are of one group. Stages are told apart by how many are behind them.
typedef struct bd_whole {
  const bd_kinds *kinds;
  int micro_batches, devices, size_count;
  const int *sizes; // devices of a stage
  int least_layers; // of a stage
  int least_stages, most_stages;
  int depths; // stages with depths - 1 behind them or more are told as one
  // [depth][size][share]: the least seconds of a micro-batch, synchronization / micro_batches
  // included, of a stage that takes the share; INFINITY: it cannot.
  const double *seconds;
  // Per size: seconds of a micro-batch that a stage takes more for every neighbour of another size.
  const double *changing;
  const double *passing; // [size][share]: the time in which the first micro-batch passes the stage
                         // for the first time and the last one for the last time, together
  const bool *ends;      // per share: whether the last stages may have it (bd_share_ends)
  // What the first and the last of several stages spend on weights that they share, once a step,
  // before any stage applies its gradients: per size; NULL: nothing.
  const double *tie;
  const double *passes; // with ties: [size][share]: as `seconds`, without synchronization
  const bool *tied;     // with ties: per share: whether it has the first or the last layer for sure
  // [kind][size]: no stage has a layer for fewer seconds of a micro-batch; INFINITY: for none.
  const double *layer_seconds;
  double limit; // steps of so many seconds or more are of no interest
} bd_whole;

// How many are told apart. Cells: shares on numbers of devices; there may be more of few shares.
enum {
  BD_WHOLE_MAX_SIZES = 64,
  BD_WHOLE_MAX_CELLS = 1 << 17,
  BD_WHOLE_FEW_SHARES = 1 << 9,
  BD_WHOLE_FEW_CELLS = 1 << 19
};

// A step takes at least so many seconds, or `limit`. `out_used`: per size, whether the bound is
// made of stages of that size.
//
// As in planner/full/floor.h, every stage has m u + (q of the stages before it) <= T. With R(n, x)
// the least T of stages that take the share x on n devices, of which the first takes y on d:
// R(n, x) = min over d, y of max(m u(d, y), q(d, y) + R(n - d, x - y)). R is told for every size of
// that first stage, as u grows with neighbours of other sizes. As no stage applies its gradients
// before all have summed theirs, a stage of passes t also has m t + (q of the stages before it) +
// (the least tie) <= T. Devices are counted in units: sizes
// on which only layers of next to no work have the time count for as many whole ones as they make.
double bd_whole_seconds(bd_ctx *ctx, const bd_whole *whole, bool *out_used);

// The same under zero-bubble alone, from the end of a step: where s stages are before a stage it
// has at most s + 1 weight passes left when its last B is done, and its forward passes, B and other
// weight passes lie between the first micro-batch's way to it and the last one's way back through
// the stages before. `weight`: per share, the most of its seconds that weight passes take; `both`:
// [size][share], the least of forward and backward.
double bd_whole_late_seconds(bd_ctx *ctx, const bd_whole *whole, const double *weight,
                             const double *both, bool *out_used);
#endif
