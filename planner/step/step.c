#include "planner/step/step.h"
#include <assert.h>

static double smaller(double a, double b) {
  return a < b ? a : b;
}

// How long a micro-batch takes to pass a stage that is not the busiest, there and back.
static double fill_seconds(bd_schedule schedule, int chunks, const bd_stage_seconds *stage) {
  double whole = stage->forward + stage->backward;
  return (schedule == BD_SCHEDULE_ZERO_BUBBLE ? whole - stage->weight : whole) / chunks;
}

// From the first micro-batch's arrival to the stage's last pass.
static double busy_seconds(bd_schedule schedule, int stages, int micro_batches,
                           const bd_stage_seconds *stage) {
  double whole = stage->forward + stage->backward;
  if (schedule != BD_SCHEDULE_ZERO_BUBBLE) return micro_batches * whole;
  double weight = stage->weight, input = stage->backward - weight;
  double uncovered = weight - smaller(stage->forward, input);
  int around = (micro_batches < stages ? micro_batches : stages) - 1;
  double seconds = micro_batches * (whole - weight) + (micro_batches - around) * weight;
  return uncovered > 0 ? seconds + around * uncovered : seconds;
}

// All forwards, then all backwards: the slowest forward and the slowest backward may be on two
// stages.
static double gpipe_seconds(int stages, int micro_batches, const bd_stage_seconds *stage) {
  double sum = 0, forward = 0, backward = 0;
  for (int s = 0; s < stages; s++) {
    sum += stage[s].forward + stage[s].backward;
    if (stage[s].forward > forward) forward = stage[s].forward;
    if (stage[s].backward > backward) backward = stage[s].backward;
  }
  return sum + (micro_batches - 1) * (forward + backward);
}

static double passes_seconds(bd_schedule schedule, int stages, int chunks, int micro_batches,
                             const bd_stage_seconds *stage) {
  double fill = 0, longest = 0;
  if (schedule == BD_SCHEDULE_GPIPE) return gpipe_seconds(stages, micro_batches, stage);
  for (int s = 0; s < stages; s++)
    fill += fill_seconds(schedule, chunks, &stage[s]);
  for (int s = 0; s < stages; s++) {
    double seconds = fill - fill_seconds(schedule, chunks, &stage[s]) +
                     busy_seconds(schedule, stages, micro_batches, &stage[s]);
    if (seconds > longest) longest = seconds;
  }
  return longest;
}

double bd_step_sync_seconds(int stages, const bd_stage_seconds *stage) {
  double sum = 0, apply = 0;
  for (int s = 0; s < stages; s++) {
    if (stage[s].sync - stage[s].apply > sum) sum = stage[s].sync - stage[s].apply;
    if (stage[s].apply > apply) apply = stage[s].apply;
  }
  return sum + apply;
}

double bd_step_seconds(bd_schedule schedule, int stages, int chunks, int micro_batches,
                       const bd_stage_seconds *stage) {
  assert(bd_schedule_allows(schedule, stages, chunks, micro_batches));
  return passes_seconds(schedule, stages, chunks, micro_batches, stage) +
         bd_step_sync_seconds(stages, stage);
}
