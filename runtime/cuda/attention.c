// Attention by cuDNN where it takes the shape, else by generated kernels. Which it is, is settled
// while a step is rehearsed.
#include "runtime/cuda/attention_tiles.h"

#include "runtime/cuda/rt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SHAPES = 64, MOST_TRIES = 8, WHY_BYTES = 256 };

// A shape that the rehearsal has found. A gradient runs in parts of one shape, as large as the
// workspace allows, or, where that is no whole head, in tiles.
typedef struct attended {
  bd_cuda_attention shape, part;
  bd_dnn_plan *plan; // of a part; NULL: in tiles, or by generated kernels
  bd_cuda_tiles tiles;
  char *first[BD_ATTEND_GRAD_BUFFERS]; // addresses of the first op
  int clears;                          // in any order: the library sets its sum to 0 itself
} attended;

struct bd_cuda_attentions {
  int count;
  attended shapes[MOST_SHAPES];
};

_Static_assert(sizeof(bd_cuda_attention) ==
                   23 * sizeof(int64_t) + sizeof(double) + sizeof(float) + 3 * sizeof(int32_t),
               "shapes are compared as bytes");

static bd_cuda_attention shape_of(const bd_rt *rt, const bd_rt_attention *s, int gradient) {
  bd_cuda_attention out = {0};
  const int cut = s->causal && s->tq < s->total_queries;
  out.batch = s->batch, out.tq = s->tq, out.tk = out.keys = s->tk;
  if (s->window && s->window < s->total_queries) out.window = s->window;
  if (cut) {
    const int64_t unseen = s->first_query + 1 - out.window;
    out.skipped = out.window && unseen > 0 ? unseen : 0;
    out.first = s->first_query - out.skipped, out.tk = out.first + out.tq;
  }
  out.kv_heads = s->kv_heads, out.group = s->heads / s->kv_heads, out.d = s->d, out.d_v = s->d_v;
  out.q_batch = s->q_batch, out.q_row = s->q_row;
  out.k_batch = s->k_batch, out.k_row = s->k_row;
  out.v_batch = s->v_batch, out.v_row = s->v_row;
  out.out_batch = s->out_batch, out.out_row = s->out_row;
  out.lse_batch = s->lse_batch, out.lse_row = s->lse_row;
  out.softcap = s->softcap;
  out.scale = s->scale, out.causal = s->causal, out.dtype = s->dtype, out.gradient = gradient;
  out.any_order = gradient && rt->options.any_order;
  return out;
}

static attended *find(const bd_rt *rt, const bd_cuda_attention *shape) {
  bd_cuda_attentions *const a = rt->device->attentions;
  for (int i = 0; a && i < a->count; i++)
    if (!memcmp(&a->shapes[i].shape, shape, sizeof *shape)) return &a->shapes[i];
  return NULL;
}

// Fewer samples, then fewer heads of one. 0: it was one head of one sample.
static int shrink(const bd_cuda_attention *shape, bd_cuda_attention *part) {
  if (part->batch > 1)
    part->batch = bd_cuda_next_divisor(shape->batch, part->batch);
  else
    part->kv_heads = bd_cuda_next_divisor(shape->kv_heads, part->kv_heads);
  return part->kv_heads > 0;
}

// What the gradient of scores alone takes of the workspace, or that of queries in any order.
static int64_t least_bytes(const bd_cuda_attention *part) {
  if (!part->gradient) return 0;
  if (part->any_order) return bd_cuda_attention_wide_bytes(part);
  return part->batch * part->kv_heads * part->group * part->tq * part->tk *
         bd_rt_element_bytes(part->dtype);
}

static bd_dnn_plan *plan_of(bd_rt *rt, bd_dnn *dnn, const bd_cuda_attention *part, char *why) {
  bd_dnn_graph *const graph = bd_dnn_begin(dnn);
  if (part->gradient)
    bd_cuda_attention_grad_graph(graph, part);
  else
    bd_cuda_attention_graph(graph, part);
  return bd_dnn_choose(graph, rt->device->library_bytes - bd_cuda_attention_wide_bytes(part), why,
                       WHY_BYTES);
}

