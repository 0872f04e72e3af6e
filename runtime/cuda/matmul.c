// Matrix products by cublasLt, alone and with an epilogue.
#include "runtime/cuda/even.h"
#include "runtime/cuda/fresh.h"
#include "runtime/cuda/product.h"
#include "runtime/cuda/tune.h"
#include "runtime/float8.h"

#include <string.h>

typedef struct call {
  bd_rt_gemm shape;
  bd_rt_epilogue epilogue; // kind BD_RT_EPILOGUE_NONE: none
  const void *a, *b;
  void *out;
} call;

// An empty sum.
static void clear(bd_rt *rt, const bd_rt_gemm *s, char *out) {
  const int64_t size = bd_rt_element_bytes(s->out_dtype);
  for (int64_t i = 0; i < s->batch; i++)
    BD_CUDA(cudaMemset2DAsync(out + i * s->out_batch * size, (size_t)(s->out_m * size), 0,
                              (size_t)(s->n * size), (size_t)s->m, bd_cuda_now(rt)->stream));
}

static void multiply(bd_rt *rt, const call *c, const bd_cuda_product *p, const void *a,
                     const void *b, void *out) {
  bd_rt_device *const device = rt->device;
  const bd_rt_epilogue *const e = &c->epilogue;
  const int adds = e->kind == BD_RT_EPILOGUE_ADD;
  const float alpha = 1, beta = adds || c->shape.accumulate ? 1 : 0;
  const int64_t count = bd_cuda_product_sum_count(&p->key);
  float *const sums = count > 0 ? bd_cuda_product_sums(device, &p->key) : NULL;
  bd_cuda_product_set_epilogue(p, e, sums);
  const cublasStatus_t status =
      cublasLtMatmul(device->blas, p->operation, &alpha, b, p->left, a, p->right, &beta,
                     adds ? e->other : out, p->out, out, p->out, &p->algorithm, device->library,
                     p->workspace_bytes, bd_cuda_now(rt)->stream);
  bd_cuda_product_check(rt, p, status, "cublasLtMatmul");
  if (!sums) return;
  bd_cuda_add(bd_cuda_now(rt), e->sums, sums, count);
}

// Where factors go that are rounded to 8 bits, behind their scales.
static char *rounded_a(const bd_rt_gemm *s) {
  return (char *)s->f8_room + BD_RT_ALIGNMENT;
}

static char *rounded_b(const bd_rt_gemm *s) {
  const int64_t bytes = s->batch * s->m * s->k;
  return rounded_a(s) + (bytes + BD_RT_ALIGNMENT - 1) / BD_RT_ALIGNMENT * BD_RT_ALIGNMENT;
}

// Rounded factors lie with the terms of a sum one after another, as the library wants them.
static bd_rt_gemm rounded_shape(const bd_rt_gemm *s) {
  bd_rt_gemm out = *s;
  out.a_m = out.b_n = s->k;
  out.a_k = out.b_k = 1;
  out.a_batch = s->batch > 1 ? s->m * s->k : 0;
  out.b_batch = s->batch > 1 ? s->n * s->k : 0;
  return out;
}

// What does it: of a batch in 8 bits, all products or one.
static bd_cuda_product *product_of(bd_rt *rt, const call *c) {
  const bd_rt_gemm *const s = &c->shape;
  const int f8 = bd_rt_is_f8(s);
  const bd_rt_gemm stored = f8 ? rounded_shape(s) : *s;
  const bd_cuda_product_key k = bd_cuda_product_key_of(
      &stored, &c->epilogue, f8, f8 ? rounded_a(s) : c->a, f8 ? rounded_b(s) : c->b, c->out);
  bd_cuda_product *const p = bd_cuda_product_of(rt, &k, &c->epilogue);
  if (p->exists || !f8) return p;
  const bd_cuda_product_key alone = bd_cuda_product_key_alone(&k);
  return bd_cuda_product_of(rt, &alone, &c->epilogue);
}

