// An independent replay of a training step: discrete events instead of formulas. Every stage runs
// its order of passes; messages between stages move over links that they share; what the step's end
// does follows; memory is counted. Nothing here comes from planner/step/step.h or from formulas of
// what is in flight.
#ifndef BD_PLANNER_SIMULATE_SIMULATE_H
#define BD_PLANNER_SIMULATE_SIMULATE_H
#include "ir/memory.h"
#include "ir/plan.h"

// One kind of message between two stages; it goes once per micro-batch, or once at the step's end.
// A rank sends it to its counterpart, all ranks of the stage at once. Times are of one rank with
// its link to itself.
typedef struct bd_sim_message {
  int from, to; // stages
  bool between_nodes;
  double bytes;
  double latency_seconds; // before the bytes move
  double move_seconds;
} bd_sim_message;

typedef enum bd_sim_kind {
  BD_SIM_COMPUTE,
  BD_SIM_SEND,    // copies the message and goes on; waits first for a copy to be free
  BD_SIM_RECEIVE, // waits for the message, then for its bytes, which move only now
} bd_sim_kind;

typedef struct bd_sim_action {
  bd_sim_kind kind;
  double seconds;            // compute, collectives included; or the copy of what is sent
  double collective_seconds; // of compute
  int message;
} bd_sim_action;

typedef struct bd_sim_work {
  int count;
  bd_sim_action *actions;
} bd_sim_work;

enum { BD_SIM_PASS_KINDS = BD_PASS_WEIGHT + 1 };

typedef struct bd_sim_stage {
  int ranks;
  const bd_sim_work *pass[BD_SIM_PASS_KINDS]; // per chunk
  // The step's end: gradients are reduced when all stages are done with their passes (the loss is a
  // sum over all ranks), weights are updated when all have reduced (so is the gradient's norm).
  bd_sim_work reduce, update;
  // Bytes of a rank: held throughout, and from a forward pass to its last backward pass.
  int64_t fixed_bytes[BD_SEGMENT_COUNT], slot_bytes[BD_SEGMENT_COUNT];
  int64_t weight_input_bytes; // of the tape: zero-bubble, from a backward pass to its weight pass
} bd_sim_stage;

typedef struct bd_sim_problem {
  bd_schedule schedule;
  int stages, chunks, micro_batches;
  bool blocking; // senders wait when all their copies of a message are on their way
  int message_count;
  const bd_sim_message *messages;
  const bd_sim_stage *stage;
} bd_sim_problem;

// What a stage's time goes to. The parts add up to the step.
typedef struct bd_sim_times {
  double compute_seconds, collective_seconds; // in passes
  double send_seconds, receive_seconds;       // copying; bytes on their way while the stage waits
  double reduce_seconds, update_seconds;
  double bubble_seconds; // waiting for anything else
  double passes_end_seconds;
} bd_sim_times;

typedef struct bd_sim_result {
  double step_seconds, passes_seconds; // until the last update; until the last pass
  bd_sim_times *times;                 // per stage
  bd_memory *peak;                     // per stage: the most of each segment, and of their sum
} bd_sim_result;

// What happened, for a trace. Lists grow in ctx->arena, to as many entries at most.
enum { BD_SIM_MOST_EVENTS = 1 << 21 };

typedef enum bd_sim_thread {
  BD_SIM_THREAD_COMPUTE,
  BD_SIM_THREAD_SEND,
  BD_SIM_THREAD_RECEIVE,
  BD_SIM_THREAD_SYNC,
  BD_SIM_THREAD_COUNT
} bd_sim_thread;

typedef enum bd_sim_phase {
  BD_SIM_PASSES,
  BD_SIM_REDUCE,
  BD_SIM_UPDATE,
  BD_SIM_PHASE_COUNT
} bd_sim_phase;

typedef struct bd_sim_event {
  int stage;
  bd_sim_thread thread;
  bd_sim_phase phase;
  bd_stage_pass pass; // in the phase of passes
  int message;        // of a send or a receive, else -1
  double start_seconds, seconds;
  double collective_seconds;
} bd_sim_event;

typedef struct bd_sim_level { // bytes live on a stage's rank from here on
  int stage;
  double seconds;
  int64_t bytes[BD_SEGMENT_COUNT];
} bd_sim_level;

typedef struct bd_sim_record {
  int event_count, event_capacity, level_count, level_capacity;
  bd_sim_event *events;
  bd_sim_level *levels;
} bd_sim_record;

// Replays the problem. `record` may be NULL. Results live in ctx->arena. Errors: BD_EXHAUSTED for
// more passes than are simulated, BD_INVALID when stages wait for each other in a circle.
BD_NODISCARD bd_status bd_sim_run(bd_ctx *ctx, const bd_sim_problem *problem, bd_sim_record *record,
                                  bd_sim_result *out_result);
#endif