// The plan of the largest part that fits; the rounding of the library's workspace is its own.
static bd_dnn_plan *fit(bd_rt *rt, bd_dnn *dnn, attended *s, char *why) {
  s->part = s->shape;
  for (int tries = 0; tries < MOST_TRIES; tries++) {
    while (least_bytes(&s->part) > rt->device->library_bytes)
      if (!shrink(&s->shape, &s->part)) {
        snprintf(why, WHY_BYTES,
                 "gradients of one key-value head's %s exceed the %lld bytes "
                 "of workspace",
                 s->part.any_order ? "queries" : "scores", (long long)rt->device->library_bytes);
        return NULL;
      }
    bd_dnn_plan *const plan = plan_of(rt, dnn, &s->part, why);
    if (plan) return plan;
    if (!s->shape.gradient || !shrink(&s->shape, &s->part)) return NULL;
  }
  return NULL;
}

static int is_planned(const attended *s) {
  return s->plan || s->tiles.rows > 0;
}

// Plans a shape that the rehearsal comes to.
static void note(bd_rt *rt, const bd_cuda_attention *shape,
                 char *const at[BD_ATTEND_GRAD_BUFFERS]) {
  char why[WHY_BYTES] = "there are too many shapes";
  bd_rt_device *const device = rt->device;
  bd_dnn *const dnn = bd_cuda_dnn(rt, BD_CUDA_DNN_ATTENTION);
  if (!dnn || find(rt, shape)) return;
  if (!device->attentions) device->attentions = bd_rt_allocate(1, sizeof *device->attentions);
  bd_cuda_attentions *const a = device->attentions;
  attended *const s = a->count < MOST_SHAPES ? &a->shapes[a->count] : NULL;
  if (s) {
    s->shape = *shape;
    memcpy(s->first, at, sizeof s->first);
    s->plan = fit(rt, dnn, s, why);
    if (!s->plan && shape->gradient && !shape->any_order)
      bd_cuda_plan_tiles(rt, dnn, shape, &s->tiles, why, sizeof why);
    a->count++;
  }
  bd_cuda_dnn_count(rt, s && is_planned(s) ? NULL : why);
}

void bd_cuda_release_attention(bd_rt *rt) {
  bd_cuda_attentions *const a = rt->device->attentions;
  for (int i = 0; a && i < a->count; i++) {
    bd_dnn_free(a->shapes[i].plan);
    bd_cuda_free_tiles(&a->shapes[i].tiles);
  }
  free(a);
  rt->device->attentions = NULL;
}

// What a part's address advances by, in elements, from sample to sample and from key-value head to
// key-value head.
typedef enum lying { AS_QUERIES, AS_KEYS, AS_VALUES, AS_RESULTS, AS_NUMBERS, IN_PLACE } lying;

static const lying forward_lies[BD_ATTEND_BUFFERS] = {AS_QUERIES, AS_KEYS, AS_VALUES, AS_RESULTS,
                                                      AS_NUMBERS};
static const lying backward_lies[BD_ATTEND_GRAD_BUFFERS] = {
    AS_RESULTS, AS_QUERIES, AS_KEYS,   AS_VALUES, AS_RESULTS, AS_NUMBERS,
    AS_QUERIES, AS_KEYS,    AS_VALUES, IN_PLACE,  IN_PLACE};

static int64_t offset_bytes(const bd_cuda_attention *s, lying how, int64_t sample, int64_t head) {
  switch (how) {
  case AS_QUERIES:
    return (sample * s->q_batch + head * s->group * s->d) * bd_rt_element_bytes(s->dtype);
  case AS_KEYS:
    return (sample * s->k_batch + s->skipped * s->k_row + head * s->d) *
           bd_rt_element_bytes(s->dtype);
  case AS_VALUES:
    return (sample * s->v_batch + s->skipped * s->v_row + head * s->d_v) *
           bd_rt_element_bytes(s->dtype);
  case AS_RESULTS:
    return (sample * s->out_batch + head * s->group * s->d_v) * bd_rt_element_bytes(s->dtype);
  case AS_NUMBERS:
    return (sample * s->lse_batch + head * s->group) * (int64_t)sizeof(float);
  case IN_PLACE:
    break;
  }
  return 0;
}

void bd_cuda_attention_place(const bd_cuda_attention *s, char *const *at, int64_t sample,
                             int64_t head, char **out_at) {
  const lying *const lies = s->gradient ? backward_lies : forward_lies;
  const int count = s->gradient ? (int)BD_ATTEND_GRAD_BUFFERS : (int)BD_ATTEND_BUFFERS;
  for (int i = 0; i < count; i++)
    out_at[i] = at[i] + offset_bytes(s, lies[i], sample, head);
}

// Where the gradient of keys lies, or of values.
typedef struct strides {
  int64_t batch, row;
} strides;

