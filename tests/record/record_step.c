// The work of a stage program.
#include "runtime/backend.h"
#include "runtime/float8.h"
#include "tests/record/back_end.h"

// Bytes from the first to the last of elements that lie at strides.
static int64_t span(int dtype, int64_t a, int64_t stride_a, int64_t b, int64_t stride_b, int64_t c,
                    int64_t stride_c) {
  if (a <= 0 || b <= 0 || c <= 0) return 0;
  return ((a - 1) * stride_a + (b - 1) * stride_b + (c - 1) * stride_c + 1) *
         bd_rt_element_bytes(dtype);
}

void bd_rt_launch(bd_rt *rt, int number, int buffer_count, char *const *buffers, int range_count,
                  const int64_t *range, const bd_rt_random *random) {
  (void)random;
  record_operand operands[buffer_count + 1];
  for (int i = 0; i < buffer_count; i++)
    operands[i] = record_reads(rt, buffers[i], RECORD_SIZE_UNKNOWN);
  record_tell(rt, (record_event){.kind = RECORD_LAUNCH,
                                 .number = number,
                                 .handle = RECORD_NO_HANDLE,
                                 .range_count = range_count,
                                 .ranges = range,
                                 .operand_count = buffer_count,
                                 .operands = operands});
}

static int64_t q_bytes(const bd_rt_attention *s) {
  return span(s->dtype, s->batch, s->q_batch, s->tq, s->q_row, s->heads * s->d, 1);
}
static int64_t k_bytes(const bd_rt_attention *s) {
  return span(s->dtype, s->batch, s->k_batch, s->tk, s->k_row, s->kv_heads * s->d, 1);
}
static int64_t v_bytes(const bd_rt_attention *s) {
  return span(s->dtype, s->batch, s->v_batch, s->tk, s->v_row, s->kv_heads * s->d_v, 1);
}
static int64_t out_bytes(const bd_rt_attention *s) {
  return span(s->dtype, s->batch, s->out_batch, s->tq, s->out_row, s->heads * s->d_v, 1);
}
static int64_t lse_bytes(const bd_rt_attention *s) {
  return span(BD_RT_F32, s->batch, s->lse_batch, s->tq, s->lse_row, s->heads, 1);
}

// Where the library is not asked for, the generated kernels are, which touch the same buffers.
int bd_rt_attend(bd_rt *rt, const bd_rt_attention *s, const void *q, const void *k, const void *v,
                 void *out, void *lse) {
  if (!rt->device->ways.attention) return 0;
  RECORD_WORK(rt, RECORD_ATTEND, record_reads(rt, q, q_bytes(s)), record_reads(rt, k, k_bytes(s)),
              record_reads(rt, v, v_bytes(s)), record_writes(rt, out, out_bytes(s)),
              record_writes(rt, lse, lse_bytes(s)), record_library(rt));
  return 1;
}

int bd_rt_attend_with_sinks(bd_rt *rt, const bd_rt_attention *s, const void *q, const void *k,
                            const void *v, const void *sinks, void *out, void *lse) {
  if (!rt->device->ways.attention) return 0;
  RECORD_WORK(rt, RECORD_ATTEND, record_reads(rt, q, q_bytes(s)), record_reads(rt, k, k_bytes(s)),
              record_reads(rt, v, v_bytes(s)),
              record_reads(rt, sinks, s->heads * bd_rt_element_bytes(s->dtype)),
              record_writes(rt, out, out_bytes(s)), record_writes(rt, lse, lse_bytes(s)),
              record_library(rt));
  return 1;
}

int bd_rt_attend_grad(bd_rt *rt, const bd_rt_attention *s, const void *dout, const void *q,
                      const void *k, const void *v, const void *out, const void *lse, void *dq,
                      void *dk, void *dv, void *sums) {
  if (!rt->device->ways.attention) return 0;
  RECORD_WORK(rt, RECORD_ATTEND, record_reads(rt, dout, out_bytes(s)),
              record_reads(rt, q, q_bytes(s)), record_reads(rt, k, k_bytes(s)),
              record_reads(rt, v, v_bytes(s)), record_reads(rt, out, out_bytes(s)),
              record_reads(rt, lse, lse_bytes(s)), record_writes(rt, dq, q_bytes(s)),
              record_writes(rt, dk, k_bytes(s)), record_writes(rt, dv, v_bytes(s)),
              record_uses(rt, sums, lse_bytes(s)), record_library(rt));
  return 1;
}

