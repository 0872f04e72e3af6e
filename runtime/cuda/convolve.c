// Convolutions and pools of a step. Convolutions run by cuDNN where it takes the shape, in parts of
// the images whose work fits the workspace; else, as pools do, by kernels of the runtime. Which it
// is, is settled while a step is rehearsed.
#include "runtime/cuda/convolve_graph.h"
#include "runtime/cuda/fresh.h"
#include "runtime/cuda/rt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TRIES = 12, MOST_ALIGNMENT = 16, WHY_BYTES = 256 };

// One call: operands in the order of the runtime's functions. No member has padding after it.
typedef struct call {
  bd_rt_conv s;
  const bd_cuda_convolved *what; // NULL: by the runtime's kernels
  const void *a, *b;
  void *out;
  int64_t accumulate;
} call;
_Static_assert(sizeof(call) == sizeof(bd_rt_conv) + 4 * sizeof(void *) + sizeof(int64_t) &&
                   sizeof(bd_rt_conv) == 23 * sizeof(int64_t) + 2 * sizeof(int32_t),
               "calls are compared as bytes");

// A shape that the rehearsal has found, and the parts of `part.s.n` images that it runs in.
struct bd_cuda_convolved {
  bd_cuda_convolved *next;
  bd_rt_conv s;
  bd_cuda_convolution part;
  bd_dnn_plan *plan; // NULL: by the runtime's kernels
  call first;        // of this shape
};

static int64_t points_of(const int64_t extents[3]) {
  return extents[0] * extents[1] * extents[2];
}

static int64_t x_bytes(const bd_rt_conv *s) {
  return s->c * points_of(s->x) * bd_rt_element_bytes(s->dtype);
}
static int64_t y_bytes(const bd_rt_conv *s) {
  return s->o * points_of(s->y) * bd_rt_element_bytes(s->dtype);
}

// What a gradient of filters is made in, at the workspace's beginning.
static int64_t filter_bytes(const bd_cuda_convolution *c) {
  const int64_t elements = c->s.o * (c->s.c / c->s.groups) * points_of(c->s.k);
  const int64_t bytes = elements * bd_rt_element_bytes(bd_cuda_conv_filters_dtype(c));
  if (c->kind != BD_CUDA_CONV_DW) return 0;
  return (bytes + BD_RT_ALIGNMENT - 1) / BD_RT_ALIGNMENT * BD_RT_ALIGNMENT;
}

static bd_cuda_convolved *find(const bd_rt *rt, const bd_rt_conv *s, bd_cuda_conv_kind kind) {
  bd_cuda_convolved *c = rt->device->convolved;
  while (c && (c->part.kind != kind || memcmp(&c->s, s, sizeof *s) != 0))
    c = c->next;
  return c;
}

// Addresses of parts of images are multiples of this.
static int alignment_of(const bd_rt_conv *s, int64_t part) {
  int64_t bits = MOST_ALIGNMENT;
  if (part < s->n) bits |= part * x_bytes(s) | part * y_bytes(s);
  return (int)(bits & -bits);
}

// The plan of the largest part that fits. A gradient that is rounded where it is made is made at
// once, or its parts would be rounded one by one.
static bd_dnn_plan *fit(bd_rt *rt, bd_dnn *dnn, bd_cuda_convolved *c, char *why) {
  bd_cuda_convolution *const part = &c->part;
  const int whole = part->kind == BD_CUDA_CONV_DW && bd_rt_is_half(c->s.out_dtype);
  for (int64_t n = c->s.n, tries = 0; n > 0 && tries < MOST_TRIES; tries++) {
    const int64_t room = rt->device->library_bytes - filter_bytes(part);
    part->s.n = n;
    part->alignment = alignment_of(&c->s, n);
    if (room >= 0) {
      bd_dnn_graph *const graph = bd_dnn_begin(dnn);
      bd_cuda_conv_graph(graph, part);
      bd_dnn_plan *const plan = bd_dnn_choose(graph, room, why, WHY_BYTES);
      if (plan) return plan;
    }
    n = whole ? 0 : bd_cuda_next_divisor(c->s.n, n);
  }
  return NULL;
}

