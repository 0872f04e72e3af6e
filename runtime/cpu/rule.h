// The elements of an optimizer's rule in grains of fixed size, each the work of one thread.
#ifndef BD_RT_CPU_RULE_H
#define BD_RT_CPU_RULE_H
#include "runtime/cpu/halves.h"
#include "runtime/cpu/rt.h"

enum { BD_RT_GRAIN = 1 << 16, BD_RT_BLOCK = 1 << 10 };

// Elements from `first` on as floats: where they are, or of bf16 in `room`.
static inline const float *bd_rt_as_floats(int dtype, const void *data, int64_t first,
                                           int64_t count, float *room) {
  if (dtype == BD_RT_F32) return (const float *)data + first;
  bd_rt_widen_run(dtype, (const uint16_t *)data + first, room, count);
  return room;
}

// `count` elements that lie one after another everywhere, their gradients in f32; changes weights
// and states where `sum` is NULL, else adds to it.
typedef void (*bd_rt_rule_body)(const bd_rt_rule *rule, int64_t count, double *sum);
// The rule's elements from grain * BD_RT_GRAIN on; weights that were changed are rounded to halves.
void bd_rt_run_grain(const bd_rt_rule *rule, int64_t grain, bd_rt_rule_body body, double *sum);

// What follows the first element of the draws, at most BD_RT_BLOCK numbers, to bf16.
void bd_rt_round_run(const bd_rt_draws *draws, const float *wide, uint16_t *halves, int64_t count);

void bd_rt_apply_factored(const bd_rt_rule *rule, int64_t count, double *sum);
#endif
