// Checks of kernels run as the step of a program of one rank, of the form that the compiler emits;
// and the numbers that they work on, which the caller frees.
#ifndef BD_TESTS_RUNTIME_CHECK_STEP_H
#define BD_TESTS_RUNTIME_CHECK_STEP_H
#include "runtime/braid_rt.h"

// From -1 to 1, the same for the same seed.
float *numbers(int64_t count, unsigned seed);
float *cleared(int64_t count);
double *zeros(int64_t count);

// What main returns.
int check_run_step(char *name, void (*step)(bd_rt *rt), int threads);
#endif
