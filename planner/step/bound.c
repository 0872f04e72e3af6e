#include "planner/step/bound.h"
#include <math.h>

// Micro-batches of a stage that have gone forward before the first comes back, but for that.
static int ahead_of(int stage, int stages, int micro_batches) {
  return bd_schedule_in_flight(BD_SCHEDULE_1F1B, stage, stages, micro_batches) - 1;
}

double bd_step_most_seconds(bd_schedule schedule, int stage, int stages, int micro_batches,
                            double after_seconds, double rest_seconds) {
  int others = micro_batches - 1, ahead = ahead_of(stage, stages, micro_batches);
  if (others == 0) return INFINITY;
  if (schedule == BD_SCHEDULE_GPIPE) return rest_seconds / others;
  double most =
      fmin(rest_seconds / (others - ahead / 2.0), (rest_seconds + after_seconds) / others);
  return others > ahead ? fmin(most, (rest_seconds - after_seconds) / (others - ahead)) : most;
}

double bd_step_rest_seconds(bd_schedule schedule, int stage, int stages, int micro_batches,
                            double seconds, double after_seconds) {
  int others = micro_batches - 1, ahead = ahead_of(stage, stages, micro_batches);
  if (schedule == BD_SCHEDULE_GPIPE) return others * seconds;
  double rest = (others - ahead / 2.0) * seconds;
  return others > ahead ? fmax(rest, (others - ahead) * seconds + after_seconds) : rest;
}

double bd_step_backward_rest_seconds(bd_schedule schedule, int stage, int stages, int micro_batches,
                                     double seconds, double backward_seconds) {
  int others = micro_batches - 1, ahead = ahead_of(stage, stages, micro_batches);
  if (schedule == BD_SCHEDULE_GPIPE) return others * seconds;
  return others * seconds - ahead * (seconds - backward_seconds);
}

double bd_step_least_seconds(bd_schedule schedule, int stages, int micro_batches,
                             double sum_seconds) {
  double share = 0; // what the stages take together at most, for a rest of 1
  for (int s = stages - 1; s >= 0; s--)
    share += bd_step_most_seconds(schedule, s, stages, micro_batches, share, 1);
  return sum_seconds + sum_seconds / share;
}
