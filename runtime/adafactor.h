// See runtime/factors.h.
#ifndef BD_RT_ADAFACTOR_H
#define BD_RT_ADAFACTOR_H
#include "runtime/backend.h"
#include "runtime/master.h"

// Before update number `steps` (from 1) of this rank's part of a weight, which begins at element
// `first` of the accumulator: brings the state up to date and fills in rule->factors. `zero`: the
// mask of axes over which the accumulator is split flat.
void bd_rt_adafactor(bd_rt *rt, const bd_rt_weight *weight, int zero, int64_t first, float *state,
                     double steps, bd_rt_rule *rule);
#endif
