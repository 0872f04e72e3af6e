#include "runtime/scale.h"

#include <math.h>
#include <stdio.h>

static const double LEAST_SCALE = 1;

static int is_given(const bd_rt_options *o) {
  return o->loss_scale > 0 || o->loss_scale_growth > 0 || o->loss_scale_backoff > 0 ||
         o->loss_scale_interval >= 0;
}

int bd_rt_scale_start(bd_rt *rt, char *message, size_t message_bytes) {
  bd_rt_options *const o = &rt->options;
  rt->loss_scale = 1;
  if (rt->program->precision != BD_RT_F16) {
    if (!is_given(o)) return 0;
    snprintf(message, message_bytes,
             "options of the loss scale are for programs compiled with --precision fp16");
    return BD_RT_EXIT_USAGE;
  }
  if (o->loss_scale <= 0) o->loss_scale = 65536;
  if (o->loss_scale_growth <= 0) o->loss_scale_growth = 2;
  if (o->loss_scale_backoff <= 0) o->loss_scale_backoff = 0.5;
  if (o->loss_scale_interval < 0) o->loss_scale_interval = 2000;
  rt->loss_scale = (float)o->loss_scale;
  return 0;
}

int bd_rt_scale_next(bd_rt *rt, int finite) {
  const bd_rt_options *const o = &rt->options;
  if (rt->program->precision != BD_RT_F16) return finite ? 0 : BD_RT_EXIT_NONFINITE;
  if (!finite) {
    if (rt->loss_scale <= LEAST_SCALE) return BD_RT_EXIT_NONFINITE;
    rt->loss_scale = (float)fmax(rt->loss_scale * o->loss_scale_backoff, LEAST_SCALE);
    rt->finite_steps = 0;
  } else if (++rt->finite_steps == o->loss_scale_interval) {
    const float grown = (float)(rt->loss_scale * o->loss_scale_growth);
    if (isfinite(grown)) rt->loss_scale = grown;
    rt->finite_steps = 0;
  }
  return 0;
}
