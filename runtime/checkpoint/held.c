#include "runtime/checkpoint/held.h"

#include "runtime/adafactor.h"
#include "runtime/master.h"

void *bd_rt_held_data(const bd_rt *rt, const bd_rt_weight *weight, int kind) {
  float *const master = bd_rt_master(rt, weight);
  float *const state = bd_rt_moments(rt, weight);
  switch (kind) {
  case BD_RT_SAVED_WEIGHT:
    return master ? (void *)master : rt->arena + weight->weight_offset;
  case BD_RT_SAVED_FIRST:
    return state;
  case BD_RT_SAVED_SECOND:
    return state + weight->state_elements;
  default:;
    const bd_rt_factors factors = bd_rt_factors_of(rt, weight, 0, state);
    return kind == BD_RT_SAVED_ROWS      ? factors.row
           : kind == BD_RT_SAVED_COLUMNS ? factors.column
                                         : factors.mean + BD_RT_MEAN_GRADIENT;
  }
}
