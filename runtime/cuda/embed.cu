// The gradient of an embedding: every row of the table adds up its tokens in their order, those of
// rows that have many in pieces. How long a piece is depends on the number of columns alone.
#include "runtime/cuda/packs.cuh"

enum { AHEAD = 8 }; // tokens that a thread reads before it adds them

BD_ENTRY bd_k_count_tokens(const int32_t *ids, int64_t count, bd_cuda_embed_places *p) {
  BD_FOR_ITEMS(item, (count + BD_CUDA_EMBED_PART - 1) / BD_CUDA_EMBED_PART * count) {
    const int64_t part = item / count, token = item % count;
    const int64_t first = part * BD_CUDA_EMBED_PART,
                  end = bd_cuda_least(first + BD_CUDA_EMBED_PART, count);
    const int32_t id = ids[token];
    bd_cuda_embed_counts c = {};
    for (int64_t other = first; other < end; other++) {
      const int32_t its = ids[other];
      c.less += its < id;
      c.alike += its == id;
      c.before += its == id && other < token;
    }
    p->of[part][token] = c;
  }
}

BD_ENTRY bd_k_place_tokens(const int32_t *ids, int64_t count, int64_t row_start, int64_t rows,
                           int piece, bd_cuda_embed_places *p) {
  BD_FOR_ITEMS(token, count) {
    const int64_t row = ids[token] - row_start;
    bd_cuda_embed_counts c = {};
    for (int64_t part = 0; part * BD_CUDA_EMBED_PART < count; part++) {
      const bd_cuda_embed_counts more = p->of[part][token];
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

template <typename cell>
static __device__ cell *row_of(const bd_cuda_embed_table &t, const bd_cuda_embed_places *p,
                               int64_t place) {
  return (cell *)t.rows + (t.ids[p->token[place]] - t.row_start) * t.c;
}

// A thread adds up some columns of a piece.
template <int dtype, int width, typename number, typename cell>
BD_BODY add_pieces(const bd_cuda_embed_table &t, const number *dout, const bd_cuda_embed_places *p,
                   float *sums) {
  BD_FOR_ITEMS(item, t.count * t.packs.row) {
    int64_t column;
    const int64_t place = bd_cuda_row_of(t.packs, item, &column);
    const int tokens = p->piece[place], alike = p->alike[place];
    if (tokens == 0) continue;
    const bool alone = alike >= -(1 << t.shift) && alike <= 1 << t.shift;
    bd_cuda_floats<width> sum = {};
    if (alone) sum = bd_cuda_load_floats<width>(row_of<cell>(t, p, place) + column * width);
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
      store_row<width>(row_of<cell>(t, p, place) + column * width, sum);
    else
      bd_cuda_store(sum_of(sums, t.c, t.shift, place, alike > 0) + column * width, sum);
  }
}

// Then some columns of a row its pieces.
template <int width, typename cell>
BD_BODY add_sums(const bd_cuda_embed_table &t, const bd_cuda_embed_places *p, float *sums) {
  BD_FOR_ITEMS(item, t.count * t.packs.row) {
    int64_t column;
    const int64_t place = bd_cuda_row_of(t.packs, item, &column);
    const int alike = p->alike[place], pieces = (alike + (1 << t.shift) - 1) >> t.shift;
    if (alike <= 1 << t.shift || p->piece[place] == 0) continue;
    cell *const out = row_of<cell>(t, p, place) + column * width;
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

#define ADD_PIECES(name, width, dtype, number, cell)                                               \
  BD_ENTRY BD_ROOM(4) bd_k_add_pieces_##name(bd_cuda_embed_table t, const number *dout,            \
                                             const bd_cuda_embed_places *p, float *sums) {         \
    add_pieces<dtype, width, number, cell>(t, dout, p, sums);                                      \
  }
#define ADD_SUMS(name, width, cell)                                                                \
  BD_ENTRY BD_ROOM(4)                                                                              \
      bd_k_add_sums_##name(bd_cuda_embed_table t, const bd_cuda_embed_places *p, float *sums) {    \
    add_sums<width, cell>(t, p, sums);                                                             \
  }
ADD_PIECES(packs_f32, BD_CUDA_PACK, BD_RT_F32, float, float)
ADD_PIECES(packs_f16, BD_CUDA_PACK, BD_RT_F16, uint16_t, float)
ADD_PIECES(packs_bf16, BD_CUDA_PACK, BD_RT_BF16, uint16_t, float)
ADD_PIECES(packs_halves, BD_CUDA_PACK, BD_RT_BF16, uint16_t, uint16_t)
ADD_PIECES(f32, 1, BD_RT_F32, float, float)
ADD_PIECES(f16, 1, BD_RT_F16, uint16_t, float)
ADD_PIECES(bf16, 1, BD_RT_BF16, uint16_t, float)
ADD_PIECES(halves, 1, BD_RT_BF16, uint16_t, uint16_t)
ADD_SUMS(packs_f32, BD_CUDA_PACK, float)
ADD_SUMS(packs_halves, BD_CUDA_PACK, uint16_t)
ADD_SUMS(f32, 1, float)
ADD_SUMS(halves, 1, uint16_t)
