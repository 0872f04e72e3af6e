#include "runtime/cpu/rt.h"

#include <string.h>

enum { COLUMNS = 64 };

typedef struct scatter {
  const int32_t *ids;
  const float *dout;
  int64_t count, c, row_start, rows;
  int accumulate;
  float *dtable;
} scatter;

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
    float *restrict const out = s->dtable + row * s->c + column;
    const float *restrict const in = s->dout + t * s->c + column;
    for (int64_t i = 0; i < width; i++)
      out[i] += in[i];
  }
}

void bd_rt_embed_dw(bd_rt *rt, int dtype, const int32_t *ids, const void *dout, int64_t count,
                    int64_t c, int64_t row_start, int64_t rows, int32_t accumulate, float *dtable) {
  if (dtype != BD_RT_F32) bd_rt_fail(BD_RT_EXIT_INTERNAL, "embed_dw of dtype %d", dtype);
  scatter s = {ids, dout, count, c, row_start, rows, accumulate, dtable};
  bd_rt_parallel(rt, add_columns, &s, (c + COLUMNS - 1) / COLUMNS);
}