// Operands of a product and its epilogue.
enum { MOST_OPERANDS = 8 };

static int list_epilogue(const bd_rt *rt, const bd_rt_gemm *s, const bd_rt_epilogue *e,
                         record_operand *out) {
  const int64_t size = bd_rt_element_bytes(s->out_dtype),
                bytes = span(s->out_dtype, s->m, s->out_m, s->n, 1, 1, 0);
  int count = 0;
  if (e->bias) out[count++] = record_reads(rt, e->bias, s->n * size);
  if (e->other)
    out[count++] = e->kind == BD_RT_EPILOGUE_GELU ? record_writes(rt, e->other, bytes)
                                                  : record_reads(rt, e->other, bytes);
  if (e->sums)
    out[count++] = record_updates(
        rt, e->sums, (e->kind == BD_RT_EPILOGUE_SUM_A ? s->m : s->n) * (int64_t)sizeof *e->sums);
  return count;
}

static void multiply(bd_rt *rt, const bd_rt_gemm *s, const bd_rt_epilogue *e, const void *a,
                     const void *b, void *out) {
  const int64_t a_bytes = span(s->dtype, s->m, s->a_m, s->k, s->a_k, s->batch, s->a_batch),
                b_bytes = span(s->dtype, s->k, s->b_k, s->n, s->b_n, s->batch, s->b_batch),
                bytes = span(s->out_dtype, s->m, s->out_m, s->n, 1, s->batch, s->out_batch);
  const int64_t a_rounded = s->batch * s->m * s->k, b_rounded = s->batch * s->n * s->k;
  const int64_t b_at =
      BD_RT_ALIGNMENT + (a_rounded + BD_RT_ALIGNMENT - 1) / BD_RT_ALIGNMENT * BD_RT_ALIGNMENT;
  record_operand operands[MOST_OPERANDS] = {
      record_reads(rt, a, a_bytes), record_reads(rt, b, b_bytes),
      s->accumulate ? record_updates(rt, out, bytes) : record_writes(rt, out, bytes)};
  int count = 3 + list_epilogue(rt, s, e, operands + 3);
  operands[count++] = record_library(rt);
  if (bd_rt_is_f8(s)) operands[count++] = record_uses(rt, s->f8_room, b_at + b_rounded);
  record_work(rt, RECORD_MATMUL, count, operands);
}

void bd_rt_matmul(bd_rt *rt, const bd_rt_gemm *s, const void *a, const void *b, void *out) {
  multiply(rt, s, &(bd_rt_epilogue){.kind = BD_RT_EPILOGUE_NONE}, a, b, out);
}

// As the library can all that it is asked for, or nothing.
int bd_rt_matmul_with(bd_rt *rt, const bd_rt_gemm *s, const bd_rt_epilogue *e, const void *a,
                      const void *b, void *out) {
  if (rt->device->ways.apart) return 0;
  multiply(rt, s, e, a, b, out);
  return 1;
}

const int32_t *bd_rt_fetch_ends(bd_rt *rt, int64_t at, const int32_t *ends, int64_t count) {
  if (at < 0 || count < 1 || at + count > rt->stage->most_ends)
    bd_rt_fail(BD_RT_EXIT_INTERNAL, "%lld ends are fetched to place %lld of %lld", (long long)count,
               (long long)at, (long long)rt->stage->most_ends);
  RECORD_WORK(rt, RECORD_FETCH, record_reads(rt, ends, count * (int64_t)sizeof *ends));
  for (int64_t i = 0; i < count; i++)
    rt->device->ends_from[at + i] = ends + i;
  return rt->device->ends + at;
}

// Where all ends of a product were fetched from.
static record_operand ends_of(const bd_rt *rt, const bd_rt_grouped *s, const int32_t *ends) {
  const int64_t at = ends - rt->device->ends, count = s->groups;
  if (at < 0 || at + count > rt->stage->most_ends ||
      rt->device->ends_from[at + count - 1] != rt->device->ends_from[at] + count - 1)
    bd_rt_fail(BD_RT_EXIT_INTERNAL, "a product takes ends that were not fetched");
  return record_reads(rt, rt->device->ends_from[at], count * (int64_t)sizeof *ends);
}

