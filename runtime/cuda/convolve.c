// Convolutions and pools of a step.
#include "runtime/cuda/rt.h"

#include <string.h>

// One call: operands in the order of the runtime's functions. `s` has no padding between members.
typedef struct call {
  bd_rt_conv s;
  const void *a, *b;
  void *out;
  int64_t accumulate;
} call;
_Static_assert(sizeof(call) == sizeof(bd_rt_conv) + 3 * sizeof(void *) + sizeof(int64_t) &&
                   sizeof(bd_rt_conv) == 23 * sizeof(int64_t) + 2 * sizeof(int32_t),
               "calls are compared as bytes");

static void run_conv(bd_rt *rt, const void *args) {
  const call *const c = args;
  bd_cuda_conv(bd_cuda_now(rt), &c->s, c->a, c->b, c->out);
  bd_cuda_check_launch();
}

static void run_conv_dx(bd_rt *rt, const void *args) {
  const call *const c = args;
  bd_cuda_conv_dx(bd_cuda_now(rt), &c->s, c->a, c->b, c->out);
  bd_cuda_check_launch();
}

static void run_conv_dw(bd_rt *rt, const void *args) {
  const call *const c = args;
  bd_cuda_conv_dw(bd_cuda_now(rt), &c->s, c->a, c->b, (int)c->accumulate, c->out);
  bd_cuda_check_launch();
}

static void run_maxpool(bd_rt *rt, const void *args) {
  const call *const c = args;
  bd_cuda_maxpool(bd_cuda_now(rt), &c->s, c->a, c->out);
  bd_cuda_check_launch();
}

static void run_maxpool_grad(bd_rt *rt, const void *args) {
  const call *const c = args;
  bd_cuda_maxpool_grad(bd_cuda_now(rt), &c->s, c->a, c->b, c->out);
  bd_cuda_check_launch();
}

static void ask(bd_rt *rt, bd_cuda_body body, call c) {
  if (!rt->device->rehearsing) bd_cuda_do(rt, body, &c, sizeof c);
}

void bd_rt_convolve(bd_rt *rt, const bd_rt_conv *s, const void *x, const void *w, void *y) {
  ask(rt, run_conv, (call){*s, x, w, y, 0});
}

void bd_rt_convolve_dx(bd_rt *rt, const bd_rt_conv *s, const void *dy, const void *w, void *dx) {
  ask(rt, run_conv_dx, (call){*s, dy, w, dx, 0});
}

void bd_rt_convolve_dw(bd_rt *rt, const bd_rt_conv *s, const void *x, const void *dy,
                       int32_t accumulate, void *dw) {
  ask(rt, run_conv_dw, (call){*s, x, dy, dw, accumulate});
}

void bd_rt_maxpool(bd_rt *rt, const bd_rt_conv *s, const void *x, void *y) {
  ask(rt, run_maxpool, (call){*s, x, NULL, y, 0});
}

void bd_rt_maxpool_grad(bd_rt *rt, const bd_rt_conv *s, const void *x, const void *dy, void *dx) {
  ask(rt, run_maxpool_grad, (call){*s, x, dy, dx, 0});
}
