// The gradient of an embedding: every row of the table adds up its tokens in their order, those of
// rows that have many in pieces. How long a piece is depends on the number of columns alone.
#include "runtime/cuda/packs.cuh"

enum {
  PART = 1024,     // tokens that a thread compares one with
  LEAST_SHIFT = 5, // a piece has 2^5 tokens, or more of rows with many columns
  PARTS = (BD_CUDA_EMBED_TOKENS + PART - 1) / PART,
  SUMS_BYTES = 8 << 20,
  AHEAD = 8, // tokens that a thread reads before it adds them
};

// Of one token: tokens with a lesser id, with its own, and of those the ones before it.
typedef struct counts {
  int32_t less, alike, before;
} counts;

// The tokens by their ids, those of one id in ascending order.
typedef struct places {
  counts of[PARTS][BD_CUDA_EMBED_TOKENS];
  int32_t token[BD_CUDA_EMBED_TOKENS];
  int32_t piece[BD_CUDA_EMBED_TOKENS]; // tokens of the piece that begins here; of rows elsewhere 0
  int32_t alike[BD_CUDA_EMBED_TOKENS]; // tokens with this id; negative where it is not their first
} places;
static_assert(sizeof(places) % sizeof(float4) == 0, "sums of pieces come behind");
static_assert(sizeof(places) + SUMS_BYTES <= BD_CUDA_EMBED_BYTES, "sums of pieces have room");

static __global__ void count_tokens(const int32_t *ids, int64_t count, places *p) {
  BD_FOR_ITEMS(item, (count + PART - 1) / PART * count) {
    const int64_t part = item / count, token = item % count;
    const int64_t first = part * PART, end = bd_cuda_least(first + PART, count);
    const int32_t id = ids[token];
    counts c = {};
    for (int64_t other = first; other < end; other++) {
      const int32_t its = ids[other];
      c.less += its < id;
      c.alike += its == id;
      c.before += its == id && other < token;
    }
    p->of[part][token] = c;
  }
}

static __global__ void place_tokens(const int32_t *ids, int64_t count, int64_t row_start,
                                    int64_t rows, int piece, places *p) {
  BD_FOR_ITEMS(token, count) {
    const int64_t row = ids[token] - row_start;
    counts c = {};
    for (int64_t part = 0; part * PART < count; part++) {
      const counts more = p->of[part][token];
      c.less += more.less;
      c.alike += more.alike;
      c.before += more.before;
    }
    const int32_t place = c.less + c.before, rest = c.alike - c.before;
    const bool begins = row >= 0 && row < rows && c.before % piece == 0;
    p->token[place] = (int32_t)token;
    p->piece[place] = !begins ? 0 : rest < piece ? rest : piece;
    p->alike[place] = c.before == 0 ? c.alike : -c.alike;
  }
}

// Where the sum of the piece that begins at a place goes, if its row has several. Of those that
// begin among 2^shift places no more than two do: the last of a row and the first of another.
static __device__ float *sum_of(float *sums, int64_t c, int shift, int64_t place, bool first) {
  return sums + ((place >> shift) * 2 + first) * c;
}

template <int dtype, int width>
static __device__ float number_of(const bd_cuda_floats<width> &v, int e) {
  return v.at[e];
}
template <int dtype, int width>
static __device__ float number_of(const bd_cuda_halves<width> &v, int e) {
  return bd_rt_from_half(dtype, v.get(e));
}

// A row of the table, in f32 or rounded to the nearest bf16.
template <int width> static __device__ void store_row(float *to, const bd_cuda_floats<width> &sum) {
  bd_cuda_store(to, sum);
}
template <int width>
static __device__ void store_row(uint16_t *to, const bd_cuda_floats<width> &sum) {
  bd_cuda_halves<width> halves = {};
  for (int e = 0; e < width; e++)
    halves.put(e, bd_rt_to_bf16(sum.at[e]));
  bd_cuda_store(to, halves);
}

// What pieces are added up from, and to.
template <typename cell> struct table {
  const int32_t *ids;
  int64_t count, c, row_start;
  bd_cuda_rows packs; // of a row
  int shift;          // 2^shift tokens are a piece
  cell *rows;
};

template <typename cell>
static __device__ cell *row_of(const table<cell> &t, const places *p, int64_t place) {
  return t.rows + (t.ids[p->token[place]] - t.row_start) * t.c;
}

// A thread adds up some columns of a piece.
template <int dtype, int width, typename number, typename cell>
static __global__ void BD_ROOM(4)
    add_pieces(table<cell> t, const number *dout, const places *p, float *sums) {
  BD_FOR_ITEMS(item, t.count * t.packs.row) {
    int64_t column;
    const int64_t place = bd_cuda_row_of(t.packs, item, &column);
    const int tokens = p->piece[place], alike = p->alike[place];
    if (tokens == 0) continue;
    const bool alone = alike >= -(1 << t.shift) && alike <= 1 << t.shift;
    bd_cuda_floats<width> sum = {};
    if (alone) sum = bd_cuda_load_floats<width>(row_of(t, p, place) + column * width);
    for (int done = 0; done < tokens; done += AHEAD) {
      decltype(bd_cuda_load<width>(dout)) next[AHEAD];
      for (int k = 0; k < AHEAD; k++) {
        const int64_t near = bd_cuda_least(done + k, tokens - 1);
        next[k] = bd_cuda_load<width>(dout + p->token[place + near] * t.c + column * width);
      }
      for (int k = 0; k < AHEAD; k++)
        for (int e = 0; e < width; e++)
          if (done + k < tokens) sum.at[e] += number_of<dtype>(next[k], e);
    }
    if (alone)
      store_row<width>(row_of(t, p, place) + column * width, sum);
    else
      bd_cuda_store(sum_of(sums, t.c, t.shift, place, alike > 0) + column * width, sum);
  }
}