static void clear_keys(const bd_cuda_attention *s, strides lie, char *gradient, int64_t from,
                       int64_t to, cudaStream_t stream) {
  const int64_t element = bd_rt_element_bytes(s->dtype);
  for (int64_t sample = 0; sample < s->batch && from < to; sample++)
    BD_CUDA(cudaMemsetAsync(gradient + (sample * lie.batch + from * lie.row) * element, 0,
                            (size_t)((to - from) * lie.row * element), stream));
}

// The keys that are not the library's.
static void clear_unseen(const bd_cuda_attention *s, strides lie, char *gradient,
                         cudaStream_t stream) {
  clear_keys(s, lie, gradient, 0, s->skipped, stream);
  clear_keys(s, lie, gradient, s->skipped + s->tk, s->keys, stream);
}

static void clear_all_unseen(const bd_cuda_attention *s, char *const *at, cudaStream_t stream) {
  clear_unseen(s, (strides){s->k_batch, s->k_row}, at[BD_ATTEND_GRAD_DK], stream);
  clear_unseen(s, (strides){s->v_batch, s->v_row}, at[BD_ATTEND_GRAD_DV], stream);
}

typedef struct call {
  const attended *what;
  char *at[BD_ATTEND_GRAD_BUFFERS];
} call;

static void run(bd_rt *rt, const void *args) {
  const call *const c = args;
  const bd_cuda_attention *const s = &c->what->shape, *const part = &c->what->part;
  const int64_t wide = bd_cuda_attention_wide_bytes(part);
  char *const workspace = rt->device->library + wide;
  const cudaStream_t stream = bd_cuda_now(rt)->stream;
  if (s->gradient) clear_all_unseen(s, c->at, stream);
  for (int64_t sample = 0; sample < s->batch; sample += part->batch)
    for (int64_t head = 0; head < s->kv_heads; head += part->kv_heads) {
      char *at[BD_ATTEND_GRAD_BUFFERS];
      bd_cuda_attention_place(s, c->at, sample, head, at);
      if (wide && !c->what->clears)
        BD_CUDA(cudaMemsetAsync(rt->device->library, 0, (size_t)wide, stream));
      bd_dnn_run(c->what->plan, (void *const *)at, workspace, stream);
    }
}

// Tiles are many, and each takes longer than its launch: they would only make graphs large.
static void run_in_tiles(bd_rt *rt, const call *c) {
  const bd_cuda_attention *const s = &c->what->shape;
  clear_all_unseen(s, c->at, bd_cuda_now(rt)->stream);
  bd_cuda_run_tiles(rt, s, &c->what->tiles, c->at);
}

// Whether halves are zeros of either sign.
static int are_zeros(bd_rt *rt, const char *data, int64_t count) {
  const int64_t most = BD_RT_SCRATCH_FLOATS;
  const uint16_t *const halves = (const uint16_t *)(const void *)rt->device->mapped;
  for (int64_t done = 0; done < count; done += most) {
    const int64_t piece = bd_rt_least(count - done, most), size = sizeof *halves;
    BD_CUDA(cudaMemcpyAsync(rt->device->mapped, data + done * size, (size_t)(piece * size),
                            cudaMemcpyDeviceToHost, bd_cuda_now(rt)->stream));
    bd_rt_settle(rt);
    for (int64_t i = 0; i < piece; i++)
      if (halves[i] << 1 & 0xFFFF) return 0;
  }
  return 1;
}

// With operands of zeros a sum that begins with what is no number ends with it, and so does dq,
// unless the sum was set to 0.
static void try_clearing(bd_rt *rt, attended *s) {
  const bd_cuda_attention *const part = &s->part;
  const int64_t wide = bd_cuda_attention_wide_bytes(part);
  const int64_t row = part->kv_heads * part->group * part->d;
  const cudaStream_t stream = bd_cuda_now(rt)->stream;
  void *at[BD_ATTEND_GRAD_BUFFERS];
  for (int i = 0; i < BD_ATTEND_GRAD_BUFFERS; i++)
    at[i] = s->first[i];
  bd_rt_zero(rt, rt->arena, rt->stage->arena_bytes);
  BD_CUDA(cudaMemsetAsync(rt->device->library, 0xFF, (size_t)wide, stream));
  bd_dnn_run(s->plan, at, rt->device->library + wide, stream);
  s->clears = are_zeros(rt, s->first[BD_ATTEND_GRAD_DQ],
                        (part->batch - 1) * part->q_batch + (part->tq - 1) * part->q_row + row);
}

