// Reduce-scatter: sums of which every rank gets its part, piece by piece as the scratch buffer
// allows.
#include "runtime/cpu/boxes.h"
#include "runtime/cpu/combine.h"
#include "runtime/cpu/messages.h"

// One piece of a reduce-scatter: outer rows [row, row + rows), and of each part's flattened
// (extent, inner) the elements [from, from + length).
typedef struct scatter {
  int64_t extent, inner;
  int64_t row, rows, from, length;
} scatter;

static bd_rt_box scatter_box(const scatter *s, const bd_rt_group *group, int64_t outer, int other) {
  int64_t start, count;
  bd_rt_part(s->extent, group->size, other, &start, &count);
  int64_t length = count * s->inner - s->from;
  length = length < s->length ? length : s->length;
  return (bd_rt_box){.dims = {1, 1, 1, outer, s->extent * s->inner},
                     .start = {0, 0, 0, s->row, start * s->inner + s->from},
                     .size = {1, 1, 1, s->rows, length}};
}

static void scatter_piece(bd_rt *rt, const bd_rt_group *group, int dtype, const scatter *s,
                          int64_t outer, const void *in, void *out) {
  const bd_rt_box own = scatter_box(s, group, outer, group->rank);
  const int64_t length = own.size[4] > 0 ? own.size[4] : 0, count = s->rows * length;
  const bd_rt_box packed = {.dims = {1, 1, 1, s->rows, length}, .size = {1, 1, 1, s->rows, length}};
  bd_rt_exchange exchange = {.rt = rt, .group = group, .dtype = dtype};
  for (int r = 0; r < group->size; r++) {
    if (r == group->rank) continue;
    bd_rt_receive_row(&exchange, count, bd_rt_at(rt->scratch, dtype, r * count), r);
    const bd_rt_box theirs = scatter_box(s, group, outer, r);
    bd_rt_send_box(&exchange, &theirs, in, r);
  }
  bd_rt_box_copy(dtype, &own, in, &packed, bd_rt_at(rt->scratch, dtype, group->rank * count));
  bd_rt_exchange_end(&exchange);
  bd_rt_combine_pieces(dtype, BD_RT_SUM, group->size, count, count, rt->scratch);
  const int64_t part = bd_rt_padded_part(s->extent, group->size) * s->inner;
  const bd_rt_box to = {.dims = {1, 1, 1, outer, part},
                        .start = {0, 0, 0, s->row, s->from},
                        .size = {1, 1, 1, s->rows, length}};
  bd_rt_box_copy(dtype, &packed, rt->scratch, &to, out);
}

void bd_rt_reduce_scatter(bd_rt *rt, int axis, int dtype, int64_t outer, int64_t extent,
                          int64_t inner, const void *in, void *out) {
  const bd_rt_group *const group = &rt->group[1 << axis];
  const int64_t part = bd_rt_padded_part(extent, group->size) * inner;
  const int64_t most = BD_RT_SCRATCH_FLOATS / group->size;
  scatter s = {.extent = extent, .inner = inner};
  if (part <= most) {
    s.length = part;
    const int64_t rows = part > 0 ? most / part : 0;
    for (s.row = 0; rows > 0 && s.row < outer; s.row += rows) {
      s.rows = outer - s.row < rows ? outer - s.row : rows;
      scatter_piece(rt, group, dtype, &s, outer, in, out);
    }
    return;
  }
  s.rows = 1;
  for (s.row = 0; s.row < outer; s.row++)
    for (s.from = 0; s.from < part; s.from += most) {
      s.length = part - s.from < most ? part - s.from : most;
      scatter_piece(rt, group, dtype, &s, outer, in, out);
    }
}
