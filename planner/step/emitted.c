// Steps of the schedules that programs run.
#include "planner/step/step.h"
#include <assert.h>
#include <math.h>

// 1F1B, whose order of passes alternates on every stage. After turn n, `forward` is the end of
// micro-batch n's forward pass on each stage, `backward` that of micro-batch n - k + 1, with k of
// them in flight, and `before` what it was a turn earlier.
typedef struct turning {
  int stages, micro_batches;
  const bd_stage_seconds *stage;
  int in_flight[BD_MAX_STAGES];
  double forward[BD_MAX_STAGES], backward[BD_MAX_STAGES], before[BD_MAX_STAGES];
} turning;

// A stage's forward pass follows the one that made room for it.
static void turn_forward(turning *t, int n) {
  double ready = 0;
  for (int s = 0; s < t->stages && n < t->micro_batches; s++) {
    double free = n < t->in_flight[s] ? t->forward[s] : t->backward[s];
    ready = t->forward[s] = fmax(ready, free) + t->stage[s].forward;
  }
}

// The next stage has as many in flight, or one less: then it ran this micro-batch's backward pass a
// turn earlier.
static void turn_backward(turning *t, int n) {
  for (int s = t->stages - 1; s >= 0; s--) {
    int micro_batch = n - t->in_flight[s] + 1;
    double free = n < t->micro_batches ? t->forward[s] : t->backward[s], ready = 0;
    t->before[s] = t->backward[s];
    if (micro_batch < 0 || micro_batch >= t->micro_batches) continue;
    if (s + 1 < t->stages)
      ready = t->in_flight[s + 1] == t->in_flight[s] ? t->backward[s + 1] : t->before[s + 1];
    t->backward[s] = fmax(ready, free) + t->stage[s].backward;
  }
}

// Whether all stages' clocks moved on alike. A turn adds to the latest of some clocks, so that they
// will go on to move alike.
static bool is_steady(const turning *t, double *out_seconds) {
  double moved = *out_seconds = t->backward[0] - t->before[0];
  for (int s = 1; s < t->stages; s++)
    if (fabs(t->backward[s] - t->before[s] - moved) > 1e-13 * t->backward[s]) return false;
  return true;
}

// Turns that do what the one before did are skipped.
static double alternating_seconds(int stages, int micro_batches, const bd_stage_seconds *stage) {
  turning t = {.stages = stages, .micro_batches = micro_batches, .stage = stage};
  double skipped = 0, turn;
  for (int s = 0; s < stages; s++)
    t.in_flight[s] = bd_schedule_in_flight(BD_SCHEDULE_1F1B, s, stages, micro_batches);
  for (int n = 0; n < micro_batches + t.in_flight[0] - 1; n++) {
    turn_forward(&t, n);
    turn_backward(&t, n);
    if (n < t.in_flight[0] || n >= micro_batches || !is_steady(&t, &turn)) continue;
    skipped += (micro_batches - 1 - n) * turn;
    n = micro_batches - 1;
  }
  return t.backward[0] + skipped;
}

double bd_step_emitted_seconds(bd_schedule schedule, int stages, int micro_batches,
                               const bd_stage_seconds *stage) {
  assert(bd_schedule_emitted(schedule) && stages <= BD_MAX_STAGES);
  if (schedule == BD_SCHEDULE_GPIPE)
    return bd_step_seconds(schedule, stages, 1, micro_batches, stage);
  return alternating_seconds(stages, micro_batches, stage) + bd_step_sync_seconds(stages, stage);
}
