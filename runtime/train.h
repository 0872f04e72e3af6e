// The training loop.
#ifndef BD_RT_TRAIN_H
#define BD_RT_TRAIN_H
#include "runtime/rank.h"

#include <stdio.h>

// Collective: steps up to --steps, evaluations and checkpoints between them, and at the end.
// `metrics`: NULL, or where rank 0 writes them. Returns 0, or a status after one rank has spoken;
// BD_RT_EXIT_STOPPED once a run that was told to stop has its checkpoint.
int bd_rt_train(bd_rt *rt, FILE *metrics);
#endif
