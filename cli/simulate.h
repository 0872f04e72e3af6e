// What `braid simulate` says about a replay.
#ifndef BD_CLI_SIMULATE_H
#define BD_CLI_SIMULATE_H
#include "ir/base/text.h"
#include "planner/simulate/simulate.h"

typedef struct bd_told_replay {
  const bd_plan *plan; // its predictions are what the replay is held against
  const bd_sim_problem *problem;
  const bd_sim_result *result;
  const char *cluster; // of the program that was replayed; NULL: the plan's predictions were
} bd_told_replay;

void bd_simulate_page(const bd_told_replay *replay, bd_text *text);
void bd_simulate_json(const bd_told_replay *replay, bd_text *text); // docs/simulate.md
#endif