// A batch that the library has no algorithm for is as many products one after another.
static void multiply_rounded(bd_rt *rt, const call *c, const bd_cuda_product *p) {
  const bd_rt_gemm *const s = &c->shape;
  const int64_t out_bytes = s->out_batch * bd_rt_element_bytes(s->out_dtype);
  for (int64_t i = 0; i < s->batch; i += p->key.batch)
    multiply(rt, c, p, rounded_a(s) + i * s->m * s->k, rounded_b(s) + i * s->n * s->k,
             (char *)c->out + i * out_bytes);
}

static void multiply_f8(bd_rt *rt, const call *c) {
  const bd_rt_gemm *const s = &c->shape;
  const bd_cuda_product *const p = product_of(rt, c);
  float *const scales = s->f8_room;
  uint32_t *const room = (uint32_t *)(void *)rt->device->room;
  const bd_cuda_factor a = {c->a, s->batch * s->m, s->k,    s->a_m, s->a_k,
                            s->m, s->a_batch,      s->f8[0]};
  const bd_cuda_factor b = {c->b, s->batch * s->n, s->k,    s->b_n, s->b_k,
                            s->n, s->b_batch,      s->f8[1]};
  if (!s->f8_kept[0]) bd_cuda_round_f8(bd_cuda_now(rt), &a, room, scales, rounded_a(s));
  if (!s->f8_kept[1])
    bd_cuda_round_f8(bd_cuda_now(rt), &b, room, scales + BD_CUDA_F8_SCALES, rounded_b(s));
  bd_cuda_product_set_scales(p, scales + BD_CUDA_F8_SCALES + BD_CUDA_F8_INVERSE,
                             scales + BD_CUDA_F8_INVERSE);
  multiply_rounded(rt, c, p);
}

static void run(bd_rt *rt, const void *args) {
  const call *const c = args;
  const bd_rt_gemm *const s = &c->shape;
  if (s->k <= 0) {
    if (!s->accumulate) clear(rt, s, c->out);
    return;
  }
  if (bd_rt_is_f8(s))
    multiply_f8(rt, c);
  else
    multiply(rt, c, product_of(rt, c), c->a, c->b, c->out);
}

// Member by member: what lies between members is no part of the call.
static void copy_shape(bd_rt_gemm *to, const bd_rt_gemm *s) {
  to->m = s->m, to->n = s->n, to->k = s->k, to->batch = s->batch;
  to->a_m = s->a_m, to->a_k = s->a_k, to->a_batch = s->a_batch;
  to->b_k = s->b_k, to->b_n = s->b_n, to->b_batch = s->b_batch;
  to->out_m = s->out_m, to->out_batch = s->out_batch;
  to->accumulate = s->accumulate, to->dtype = s->dtype, to->out_dtype = s->out_dtype;
  to->f8[0] = s->f8[0], to->f8[1] = s->f8[1], to->f8_room = s->f8_room;
  to->f8_kept[0] = s->f8_kept[0], to->f8_kept[1] = s->f8_kept[1];
}

static void fill(call *c, const bd_rt_gemm *s, const bd_rt_epilogue *e, const void *a,
                 const void *b, void *out) {
  memset(c, 0, sizeof *c);
  copy_shape(&c->shape, s);
  c->epilogue.kind = e->kind;
  c->epilogue.bias = e->bias, c->epilogue.other = e->other, c->epilogue.sums = e->sums;
  c->a = a, c->b = b, c->out = out;
}

// In a rehearsal the product may be noted.
static void start(bd_rt *rt, const call *c) {
  if (!rt->device->rehearsing)
    bd_cuda_do(rt, run, c, sizeof *c);
  else if (c->shape.k > 0)
    bd_cuda_tune_note(rt, product_of(rt, c), run, c, sizeof *c);
}