// Of halves by tensor cores where there is a way. Gradients of filters are rounded to bf16 before
// they are added up in f32, as the library's fast engines give them; of f16, whose range is short,
// they are had in f32 where it has an engine for that.
static bd_dnn_plan *plan_of(bd_rt *rt, bd_dnn *dnn, bd_cuda_convolved *c, char *why) {
  const int halves = bd_rt_is_half(c->s.dtype), filters = c->part.kind == BD_CUDA_CONV_DW;
  const int made_wide = filters && halves && !bd_rt_is_half(c->s.out_dtype);
  const int first = filters && halves && !(made_wide && c->s.dtype == BD_RT_F16);
  for (int plain = !halves; plain < 2; plain++)
    for (int other = 0; other <= made_wide; other++) {
      c->part.tensor_cores = !plain;
      c->part.rounded = first != other;
      bd_dnn_plan *const plan = fit(rt, dnn, c, why);
      if (plan) return plan;
    }
  return NULL;
}

// A shape that the rehearsal comes to.
static void note(bd_rt *rt, const call *first, bd_cuda_conv_kind kind) {
  const bd_rt_conv *const s = &first->s;
  char why[WHY_BYTES] = "its filters are larger than the workspace";
  bd_rt_device *const device = rt->device;
  bd_dnn *const dnn = s->n > 0 ? bd_cuda_dnn(rt, BD_CUDA_DNN_CONVOLUTIONS) : NULL;
  if (!dnn || find(rt, s, kind)) return;
  bd_cuda_convolved *const c = bd_rt_allocate(1, sizeof *c);
  c->s = *s;
  c->part = (bd_cuda_convolution){.s = *s, .kind = kind, .tf32 = rt->options.tf32};
  if (kind == BD_CUDA_CONV_DW || s->out_dtype == s->dtype)
    c->plan = plan_of(rt, dnn, c, why);
  else
    snprintf(why, sizeof why, "images are made in f32 from halves");
  c->first = *first;
  c->first.what = c;
  c->next = device->convolved;
  device->convolved = c;
  bd_cuda_dnn_count(rt, c->plan ? NULL : why);
}

void bd_cuda_release_convolutions(bd_rt *rt) {
  for (bd_cuda_convolved *c = rt->device->convolved, *next; c; c = next) {
    next = c->next;
    bd_dnn_free(c->plan);
    free(c);
  }
  rt->device->convolved = NULL;
}

static char *advance(const void *from, int64_t bytes) {
  return (char *)(uintptr_t)from + bytes;
}

// By the library, part by part.
static void run_parts(bd_rt *rt, const call *c) {
  const bd_cuda_convolution *const part = &c->what->part;
  const bd_cuda_queue *const queue = bd_cuda_now(rt);
  char *const filters = rt->device->library;
  void *const workspace = rt->device->library + filter_bytes(part);
  const int64_t x = x_bytes(&c->s), y = y_bytes(&c->s);
  for (int64_t n = 0; n < c->s.n; n += part->s.n) {
    void *at[BD_CUDA_CONV_BUFFERS] = {advance(c->a, n * x), (char *)(uintptr_t)c->b,
                                      advance(c->out, n * y)};
    if (part->kind == BD_CUDA_CONV_DX) at[0] = advance(c->a, n * y), at[2] = advance(c->out, n * x);
    if (part->kind == BD_CUDA_CONV_DW) at[1] = advance(c->b, n * y), at[2] = filters;
    bd_dnn_run(c->what->plan, at, workspace, queue->stream);
    if (part->kind != BD_CUDA_CONV_DW) continue;
    bd_cuda_place_filters(queue, &c->s, bd_cuda_conv_filters_dtype(part), filters,
                          c->accumulate || n > 0, c->out);
  }
}

void bd_cuda_try_convolutions(bd_rt *rt) {
  if (rt->ranks == 1) return;
  for (const bd_cuda_convolved *c = rt->device->convolved; c; c = c->next)
    if (c->plan) run_parts(rt, &c->first);
  bd_rt_settle(rt);
}

