// What a step takes at least, by gpipe or 1f1b, from seconds of a micro-batch on its stages.
//
// Where a stage's order of passes is fixed, every path through passes that wait for one another is
// a lower bound on the step. With f, b and t = f + b a micro-batch's seconds on a stage, m
// micro-batches, k = min(p - s, m) of them in flight on stage s (from 0) of p, D the sum of t over
// the stages after s, and S that of all, four paths through all work of stage s bound 1f1b. A path
// comes to the first backward pass of s with the first micro-batch, from the end of the pipeline
// (before it lie all f, and the b after s) or through the k forward passes of s that precede it;
// it leaves after the last forward pass likewise:
//   S + (m - k) t + D,  S + (m - 1) t - (k - 1) f,  S + (m - 1) t - (k - 1) b,  S - D + (m - 1) t,
// the first only for m > k. The second and the third make S + (m - 1 - (k - 1)/2) t. GPipe takes S
// + (m - 1) (max f + max b), which is no less than S + (m - 1) max t.
#ifndef BD_PLANNER_STEP_BOUND_H
#define BD_PLANNER_STEP_BOUND_H
#include "ir/schedule.h"

// The most seconds of a micro-batch on stage `stage`, forward and backward, that let a step take no
// more than those of all stages and `rest_seconds` beside, when the stages after it take
// `after_seconds`. Stages that take more, and with them `after_seconds`, leave no more for both
// together. INFINITY: any.
double bd_step_most_seconds(bd_schedule schedule, int stage, int stages, int micro_batches,
                            double after_seconds, double rest_seconds);

// What a step takes beside the seconds of all stages at least, as a stage takes `seconds` and those
// after it `after_seconds`: by the paths that are longer the more of both there are, so that the
// least of each will do. The inverse of bd_step_most_seconds, which knows the last path as well.
double bd_step_rest_seconds(bd_schedule schedule, int stage, int stages, int micro_batches,
                            double seconds, double after_seconds);

// What a step takes beside the seconds of all stages at least, as stage `stage` takes so many
// seconds of a micro-batch, of which backward takes so many: the second of these paths, which is
// longer the more backward takes, and the more forward does.
double bd_step_backward_rest_seconds(bd_schedule schedule, int stage, int stages, int micro_batches,
                                     double seconds, double backward_seconds);

// The least seconds of a step whose stages take `sum_seconds` of a micro-batch together, however
// they share them. For m > p, and for gpipe, that is an equal share: sum (1 + (m - 1)/p).
double bd_step_least_seconds(bd_schedule schedule, int stages, int micro_batches,
                             double sum_seconds);
#endif
