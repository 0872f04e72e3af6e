#include "runtime/cuda/sized.h"

#include "runtime/cuda/even.h"
#include "runtime/cuda/grouping.h"
#include "runtime/cuda/tune.h"

#include <stdlib.h>
#include <string.h>

enum {
  LEAST = 16,
  GRAIN = 128,
  MOST_GRAINS = 16,
  FITS = 1 << 11, // of sizes, that are remembered
};

// What a size has got: the class's algorithm, or its own.
typedef struct fit {
  const bd_cuda_product *product; // of the class
  int64_t size;
  cublasLtMatmulAlgo_t of_class;
  bd_cuda_algorithm algorithm;
} fit;

struct bd_cuda_sized_fits {
  fit of[FITS];
};

bd_cuda_sized_fits *bd_cuda_open_sized_fits(void) {
  return bd_rt_allocate(1, sizeof(bd_cuda_sized_fits));
}

void bd_cuda_close_sized_fits(bd_cuda_sized_fits *fits) {
  free(fits);
}

int64_t bd_cuda_size_class(int64_t size) {
  int64_t class = LEAST, grain = GRAIN;
  while (class < GRAIN && class < size)
    class *= 2;
  if (size <= class) return class;
  while (grain * MOST_GRAINS < size)
    grain *= 2;
  return (size + grain - 1) / grain * grain;
}

static int64_t *size_in(bd_rt_gemm *shape, bd_cuda_extent extent) {
  return extent == BD_CUDA_ROWS ? &shape->m : &shape->k;
}

int64_t bd_cuda_sized_size(const bd_cuda_sized *z) {
  return z->extent == BD_CUDA_ROWS ? z->shape.m : z->shape.k;
}

static int64_t class_size(const bd_cuda_sized *z, int64_t size) {
  return bd_rt_least(bd_cuda_size_class(size), z->most);
}

void bd_cuda_sized_set(const bd_rt *rt, bd_cuda_sized *z, int64_t size) {
  *size_in(&z->shape, z->extent) = size;
  const int64_t rows = z->extent == BD_CUDA_ROWS ? class_size(z, size) : z->shape.m;
  z->sharers = bd_cuda_is_small(rt, rows, z->shape.n) ? BD_CUDA_FAN : 0;
}

static int32_t lesser(int32_t a, int32_t b) {
  return a < b ? a : b;
}

static bd_cuda_product *class_of(bd_rt *rt, const bd_cuda_sized *z) {
  const bd_rt_epilogue none = {.kind = BD_RT_EPILOGUE_NONE};
  bd_rt_gemm shape = z->shape;
  *size_in(&shape, z->extent) = class_size(z, bd_cuda_sized_size(z));
  bd_cuda_product_key k =
      bd_cuda_product_key_of(&shape, &none, z->a_scale != NULL, z->a, z->b, z->out);
  k.left_align = lesser(k.left_align, z->b_align);
  k.right_align = lesser(k.right_align, z->a_align);
  k.out_align = lesser(k.out_align, z->out_align);
  k.sharers = z->sharers;
  return bd_cuda_product_of(rt, &k, &none);
}

static void set_extent(cublasLtMatrixLayout_t layout, int columns, int64_t size) {
  const uint64_t value = (uint64_t)size;
  BD_CUDA_BLAS(cublasLtMatrixLayoutSetAttribute(
      layout, columns ? CUBLASLT_MATRIX_LAYOUT_COLS : CUBLASLT_MATRIX_LAYOUT_ROWS, &value,
      sizeof value));
}

// The left factor is n by k, the right one k by m, the result n by m.
static void resize(const bd_cuda_product *p, bd_cuda_extent extent, int64_t size) {
  if (extent == BD_CUDA_ROWS) {
    set_extent(p->right, !p->key.right.transposed, size);
    set_extent(p->out, 1, size);
  } else {
    set_extent(p->left, !p->key.left.transposed, size);
    set_extent(p->right, p->key.right.transposed, size);
  }
}

static int is_fit(const fit *f, const bd_cuda_product *p, int64_t size) {
  return f->product == p && f->size == size &&
         !memcmp(&f->of_class, &p->algorithm, sizeof f->of_class);
}

