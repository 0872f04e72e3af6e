#include "runtime/cpu/halves.h"
#include "runtime/cpu/rt.h"

#include <string.h>

// Columns that are one thread's at once; rows of them that a thread's scratch has room for.
enum { COLUMNS = 64, ROWS = BD_RT_THREAD_SCRATCH_FLOATS / COLUMNS };

typedef struct scatter {
  const bd_rt *rt;
  const int32_t *ids;
  const void *dout;
  int dtype;
  int64_t count, c, row_start, rows;
  int accumulate, table_dtype;
  void *dtable;
} scatter;

static void add_floats(float *restrict out, const float *restrict in, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    out[i] += in[i];
}

static void add_halves(int dtype, float *out, const uint16_t *in, int64_t count) {
  float wide[COLUMNS];
  bd_rt_widen_run(dtype, in, wide, count);
  add_floats(out, wide, count);
}

// Some columns of rows [first, first + rows), `stride` apart: tokens in order, so that the sum's
// order never depends on threads.
static void add_tokens(const scatter *s, int64_t column, int64_t width, int64_t first, int64_t rows,
                       float *sums, int64_t stride) {
  for (int64_t t = 0; t < s->count; t++) {
    const int64_t row = s->ids[t] - s->row_start - first;
    if (row < 0 || row >= rows) continue;
    const int64_t from = t * s->c + column;
    if (bd_rt_is_half(s->dtype))
      add_halves(s->dtype, sums + row * stride, (const uint16_t *)s->dout + from, width);
    else
      add_floats(sums + row * stride, (const float *)s->dout + from, width);
  }
}

static void add_to_floats(const scatter *s, int64_t column, int64_t width) {
  float *const table = (float *)s->dtable + column;
  if (!s->accumulate)
    for (int64_t row = 0; row < s->rows; row++)
      memset(table + row * s->c, 0, (size_t)width * sizeof *table);
  add_tokens(s, column, width, 0, s->rows, table, s->c);
}

// What a table of halves gets is added up in f32.
static void add_to_halves(const scatter *s, int64_t column, int64_t width, float *sums) {
  for (int64_t first = 0; first < s->rows; first += ROWS) {
    const int64_t rows = bd_rt_least(ROWS, s->rows - first);
    uint16_t *const table = (uint16_t *)s->dtable + first * s->c + column;
    for (int64_t row = 0; row < rows; row++)
      if (s->accumulate)
        bd_rt_widen_run(s->table_dtype, table + row * s->c, sums + row * COLUMNS, width);
      else
        memset(sums + row * COLUMNS, 0, (size_t)width * sizeof *sums);
    add_tokens(s, column, width, first, rows, sums, COLUMNS);
    for (int64_t row = 0; row < rows; row++)
      bd_rt_narrow_run(s->table_dtype, sums + row * COLUMNS, table + row * s->c, width);
  }
}

static void add_columns(void *args, int64_t chunk, int worker) {
  const scatter *const s = args;
  const int64_t column = chunk * COLUMNS, width = bd_rt_least(COLUMNS, s->c - column);
  if (s->table_dtype == BD_RT_F32)
    add_to_floats(s, column, width);
  else
    add_to_halves(s, column, width, bd_rt_thread_scratch(s->rt, worker));
}

void bd_rt_embed_dw(bd_rt *rt, int dtype, const int32_t *ids, const void *dout, int64_t count,
                    int64_t c, int64_t row_start, int64_t rows, int32_t accumulate, int table_dtype,
                    void *dtable) {
  scatter s = {rt, ids, dout, dtype, count, c, row_start, rows, accumulate, table_dtype, dtable};
  bd_rt_pool_run(rt->pool, add_columns, &s, (c + COLUMNS - 1) / COLUMNS);
}