// Then some columns of a row its pieces.
template <int width, typename cell>
static __global__ void BD_ROOM(4) add_sums(table<cell> t, const places *p, float *sums) {
  BD_FOR_ITEMS(item, t.count * t.packs.row) {
    int64_t column;
    const int64_t place = bd_cuda_row_of(t.packs, item, &column);
    const int alike = p->alike[place], pieces = (alike + (1 << t.shift) - 1) >> t.shift;
    if (alike <= 1 << t.shift || p->piece[place] == 0) continue;
    cell *const out = row_of(t, p, place) + column * width;
    bd_cuda_floats<width> sum = bd_cuda_load_floats<width>((const cell *)out);
    for (int done = 0; done < pieces; done += AHEAD) {
      bd_cuda_floats<width> next[AHEAD];
      for (int k = 0; k < AHEAD; k++) {
        const int64_t near = bd_cuda_least(done + k, pieces - 1);
        const float *const from = sum_of(sums, t.c, t.shift, place + (near << t.shift), near == 0);
        next[k] = bd_cuda_load<width>(from + column * width);
      }
      for (int k = 0; k < AHEAD; k++)
        for (int e = 0; e < width; e++)
          if (done + k < pieces) sum.at[e] += next[k].at[e];
    }
    store_row<width>(out, sum);
  }
}

template <int dtype, int width, typename number, typename cell>
static void add(const bd_cuda_queue *queue, table<cell> t, const number *dout, const places *p,
                float *sums) {
  t.packs = bd_cuda_rows_of(t.c / width, 0);
  const int grid = blocks_of(queue, t.count * t.packs.row);
  BD_LAUNCH((add_pieces<dtype, width, number, cell>), grid, BD_CUDA_THREADS, queue->stream, t, dout,
            p, sums);
  BD_LAUNCH((add_sums<width, cell>), grid, BD_CUDA_THREADS, queue->stream, t, p, sums);
}

template <int dtype, typename number, typename cell>
static void add_tokens(const bd_cuda_queue *queue, const table<cell> &t, const number *dout,
                       const places *p, float *sums) {
  if (t.c % BD_CUDA_PACK == 0 && bd_cuda_fits(dout, sizeof *dout) &&
      bd_cuda_fits(t.rows, sizeof *t.rows))
    add<dtype, BD_CUDA_PACK>(queue, t, dout, p, sums);
  else
    add<dtype, 1>(queue, t, dout, p, sums);
}

template <typename cell>
static void add_all(const bd_cuda_queue *queue, int dtype, const int32_t *ids, const void *dout,
                    int64_t count, int64_t c, int64_t row_start, int64_t rows, cell *dtable,
                    places *p) {
  float *const sums = (float *)(void *)(p + 1);
  table<cell> t = {ids, count, c, row_start, {}, LEAST_SHIFT, dtable};
  // As if there were as many tokens as there may be.
  while ((BD_CUDA_EMBED_TOKENS >> t.shift) * 2 * c * (int64_t)sizeof *sums > SUMS_BYTES &&
         BD_CUDA_EMBED_TOKENS >> t.shift > 1)
    t.shift++;
  BD_LAUNCH(count_tokens, blocks_of(queue, (count + PART - 1) / PART * count), BD_CUDA_THREADS,
            queue->stream, ids, count, p);
  BD_LAUNCH(place_tokens, blocks_of(queue, count), BD_CUDA_THREADS, queue->stream, ids, count,
            row_start, rows, 1 << t.shift, p);
  if constexpr (sizeof(cell) == sizeof(float)) {
    if (dtype == BD_RT_F32) add_tokens<BD_RT_F32>(queue, t, (const float *)dout, p, sums);
    if (dtype == BD_RT_F16) add_tokens<BD_RT_F16>(queue, t, (const uint16_t *)dout, p, sums);
  }
  if (dtype == BD_RT_BF16) add_tokens<BD_RT_BF16>(queue, t, (const uint16_t *)dout, p, sums);
}

void bd_cuda_embed_dw(const bd_cuda_queue *queue, int dtype, const int32_t *ids, const void *dout,
                      int64_t count, int64_t c, int64_t row_start, int64_t rows, int table_dtype,
                      void *dtable, void *room) {
  places *const p = (places *)room;
  if (count == 0 || c == 0) return;
  if (table_dtype == BD_RT_F32)
    add_all(queue, dtype, ids, dout, count, c, row_start, rows, (float *)dtable, p);
  else
    add_all(queue, dtype, ids, dout, count, c, row_start, rows, (uint16_t *)dtable, p);
}