// Of a product that has been resized. What is forgotten is found again as it was.
static const bd_cuda_algorithm *fit_of(bd_rt *rt, const bd_cuda_product *p, int64_t size) {
  const uint64_t names[] = {(uint64_t)(uintptr_t)p, (uint64_t)size};
  fit *const f = &rt->device->grouping->fits
                      ->of[bd_launcher_hash(BD_LAUNCHER_HASH, names, sizeof names) % FITS];
  cublasLtMatmulHeuristicResult_t result;
  if (is_fit(f, p, size)) return &f->algorithm;
  *f = (fit){.product = p, .size = size, .of_class = p->algorithm};
  if (bd_cuda_product_accepts(rt, p, &p->algorithm, &f->algorithm)) return &f->algorithm;
  if (bd_cuda_product_ask(rt, p, 1, &result) == 0) bd_cuda_product_refuse(rt, p);
  f->algorithm = (bd_cuda_algorithm){result.algo, result.workspaceSize};
  return &f->algorithm;
}

static void multiply(bd_rt *rt, const bd_cuda_sized *z, cudaStream_t stream, int part) {
  bd_rt_device *const device = rt->device;
  const bd_cuda_product *const p = class_of(rt, z);
  const int64_t size = bd_cuda_sized_size(z), class = class_size(z, size);
  bd_cuda_algorithm with = {p->algorithm, p->workspace_bytes};
  const float alpha = 1, beta = z->shape.accumulate ? 1 : 0;
  if (z->a_scale) bd_cuda_product_set_scales(p, z->b_scale, z->a_scale);
  if (size != class) {
    resize(p, z->extent, size);
    with = *fit_of(rt, p, size);
  }
  const cublasStatus_t status =
      cublasLtMatmul(device->blas, p->operation, &alpha, z->b, p->left, z->a, p->right, &beta,
                     z->out, p->out, z->out, p->out, &with.algorithm,
                     device->library + part * bd_cuda_product_workspace(device, &p->key),
                     with.workspace_bytes, stream);
  bd_cuda_product_check(rt, p, status, "cublasLtMatmul");
  if (size != class) resize(p, z->extent, class);
}

// Which extents are cut, and where, is nothing that the size has a say in.
static int parts_of(const bd_cuda_sized *z, bd_cuda_sized out[2]) {
  bd_cuda_part parts[2];
  const int count = bd_cuda_even_parts(&z->shape, parts);
  for (int i = 0; i < count; i++) {
    const int64_t in = bd_rt_element_bytes(z->shape.dtype);
    out[i] = *z;
    out[i].shape = parts[i].shape;
    out[i].a = (const char *)z->a + parts[i].a * in;
    out[i].b = (const char *)z->b + parts[i].b * in;
    out[i].out = (char *)z->out + parts[i].out * bd_rt_element_bytes(z->shape.out_dtype);
  }
  return count;
}

void bd_cuda_sized_start(bd_rt *rt, const bd_cuda_sized *product, cudaStream_t stream, int part) {
  bd_cuda_sized parts[2];
  const int count = parts_of(product, parts);
  for (int i = 0; i < count; i++)
    multiply(rt, &parts[i], stream, part);
}

int bd_cuda_sized_alike(bd_rt *rt, const bd_cuda_sized *a, const bd_cuda_sized *b) {
  bd_cuda_sized of_a[2], of_b[2];
  const int count = parts_of(a, of_a);
  int alike = count == parts_of(b, of_b) && a->extent == b->extent &&
              bd_cuda_sized_size(a) == bd_cuda_sized_size(b);
  for (int i = 0; alike && i < count; i++)
    alike = class_of(rt, &of_a[i]) == class_of(rt, &of_b[i]);
  return alike;
}

static void run_noted(bd_rt *rt, const void *args) {
  multiply(rt, args, bd_cuda_now(rt)->stream, 0);
}

void bd_cuda_sized_note(bd_rt *rt, const bd_cuda_sized *product, int64_t calls) {
  bd_cuda_sized parts[2];
  const int count = parts_of(product, parts);
  for (int i = 0; i < count; i++)
    for (int64_t call = 0; call < calls; call++)
      bd_cuda_tune_note(rt, class_of(rt, &parts[i]), run_noted, &parts[i], sizeof parts[i]);
}
