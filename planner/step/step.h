// Seconds of a training step from the seconds of its stages.
#ifndef BD_PLANNER_STEP_STEP_H
#define BD_PLANNER_STEP_STEP_H
#include "ir/plan.h"

// Passes of a step, of all stages, up to which interleaved and zero-bubble are run pass by pass.
#define BD_STEP_ORDERED ((int64_t)1 << 20)

// Of one micro-batch on one stage, over all its chunks; what it sends and receives is included.
typedef struct bd_stage_seconds {
  double forward, backward;
  double weight; // the part of `backward` that zero-bubble delays; 0 under other schedules
  double sync;   // gradients and update, once a step
  double apply;  // the part of `sync` that waits until all stages are done with the rest of theirs
} bd_stage_seconds;

// What follows the passes: no stage applies its gradients before all stages have summed theirs,
// since their norm is taken over all (runtime/update.c).
double bd_step_sync_seconds(int stages, const bd_stage_seconds *stage);

// Seconds of a step by a formula, which bare layer graphs are defined by (docs/layer-graphs.md):
// the stage that is busy longest, the time in which the others fill and drain the pipeline around
// it, and what follows the passes. With m micro-batches, p stages and v chunks:
//  - 1f1b: sum + (m - 1) slowest (Narayanan et al., SC 2021, section 2.2.1: a bubble of p - 1
//    micro-batches). The bottleneck is taken to be the last stage; where it is stage s, its order
//    may hide as much as (min(p - s, m) - 1) min(forward, backward) of this;
//  - gpipe: the same, of forward and of backward apart, which are two pipelines one after another;
//  - interleaved: the bubble is a v-th of that (the same, section 2.2.2);
//  - zero-bubble, with F, B and W of the busiest stage, k = min(m, p): the others' F + B, then
//    m (F + B) + (m - k + 1) W + (k - 1) max(0, W - min(F, B)). For W <= min(F, B) and m >= p this
//    is the bubble (p - 1)(F + B - W) of ZB-H1 (Qi et al., ICLR 2024, table 1); longer W are not
//    hidden whole.
// Equal stages take this long by the order of their passes as well. `stage` has `stages` entries.
double bd_step_seconds(bd_schedule schedule, int stages, int chunks, int micro_batches,
                       const bd_stage_seconds *stage);

// Seconds of a step pass by pass, which plans are predicted by: a stage runs the order of its
// schedule, a pass starts as soon as the stage is free and the pass before it in the pipeline is
// done; what follows the passes is added. Exact for stages of any seconds that do not wait for
// transfers. Steps of more than BD_STEP_ORDERED passes under interleaved and zero-bubble are told
// by the formula, of which the ends of the pipeline are then a small part.
BD_NODISCARD bd_status bd_step_ordered_seconds(bd_ctx *ctx, bd_schedule schedule, int stages,
                                               int chunks, int micro_batches,
                                               const bd_stage_seconds *stage, double *out_seconds);

// The same for gpipe and 1f1b alone, in few operations a stage and micro-batch, and none where all
// turns are alike.
double bd_step_emitted_seconds(bd_schedule schedule, int stages, int micro_batches,
                               const bd_stage_seconds *stage);

// Seconds of a step of `plan`, whose stages are predicted, pass by pass; where messages pass over
// stages or nobody told them, message by message (planner/step/messages.h), but no less than pass
// by pass without what passes over stages.
BD_NODISCARD bd_status bd_step_plan_seconds(bd_ctx *ctx, const bd_plan *plan, double *out_seconds);
#endif
