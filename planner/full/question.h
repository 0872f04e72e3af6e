// Layer graphs that are solved one after another, each against the plan in hand. Some are solved
// ahead of their turn, side by side, and once more where a plan was found in the meantime, so that
// nothing depends on the number of threads.
#ifndef BD_PLANNER_FULL_QUESTION_H
#define BD_PLANNER_FULL_QUESTION_H
#include "planner/full/graphs.h"

typedef struct bd_full_question {
  const bd_full_space *space;
  bd_full_problem problem;
  double seconds;     // no plan of it takes less
  double slack;       // plans that its graph takes for so many times as slow may be faster
  int graphs, meshes; // what it adds to those that were looked at
  double cutoff;      // that the answer was looked for under; 0: there is none
  bd_layers_answer answer;
} bd_full_question;

typedef struct bd_full_questions {
  int count, capacity;
  bd_full_question *items;
} bd_full_questions;

// Lives in ctx->arena.
void bd_full_ask(bd_full_graphs *graphs, bd_full_questions *questions,
                 const bd_full_question *question);

// Plans that take so many seconds are of no interest.
double bd_full_cutoff(const bd_full_graphs *graphs, const bd_full_question *question);

// Whether there may be plans of interest.
bool bd_full_is_open(const bd_full_graphs *graphs, const bd_full_question *question);

// What is found under the cutoff of now, or nothing once the deadline has passed. Lives in
// ctx->arena.
BD_NODISCARD bd_status bd_full_answer(bd_full_graphs *graphs, bd_full_questions *questions,
                                      int index, bd_layers_answer *out_answer);
#endif