static int walks_past(const bd_rt_device *device) {
  return device->rehearsing && !device->tuning;
}

static const void *moved(const void *data, int32_t dtype, int64_t elements) {
  return (const char *)data + elements * bd_rt_element_bytes(dtype);
}

// The part's call; of a bias what belongs to it.
static void fill_part(call *c, const bd_cuda_part *part, const bd_rt_epilogue *e, const void *a,
                      const void *b, void *out) {
  const bd_rt_gemm *const s = &part->shape;
  fill(c, s, e, moved(a, s->dtype, part->a), moved(b, s->dtype, part->b),
       (char *)out + part->out * bd_rt_element_bytes(s->out_dtype));
  if (e->bias) c->epilogue.bias = moved(e->bias, s->out_dtype, part->n);
}

// Whether the product is to add to `out`; the first of a step to an accumulator overwrites it.
static int adds(bd_rt *rt, const bd_rt_gemm *s, const void *out) {
  const int packed = s->out_m == s->n && (s->batch == 1 || s->out_batch == s->m * s->n);
  if (s->accumulate) return bd_cuda_fresh_adds(rt, out, packed ? s->batch * s->m * s->n : 0);
  bd_cuda_fresh_touch(rt, out);
  return 0;
}

void bd_rt_matmul(bd_rt *rt, const bd_rt_gemm *shape, const void *a, const void *b, void *out) {
  bd_rt_gemm s = *shape;
  bd_cuda_part parts[2];
  call c;
  if (s.m <= 0 || s.n <= 0 || s.batch <= 0) return;
  s.accumulate = adds(rt, &s, out);
  if (walks_past(rt->device)) return;
  const int count = bd_cuda_even_parts(&s, parts);
  for (int i = 0; i < count; i++) {
    fill_part(&c, &parts[i], &(bd_rt_epilogue){.kind = BD_RT_EPILOGUE_NONE}, a, b, out);
    start(rt, &c);
  }
}

// Devices of compute capability 9 and 10 take GELU in the kernel of a product of halves. On others
// cuBLASLt starts a kernel for it afterwards, which is slower than the program's own.
static int is_worth_it(const bd_rt_device *device, const bd_rt_epilogue *e) {
  if (device->launcher.no_epilogues) return 0;
  if (e->kind != BD_RT_EPILOGUE_GELU && e->kind != BD_RT_EPILOGUE_GELU_GRAD) return 1;
  return device->capability / 10 == 9 || device->capability / 10 == 10;
}

// Of epilogues a bias alone can be cut as a product along m or n is.
static int is_whole(const bd_rt_epilogue *e, const bd_cuda_part parts[2], int count) {
  return count == 1 || (e->kind == BD_RT_EPILOGUE_BIAS && parts[0].shape.k == parts[1].shape.k);
}

int bd_rt_matmul_with(bd_rt *rt, const bd_rt_gemm *s, const bd_rt_epilogue *e, const void *a,
                      const void *b, void *out) {
  bd_cuda_part parts[2];
  if (rt->device->rehearsing) {
    if (s->m > 0 && s->n > 0) adds(rt, s, out);
    if (e->sums) bd_cuda_fresh_touch(rt, e->sums);
  }
  if (walks_past(rt->device)) return 1;
  if (s->m <= 0 || s->n <= 0 || s->k <= 0 || !is_worth_it(rt->device, e)) return 0;
  const int count = bd_cuda_even_parts(s, parts);
  if (!is_whole(e, parts, count)) return 0;
  call calls[2];
  for (int i = 0; i < count; i++) {
    fill_part(&calls[i], &parts[i], e, a, b, out);
    if (!product_of(rt, &calls[i])->exists) return 0;
  }
  const int accumulate = adds(rt, s, out);
  for (int i = 0; i < count; i++) {
    if (!accumulate) calls[i].shape.accumulate = 0;
    start(rt, &calls[i]);
  }
  return 1;
}
