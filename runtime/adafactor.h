// See runtime/factors.h.
#ifndef BD_RT_ADAFACTOR_H
#define BD_RT_ADAFACTOR_H
#include "runtime/backend.h"
#include "runtime/master.h"

// Of this rank's part of a weight, which begins at element `first` of the accumulator.
bd_rt_factors bd_rt_factors_of(const bd_rt *rt, const bd_rt_weight *weight, int64_t first,
                               float *state);
// What brings the state up to date before update number `steps` (from 1), in this order: each phase
// for every weight before the next, so that a back end may do many weights at once. `zero`: the
// mask of axes over which the accumulator is split flat.
enum {
  BD_RT_ADD_FACTORS,
  BD_RT_SUM_FACTORS,
  BD_RT_ADD_UPDATES,
  BD_RT_SUM_UPDATES,
  BD_RT_ADAFACTOR_PHASES
};
void bd_rt_adafactor(bd_rt *rt, int phase, const bd_rt_weight *weight, int zero, double steps,
                     const bd_rt_rule *rule);
#endif
