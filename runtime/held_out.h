// Evaluation: the loss on held-out data (--eval) between steps, by forward passes alone. Nothing
// that training goes on from is touched: weights, the optimizer's states, gradients, the scale of
// the loss, the samples and random numbers of steps. It works in what steps leave free of the
// arena: tapes, boundary and workspace.
#ifndef BD_RT_HELD_OUT_H
#define BD_RT_HELD_OUT_H
#include "runtime/rank.h"

// Collective: opens --eval, whose first samples make the batches of every evaluation, in the order
// of the file: windows of tokens side by side, or arrays' samples. Without the option there are
// none. 0, or a status after a rank has spoken.
int bd_rt_held_out_open(bd_rt *rt);

// Of a run with evaluations, whether there is one after `steps` steps: beside that with which the
// run begins.
bool bd_rt_held_out_due(const bd_rt *rt, int64_t steps);

// The global batches of a run in their order: of evaluations and of steps. `batch` is the one
// before; what has no successor in the run is followed by one that bd_rt_batch_is_of_run refuses.
bd_rt_batch bd_rt_batch_first(const bd_rt *rt);
bd_rt_batch bd_rt_batch_after(const bd_rt *rt, bd_rt_batch batch);
bool bd_rt_batch_is_of_run(const bd_rt *rt, bd_rt_batch batch);

// Collective: the loss of the weights as they are, the sum over all samples of the evaluation
// divided by the number of their valid targets; the same on every rank.
double bd_rt_held_out_loss(bd_rt *rt);
#endif
