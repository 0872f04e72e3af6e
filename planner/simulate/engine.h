// The insides of the replay: one actor per stage.
#ifndef BD_PLANNER_SIMULATE_ENGINE_H
#define BD_PLANNER_SIMULATE_ENGINE_H
#include "planner/simulate/simulate.h"

typedef enum bd_sim_state {
  BD_SIM_RUNNING,      // an action's own time runs
  BD_SIM_WAITS_ROOM,   // to send: the message before has not been received
  BD_SIM_WAITS_SENDER, // to receive: nothing has been sent
  BD_SIM_LATENCY,      // a message is on its way here
  BD_SIM_MOVING,       // its bytes move
  BD_SIM_WAITS_ALL,    // at a barrier
  BD_SIM_DONE,
} bd_sim_state;

typedef struct bd_sim_actor {
  const bd_stage_pass *passes;
  int pass_count;
  bd_sim_phase phase;
  int pass, action; // which pass of the phase, which action of it
  bd_sim_state state;
  double since, finish; // when the state began; when it ends, or INFINITY: when another acts
  double left, share;   // moving: seconds of it left at `moved`, and the part of the link it has
  double moved;
  int64_t live[BD_SEGMENT_COUNT];
} bd_sim_actor;

typedef struct bd_sim_queue { // of one kind of message
  int64_t sent, received;
} bd_sim_queue;

typedef struct bd_sim {
  bd_ctx *ctx;
  const bd_sim_problem *problem;
  bd_sim_record *record; // or NULL
  bd_sim_result *result;
  bd_sim_actor *actor; // per stage
  bd_sim_queue *queue; // per message kind
  int (*sending)[2];   // per stage and kind of link (within a node, between): messages moving out
  int waiting;         // actors at the barrier
  double now;
} bd_sim;

// The bytes of what actor `stage` receives begin or end to move: all that leaves the sender over
// the same link shares its rate evenly.
void bd_sim_begin_moving(bd_sim *sim, int stage, const bd_sim_message *message);
void bd_sim_end_moving(bd_sim *sim, int stage, const bd_sim_message *message);

// A stage's memory from the start of the step, as a pass begins, and as one has ended.
void bd_sim_open_memory(bd_sim *sim, int stage);
void bd_sim_hold(bd_sim *sim, int stage, const bd_stage_pass *pass);
void bd_sim_release(bd_sim *sim, int stage, const bd_stage_pass *pass);

// The action that an actor is at, or NULL at the end of its pass.
const bd_sim_action *bd_sim_action_at(const bd_sim *sim, int stage);
#endif