static void try_once(bd_rt *rt, const attended *s) {
  char *at[BD_ATTEND_GRAD_BUFFERS];
  bd_cuda_attention_place(&s->shape, s->first, 0, 0, at);
  if (s->plan)
    bd_dnn_run(s->plan, (void *const *)at,
               rt->device->library + bd_cuda_attention_wide_bytes(&s->part),
               bd_cuda_now(rt)->stream);
  else if (s->tiles.rows > 0)
    bd_cuda_try_tiles(rt, &s->shape, &s->tiles, s->first);
}

void bd_cuda_try_attention(bd_rt *rt) {
  bd_cuda_attentions *const a = rt->device->attentions;
  for (int i = 0; a && i < a->count; i++)
    if (a->shapes[i].plan && a->shapes[i].part.any_order)
      try_clearing(rt, &a->shapes[i]);
    else if (rt->ranks > 1)
      try_once(rt, &a->shapes[i]);
  bd_rt_settle(rt);
}

static int attend(bd_rt *rt, const bd_rt_attention *s, int gradient, const call *buffers) {
  if (s->batch <= 0 || s->kv_heads <= 0) return 0;
  const bd_cuda_attention shape = shape_of(rt, s, gradient);
  if (shape.skipped + shape.tk > shape.keys)
    return 0; // the last queries see all keys, and no diagonal
  call c = *buffers;
  if (gradient) c.at[BD_ATTEND_GRAD_WIDE] = rt->device->library;
  if (rt->device->rehearsing) {
    note(rt, &shape, c.at);
    return 0;
  }
  c.what = find(rt, &shape);
  if (!c.what || !is_planned(c.what)) return 0;
  if (c.what->plan)
    bd_cuda_do(rt, run, &c, sizeof c);
  else
    run_in_tiles(rt, &c);
  return 1;
}

int bd_rt_attend(bd_rt *rt, const bd_rt_attention *s, const void *q, const void *k, const void *v,
                 void *out, void *lse) {
  const call c = {.at = {[BD_ATTEND_Q] = (char *)(uintptr_t)q,
                         [BD_ATTEND_K] = (char *)(uintptr_t)k,
                         [BD_ATTEND_V] = (char *)(uintptr_t)v,
                         [BD_ATTEND_OUT] = out,
                         [BD_ATTEND_LSE] = lse}};
  return attend(rt, s, 0, &c);
}

int bd_rt_attend_grad(bd_rt *rt, const bd_rt_attention *s, const void *dout, const void *q,
                      const void *k, const void *v, const void *out, const void *lse, void *dq,
                      void *dk, void *dv, void *sums) {
  const call c = {.at = {[BD_ATTEND_GRAD_DOUT] = (char *)(uintptr_t)dout,
                         [BD_ATTEND_GRAD_Q] = (char *)(uintptr_t)q,
                         [BD_ATTEND_GRAD_K] = (char *)(uintptr_t)k,
                         [BD_ATTEND_GRAD_V] = (char *)(uintptr_t)v,
                         [BD_ATTEND_GRAD_OUT] = (char *)(uintptr_t)out,
                         [BD_ATTEND_GRAD_LSE] = (char *)(uintptr_t)lse,
                         [BD_ATTEND_GRAD_DQ] = dq,
                         [BD_ATTEND_GRAD_DK] = dk,
                         [BD_ATTEND_GRAD_DV] = dv,
                         [BD_ATTEND_GRAD_SUMS] = sums}};
  return attend(rt, s, 1, &c);
}

typedef struct added {
  bd_cuda_sinks shape;
  const void *sinks;
  void *out, *lse;
} added;

static void add_sinks(bd_rt *rt, const void *args) {
  const added *const a = args;
  bd_cuda_add_sinks(bd_cuda_now(rt), &a->shape, a->sinks, a->out, a->lse);
}

int bd_rt_attend_with_sinks(bd_rt *rt, const bd_rt_attention *s, const void *q, const void *k,
                            const void *v, const void *sinks, void *out, void *lse) {
  const added a = {.shape = {.batch = s->batch,
                             .rows = s->tq,
                             .heads = s->heads,
                             .width = s->d_v,
                             .batch_stride = s->out_batch,
                             .row_stride = s->out_row,
                             .lse_batch = s->lse_batch,
                             .lse_row = s->lse_row,
                             .dtype = s->dtype},
                   .sinks = sinks,
                   .out = out,
                   .lse = lse};
  if (!bd_rt_attend(rt, s, q, k, v, out, lse)) return 0;
  bd_cuda_do(rt, add_sinks, &a, sizeof a);
  return 1;
}
