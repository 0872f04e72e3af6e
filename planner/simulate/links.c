// Links shared by the messages that leave a device at the same time.
#include "planner/simulate/engine.h"
#include <math.h>

// Brings what is left up to date, and spreads the link among its users anew.
static void share_link(bd_sim *sim, int from, bool between_nodes) {
  double share = 1.0 / sim->sending[from][between_nodes];
  for (int s = 0; s < sim->problem->stages; s++) {
    bd_sim_actor *actor = &sim->actor[s];
    if (actor->state != BD_SIM_MOVING) continue;
    const bd_sim_message *message = &sim->problem->messages[bd_sim_action_at(sim, s)->message];
    if (message->from != from || message->between_nodes != between_nodes) continue;
    actor->left = fmax(0, actor->left - (sim->now - actor->moved) * actor->share);
    actor->moved = sim->now;
    actor->share = share;
    actor->finish = sim->now + actor->left / share;
  }
}

void bd_sim_begin_moving(bd_sim *sim, int stage, const bd_sim_message *message) {
  bd_sim_actor *actor = &sim->actor[stage];
  actor->state = BD_SIM_MOVING;
  actor->left = message->move_seconds;
  actor->moved = sim->now;
  actor->share = 1;
  sim->sending[message->from][message->between_nodes]++;
  share_link(sim, message->from, message->between_nodes);
}

void bd_sim_end_moving(bd_sim *sim, int stage, const bd_sim_message *message) {
  sim->actor[stage].state = BD_SIM_RUNNING;
  if (--sim->sending[message->from][message->between_nodes] > 0)
    share_link(sim, message->from, message->between_nodes);
}
