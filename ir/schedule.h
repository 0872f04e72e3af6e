// Pipeline schedules: the order of the passes of a stage, and what it holds in flight.
#ifndef BD_IR_SCHEDULE_H
#define BD_IR_SCHEDULE_H
#include "ir/base/context.h"

// GPipe: all forwards, then all backwards (Huang et al., NeurIPS 2019, section 2.3). 1F1B: as few
// forwards ahead as fill the pipeline, then one forward and one backward in turn (Narayanan et al.,
// SC 2021, section 2.2.1). Interleaved: 1F1B over several chunks of layers per stage, where chunk c
// of stage s is the pipeline's (c * stages + s)-th part (the same, section 2.2.2). Zero-bubble:
// backward is split into the gradient of the input (B) and that of the weights (W), which waits:
// the hand-made schedule ZB-H1 with the memory of 1F1B's first stage (Qi et al., ICLR 2024, section
// 2.3).
typedef enum bd_schedule {
  BD_SCHEDULE_GPIPE,
  BD_SCHEDULE_1F1B,
  BD_SCHEDULE_INTERLEAVED,
  BD_SCHEDULE_ZERO_BUBBLE,
  BD_SCHEDULE_COUNT
} bd_schedule;
const char *bd_schedule_name(bd_schedule schedule); // "gpipe", "1f1b", "interleaved", "zero-bubble"
bool bd_schedule_parse(const char *name, bd_schedule *out_schedule);

// Whether programs run it: gpipe and 1f1b. The others are planned, explained and simulated.
bool bd_schedule_emitted(bd_schedule schedule);

// Whether the schedule is defined for these counts, all at least 1: only interleaved has more than
// one chunk per stage, and then its micro-batches are a multiple of the stages. With one chunk it
// is 1F1B.
bool bd_schedule_allows(bd_schedule schedule, int stages, int chunks, int64_t micro_batches);

// Most micro-batches whose tapes stage `stage` of `stages` holds at once, with one chunk per stage.
// GPipe: all; 1F1B: min(micro_batches, stages - stage); zero-bubble: min(micro_batches, stages).
int bd_schedule_in_flight(bd_schedule schedule, int stage, int stages, int micro_batches);

// How many copies of a message its sender keeps, so that it waits for the receiver only when so
// many are on their way: one per stage that they go on or back. In steps of equal passes a stage is
// never further ahead of a later one, or a later one of it in backward, so that with fewer, values
// that pass over stages make these wait for each other in a circle under 1F1B.
static inline int bd_schedule_copies(int from_stage, int to_stage) {
  return from_stage < to_stage ? to_stage - from_stage : from_stage - to_stage;
}

// A stage's work is: `warmup` forwards, then `steady` pairs (forward, backward), then `cooldown`
// backwards; micro-batches ascend in both directions. GPipe: warmup = all, steady = 0. For emitted
// schedules.
typedef struct bd_schedule_phases {
  int warmup, steady, cooldown;
} bd_schedule_phases;
bd_schedule_phases bd_schedule_get_phases(bd_schedule schedule, int stage, int stages,
                                          int micro_batches);

typedef enum bd_stage_pass_kind {
  BD_PASS_FORWARD,
  BD_PASS_BACKWARD, // whole; zero-bubble: the gradient of the input only
  BD_PASS_WEIGHT,   // zero-bubble: the gradient of the weights
} bd_stage_pass_kind;

typedef struct bd_stage_pass {
  bd_stage_pass_kind kind;
  int chunk, micro_batch;
} bd_stage_pass;

// The passes of one stage in the order in which it runs them. With transfers that block the sender
// no sooner than bd_schedule_copies says, no stages wait for each other in a circle. `*out_passes`
// lives in ctx->arena. Requires bd_schedule_allows. Errors: BD_EXHAUSTED for more than 2^26 passes.
BD_NODISCARD bd_status bd_schedule_order(bd_ctx *ctx, bd_schedule schedule, int stage, int stages,
                                         int chunks, int micro_batches,
                                         const bd_stage_pass **out_passes, int *out_count);

// The most that a stage holds at once over its order. A tape is that of one chunk for one
// micro-batch, from the start of its forward to the end of its last backward pass (under
// zero-bubble its W). What W needs beside the tape, the gradients that B computed, is held from B
// to W.
typedef struct bd_schedule_hold {
  int tapes;
  int weight_inputs; // zero-bubble only: micro-batches between the start of B and the end of W
} bd_schedule_hold;
bd_schedule_hold bd_schedule_held(bd_schedule schedule, int stage, int stages, int chunks,
                                  int micro_batches);
#endif
