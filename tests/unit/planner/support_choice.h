// Choices by trying all of them.
#ifndef TESTS_UNIT_PLANNER_SUPPORT_CHOICE_H
#define TESTS_UNIT_PLANNER_SUPPORT_CHOICE_H
#include "planner/choice/choice.h"

// The least cost within the budget; INFINITY: none fits. Options are tried one by one.
double exhaustive_choice(bd_ctx *ctx, const bd_choice_problem *p);
#endif