static void run_conv(bd_rt *rt, const void *args) {
  const call *const c = args;
  if (c->what) {
    run_parts(rt, c);
    return;
  }
  bd_cuda_conv(bd_cuda_now(rt), &c->s, c->a, c->b, c->out);
}

static void run_conv_dx(bd_rt *rt, const void *args) {
  const call *const c = args;
  if (c->what) {
    run_parts(rt, c);
    return;
  }
  bd_cuda_conv_dx(bd_cuda_now(rt), &c->s, c->a, c->b, c->out);
}

static void run_conv_dw(bd_rt *rt, const void *args) {
  const call *const c = args;
  if (c->what) {
    run_parts(rt, c);
    return;
  }
  bd_cuda_conv_dw(bd_cuda_now(rt), &c->s, c->a, c->b, (int)c->accumulate, c->out);
}

static void convolve(bd_rt *rt, bd_cuda_conv_kind kind, call c) {
  static const bd_cuda_body bodies[] = {run_conv, run_conv_dx, run_conv_dw};
  if (rt->device->rehearsing) {
    note(rt, &c, kind);
    return;
  }
  const bd_cuda_convolved *const found = find(rt, &c.s, kind);
  if (found && found->plan) c.what = found;
  bd_cuda_do(rt, bodies[kind], &c, sizeof c);
}

void bd_rt_convolve(bd_rt *rt, const bd_rt_conv *s, const void *x, const void *w, void *y) {
  convolve(rt, BD_CUDA_CONV_FORWARD, (call){*s, NULL, x, w, y, 0});
}

void bd_rt_convolve_dx(bd_rt *rt, const bd_rt_conv *s, const void *dy, const void *w, void *dx) {
  convolve(rt, BD_CUDA_CONV_DX, (call){*s, NULL, dy, w, dx, 0});
}

void bd_rt_convolve_dw(bd_rt *rt, const bd_rt_conv *s, const void *x, const void *dy,
                       int32_t accumulate, void *dw) {
  const int64_t filters = s->o * (s->c / s->groups) * s->k[0] * s->k[1] * s->k[2];
  // A rank without samples leaves the accumulator as it is.
  const int adds = accumulate ? bd_cuda_fresh_adds(rt, dw, s->n > 0 ? filters : 0) : 0;
  if (!accumulate) bd_cuda_fresh_touch(rt, dw);
  convolve(rt, BD_CUDA_CONV_DW, (call){*s, NULL, x, dy, dw, adds});
}

static void run_maxpool(bd_rt *rt, const void *args) {
  const call *const c = args;
  bd_cuda_maxpool(bd_cuda_now(rt), &c->s, c->a, c->out);
}

static void run_maxpool_grad(bd_rt *rt, const void *args) {
  const call *const c = args;
  bd_cuda_maxpool_grad(bd_cuda_now(rt), &c->s, c->a, c->b, c->out);
}

// The kernels count points along a dimension in 31 bits.
static void expect_short(const bd_rt_conv *s) {
  for (int d = 0; d < 3; d++)
    if (s->x[d] + s->before[d] + s->y[d] * s->stride[d] + s->k[d] * s->dilation[d] > INT32_MAX)
      bd_rt_fail(BD_RT_EXIT_USAGE, "a pool of %lld points along a dimension: there may be 2^31",
                 (long long)s->x[d]);
}

static void pool(bd_rt *rt, bd_cuda_body body, call c) {
  if (rt->device->rehearsing)
    expect_short(&c.s);
  else
    bd_cuda_do(rt, body, &c, sizeof c);
}

void bd_rt_maxpool(bd_rt *rt, const bd_rt_conv *s, const void *x, void *y) {
  pool(rt, run_maxpool, (call){*s, NULL, x, NULL, y, 0});
}

void bd_rt_maxpool_grad(bd_rt *rt, const bd_rt_conv *s, const void *x, const void *dy, void *dx) {
  pool(rt, run_maxpool_grad, (call){*s, NULL, x, dy, dx, 0});
}