// A product whose factors have so many elements.
static void multiply_groups(bd_rt *rt, record_kind kind, const bd_rt_grouped *s,
                            const int64_t elements[2], record_operand operands[MOST_OPERANDS],
                            const int32_t *ends) {
  const int64_t behind = (elements[0] + BD_RT_ALIGNMENT - 1) / BD_RT_ALIGNMENT * BD_RT_ALIGNMENT;
  int count = 3;
  operands[count++] = ends_of(rt, s, ends);
  operands[count++] = record_library(rt);
  if (bd_rt_is_f8_grouped(s))
    operands[count++] = record_uses(rt, s->f8_room, BD_RT_ALIGNMENT + behind + elements[1]);
  record_work(rt, kind, count, operands);
}

void bd_rt_grouped_rows(bd_rt *rt, const bd_rt_grouped *s, const void *x, const void *w,
                        const int32_t *ends, void *y) {
  const int64_t elements[] = {s->rows * s->k, s->groups * s->k * s->n};
  record_operand operands[MOST_OPERANDS] = {
      record_reads(rt, x, span(s->dtype, 1, 0, s->rows, s->x_row, s->k, 1)),
      record_reads(rt, w, span(s->dtype, s->groups, s->w_group, s->k, s->w_k, s->n, s->w_n)),
      record_writes(rt, y, span(s->out_dtype, 1, 0, s->rows, s->y_row, s->n, 1))};
  multiply_groups(rt, RECORD_GROUPED_ROWS, s, elements, operands, ends);
}

void bd_rt_grouped_weights(bd_rt *rt, const bd_rt_grouped *s, const void *x, const void *y,
                           const int32_t *ends, void *w) {
  const int64_t bytes = span(s->out_dtype, s->groups, s->w_group, s->k, s->w_k, s->n, s->w_n);
  const int64_t elements[] = {s->rows * s->k, s->rows * s->n};
  record_operand operands[MOST_OPERANDS] = {
      record_reads(rt, x, span(s->dtype, 1, 0, s->rows, s->x_row, s->k, 1)),
      record_reads(rt, y, span(s->dtype, 1, 0, s->rows, s->y_row, s->n, 1)),
      s->accumulate ? record_updates(rt, w, bytes) : record_writes(rt, w, bytes)};
  multiply_groups(rt, RECORD_GROUPED_WEIGHTS, s, elements, operands, ends);
}

void bd_rt_embed_dw(bd_rt *rt, int dtype, const int32_t *ids, const void *dout, int64_t count,
                    int64_t c, int64_t row_start, int64_t rows, int32_t accumulate, int table_dtype,
                    void *dtable) {
  (void)row_start;
  const int64_t bytes = rows * c * bd_rt_element_bytes(table_dtype);
  if (!accumulate) bd_rt_zero(rt, dtable, bytes);
  RECORD_WORK(rt, RECORD_EMBED_DW, record_reads(rt, ids, count * (int64_t)sizeof *ids),
              record_reads(rt, dout, count * c * bd_rt_element_bytes(dtype)),
              record_updates(rt, dtable, bytes), record_room(rt));
}

static int64_t points(const int64_t extents[3]) {
  return extents[0] * extents[1] * extents[2];
}

// Bytes of an image, of filters and of the result of a convolution or of a pool.
static int64_t x_bytes(const bd_rt_conv *s, int dtype) {
  return s->n * s->c * points(s->x) * bd_rt_element_bytes(dtype);
}
static int64_t w_bytes(const bd_rt_conv *s, int dtype) {
  return s->o * (s->c / s->groups) * points(s->k) * bd_rt_element_bytes(dtype);
}
static int64_t y_bytes(const bd_rt_conv *s, int dtype) {
  return s->n * s->o * points(s->y) * bd_rt_element_bytes(dtype);
}

