// Convolutions of f32 whose windows are single points, as matrix products of the images where they
// lie.
#ifndef BD_RT_CPU_CONV_H
#define BD_RT_CPU_CONV_H
#include "runtime/cpu/rt.h"

int bd_rt_conv_is_product(const bd_rt_conv *s);
void bd_rt_conv_product(bd_rt *rt, const bd_rt_conv *s, const float *x, const float *w, float *y);
void bd_rt_conv_product_dx(bd_rt *rt, const bd_rt_conv *s, const float *dy, const float *w,
                           float *dx);
void bd_rt_conv_product_dw(bd_rt *rt, const bd_rt_conv *s, const float *x, const float *dy,
                           int accumulate, float *dw);
#endif
