#include "runtime/cpu/halves.h"
#include "runtime/cpu/rt.h"

#include <string.h>

enum { COLUMNS = 64 };

typedef struct scatter {
  const int32_t *ids;
  const void *dout;
  int dtype;
  int64_t count, c, row_start, rows;
  int accumulate;
  float *dtable;
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

// One block of columns: tokens in order, so that the sum's order never depends on threads.
static void add_columns(void *args, int64_t chunk) {
  const scatter *const s = args;
  const int64_t column = chunk * COLUMNS;
  const int64_t width = s->c - column < COLUMNS ? s->c - column : COLUMNS;
  if (!s->accumulate)
    for (int64_t row = 0; row < s->rows; row++)
      memset(s->dtable + row * s->c + column, 0, (size_t)width * sizeof *s->dtable);
  for (int64_t t = 0; t < s->count; t++) {
    const int64_t row = s->ids[t] - s->row_start;
    if (row < 0 || row >= s->rows) continue;
    float *const out = s->dtable + row * s->c + column;
    const int64_t from = t * s->c + column;
    if (bd_rt_is_half(s->dtype))
      add_halves(s->dtype, out, (const uint16_t *)s->dout + from, width);
    else
      add_floats(out, (const float *)s->dout + from, width);
  }
}

void bd_rt_embed_dw(bd_rt *rt, int dtype, const int32_t *ids, const void *dout, int64_t count,
                    int64_t c, int64_t row_start, int64_t rows, int32_t accumulate, float *dtable) {
  scatter s = {ids, dout, dtype, count, c, row_start, rows, accumulate, dtable};
  bd_rt_parallel(rt, add_columns, &s, (c + COLUMNS - 1) / COLUMNS);
}