void bd_rt_convolve(bd_rt *rt, const bd_rt_conv *s, const void *x, const void *w, void *y) {
  RECORD_WORK(rt, RECORD_CONV, record_reads(rt, x, x_bytes(s, s->dtype)),
              record_reads(rt, w, w_bytes(s, s->dtype)),
              record_writes(rt, y, y_bytes(s, s->out_dtype)), record_library(rt));
}
void bd_rt_convolve_dx(bd_rt *rt, const bd_rt_conv *s, const void *dy, const void *w, void *dx) {
  RECORD_WORK(rt, RECORD_CONV_DX, record_reads(rt, dy, y_bytes(s, s->dtype)),
              record_reads(rt, w, w_bytes(s, s->dtype)),
              record_writes(rt, dx, x_bytes(s, s->out_dtype)), record_library(rt));
}
void bd_rt_convolve_dw(bd_rt *rt, const bd_rt_conv *s, const void *x, const void *dy,
                       int32_t accumulate, void *dw) {
  const int64_t bytes = w_bytes(s, s->out_dtype);
  RECORD_WORK(rt, RECORD_CONV_DW, record_reads(rt, x, x_bytes(s, s->dtype)),
              record_reads(rt, dy, y_bytes(s, s->dtype)),
              accumulate ? record_updates(rt, dw, bytes) : record_writes(rt, dw, bytes),
              record_library(rt));
}
void bd_rt_maxpool(bd_rt *rt, const bd_rt_conv *s, const void *x, void *y) {
  RECORD_WORK(rt, RECORD_MAXPOOL, record_reads(rt, x, x_bytes(s, s->dtype)),
              record_writes(rt, y, y_bytes(s, s->out_dtype)));
}
void bd_rt_maxpool_grad(bd_rt *rt, const bd_rt_conv *s, const void *x, const void *dy, void *dx) {
  RECORD_WORK(rt, RECORD_MAXPOOL_GRAD, record_reads(rt, x, x_bytes(s, s->dtype)),
              record_reads(rt, dy, y_bytes(s, s->dtype)),
              record_writes(rt, dx, x_bytes(s, s->out_dtype)));
}

void bd_rt_zero(bd_rt *rt, void *data, int64_t bytes) {
  if (bytes > 0) RECORD_WORK(rt, RECORD_ZERO, record_writes(rt, data, bytes));
}

void bd_rt_clear_gradient(bd_rt *rt, void *at, int64_t bytes) {
  bd_rt_zero(rt, at, bytes);
}

void bd_rt_loss_gradient(bd_rt *rt, float *out) {
  RECORD_WORK(rt, RECORD_LOSS_GRADIENT, record_writes(rt, out, sizeof *out));
}
// Every rank tells it, also one whose loss is a replica and does not count.
void bd_rt_add_loss(bd_rt *rt, const float *loss, uint32_t partial) {
  (void)partial;
  RECORD_WORK(rt, RECORD_ADD_LOSS, record_reads(rt, loss, sizeof *loss));
}

void bd_rt_tokens(bd_rt *rt, int64_t micro_batch, int64_t start, int64_t rows, int32_t *out) {
  (void)micro_batch, (void)start;
  RECORD_WORK(rt, RECORD_TOKENS,
              record_writes(rt, out, rows * rt->program->sequence * (int64_t)sizeof *out));
}
void bd_rt_targets(bd_rt *rt, int64_t micro_batch, int64_t start, int64_t rows, int32_t *out) {
  (void)micro_batch, (void)start;
  RECORD_WORK(rt, RECORD_TARGETS,
              record_writes(rt, out, rows * rt->program->sequence * (int64_t)sizeof *out));
}
void bd_rt_ids(bd_rt *rt, int input, int64_t micro_batch, int64_t start, int64_t rows,
               int32_t *out) {
  (void)micro_batch, (void)start;
  RECORD_WORK(
      rt, RECORD_IDS,
      record_writes(rt, out, rows * rt->program->ids[input].elements * (int64_t)sizeof *out));
}
void bd_rt_reals(bd_rt *rt, int dtype, int64_t micro_batch, int64_t start, int64_t rows,
                 int64_t elements, void *out) {
  (void)micro_batch, (void)start;
  RECORD_WORK(rt, RECORD_REALS,
              record_writes(rt, out, rows * elements * bd_rt_element_bytes(dtype)));
}
