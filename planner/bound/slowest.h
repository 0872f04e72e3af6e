// What a step takes at least where all that follows its passes is told of one stage.
//
// With t a micro-batch's seconds on a stage, b of them in backward, y what the stage does once a
// step, k its micro-batches in flight, m micro-batches, and S the sum of t over all stages, a step
// takes, for every stage (planner/step/bound.h),
//   S + (m - 1 - (k - 1)/2) t + y   and   S + (m - k) t + (k - 1) b + y,
// by gpipe S + (m - 1) t + y. The first and the last stage, where their layers share weights, have
// that in common in y; it follows the passes of any other stage as well. bd_bound_layers spreads
// the step's end over all stages instead, and so needs one choice for each layer. Here layers are
// chosen for every term by itself: what is not the stage's own is at its fastest, however long its
// end.
//
// Nor does a step take less than the longest of all paths and the longest of all ends, which may be
// of different stages. Where the longest path takes from l to h, a micro-batch on a stage takes
// t(h) at most (bd_step_most_seconds), and the stage's end what the least of w t + y leaves above w
// t(h), for every weight w; with l that is what a step takes at least, and the least of it for any
// l is.
#ifndef BD_PLANNER_BOUND_SLOWEST_H
#define BD_PLANNER_BOUND_SLOWEST_H
#include "ir/base/clock.h"
#include "planner/bound/bound.h"

// Raises `seconds` of settings of several stages that differ in their tied form alone, whatever
// they hold, by this and by bound/ends.h; those that are left at the deadline stay as they are. A
// bound of `enough` seconds is not looked for further.
BD_NODISCARD bd_status bd_bound_slowest(bd_ctx *ctx, const bd_scene *scene, bd_deadline deadline,
                                        double enough, int count, bd_bounded *bounded);
#endif
