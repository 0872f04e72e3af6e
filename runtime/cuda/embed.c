// Starts the kernels of embed.cu.
#include "runtime/cuda/launch.h"

enum {
  LEAST_SHIFT = 5, // a piece has 2^5 tokens, or more of rows with many columns
  SUMS_BYTES = 8 << 20,
};
_Static_assert(sizeof(bd_cuda_embed_places) % sizeof(float4) == 0, "sums of pieces come behind");
_Static_assert(sizeof(bd_cuda_embed_places) + SUMS_BYTES <= BD_CUDA_EMBED_BYTES,
               "sums of pieces have room");

// How long a piece is, as if there were as many tokens as there may be.
static int shift_for(int64_t c) {
  int shift = LEAST_SHIFT;
  while ((BD_CUDA_EMBED_TOKENS >> shift) * 2 * c * (int64_t)sizeof(float) > SUMS_BYTES &&
         BD_CUDA_EMBED_TOKENS >> shift > 1)
    shift++;
  return shift;
}

// Starts the kernels for the types. `packs` is empty, or says that all comes in packs.
#define PIECES(packs, types) bd_cuda_start_add_pieces_##packs##types(queue, grid, t, dout, p, sums)
#define SUMS(packs, types) bd_cuda_start_add_sums_##packs##types(queue, grid, t, p, sums)
#define ADD(packs)                                                                                 \
  do {                                                                                             \
    if (table_dtype != BD_RT_F32)                                                                  \
      PIECES(packs, halves);                                                                       \
    else if (dtype == BD_RT_F32)                                                                   \
      PIECES(packs, f32);                                                                          \
    else if (dtype == BD_RT_F16)                                                                   \
      PIECES(packs, f16);                                                                          \
    else                                                                                           \
      PIECES(packs, bf16);                                                                         \
    if (table_dtype != BD_RT_F32)                                                                  \
      SUMS(packs, halves);                                                                         \
    else                                                                                           \
      SUMS(packs, f32);                                                                            \
  } while (0)

static void add(const bd_cuda_queue *queue, bd_cuda_embed_table t, int dtype, const void *dout,
                int table_dtype, const bd_cuda_embed_places *p, float *sums) {
  const int packs = t.c % BD_CUDA_PACK == 0 &&
                    bd_cuda_fits(dout, (int)bd_rt_element_bytes(dtype)) &&
                    bd_cuda_fits(t.rows, (int)bd_rt_element_bytes(table_dtype));
  t.packs = bd_cuda_rows_of(t.c / (packs ? BD_CUDA_PACK : 1), 0);
  const bd_cuda_grid grid = bd_cuda_over(queue, t.count * t.packs.row);
  if (packs)
    ADD(packs_);
  else
    ADD();
}

void bd_cuda_embed_dw(const bd_cuda_queue *queue, int dtype, const int32_t *ids, const void *dout,
                      int64_t count, int64_t c, int64_t row_start, int64_t rows, int table_dtype,
                      void *dtable, void *room) {
  bd_cuda_embed_places *const p = room;
  float *const sums = (float *)(p + 1);
  const bd_cuda_embed_table t = {.ids = ids,
                                 .count = count,
                                 .c = c,
                                 .row_start = row_start,
                                 .shift = shift_for(c),
                                 .rows = dtable};
  const int64_t parts = (count + BD_CUDA_EMBED_PART - 1) / BD_CUDA_EMBED_PART;
  if (count == 0 || c == 0) return;
  bd_cuda_start_count_tokens(queue, bd_cuda_over(queue, parts * count), ids, count, p);
  bd_cuda_start_place_tokens(queue, bd_cuda_over(queue, count), ids, count, row_start, rows,
                             1 << t.shift, p);
  add(queue, t, dtype, dout, table_dtype, p, sums);
}
