// What the passes of a plan do, one thing after another: receive, work and send.
#ifndef BD_PLANNER_STEP_TRAFFIC_H
#define BD_PLANNER_STEP_TRAFFIC_H
#include "planner/step/step.h"

// Goes once per micro-batch between two parts of the pipeline; part c * stages + s is chunk c of
// stage s.
typedef struct bd_step_message {
  int from, to; // parts
  bool backward;
  int link; // of the sender: 2 * stage, and 1 more between nodes
  int copies;
  double copy_seconds, latency_seconds, move_seconds;
  // As of a bd_message_prediction.
  int received_turn, sent_turn;
  double received_after_seconds, sent_before_seconds;
} bd_step_message;

typedef enum bd_task_kind { BD_TASK_WORK, BD_TASK_SEND, BD_TASK_RECEIVE } bd_task_kind;

typedef struct bd_step_task {
  bd_task_kind kind;
  double seconds; // of the stage's own work, of the sender's copy, or before the bytes move
  int message;
} bd_step_task;

typedef struct bd_step_tasks {
  int count;
  bd_step_task *tasks;
} bd_step_tasks;

typedef struct bd_step_traffic {
  int parts, message_count;
  bd_step_message *messages;
  bd_step_tasks (*passes)[BD_PASS_WEIGHT + 1]; // per part
} bd_step_traffic;

// Whether the plan tells no messages, though it has stages that exchange some.
bool bd_step_messages_untold(const bd_plan *plan);

// Whether the plan tells messages that pass over stages, or several of one pass between two stages.
bool bd_step_has_detours(const bd_plan *plan);

// Takes off what the stages of `plan` spend on messages that pass over stages, and of several
// between two stages on all but the largest.
void bd_step_leave_out_detours(const bd_plan *plan, bd_stage_seconds *stages);

// The messages that the plan tells. Where it tells none, one goes each way between parts that
// follow one another, and what a stage spends on them is spread over those that it receives.
// Requires predictions; messages are told of plans of one chunk alone. Lives in ctx->arena.
void bd_step_read_traffic(bd_ctx *ctx, const bd_plan *plan, bd_step_traffic *out_traffic);
#endif
