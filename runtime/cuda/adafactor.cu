// Adafactor's sums of squares. A matrix is cut into tiles, of which a thread adds up one in f32:
// its rows, its columns and, in f64, all of it; then tiles are added in f64. How it is cut depends
// on shapes alone; a launch adds up as many matrices as its room holds the sums of.
#include "runtime/cuda/adafactor.cuh"

template <typename number>
static __device__ number *room_at(const bd_cuda_band_list &list, int32_t at) {
  return (number *)(void *)(list.room + (int64_t)at * 16);
}

// The last band that begins at the item or before.
template <int64_t bd_cuda_band::*start>
static __device__ int band_of(const bd_cuda_band_list &list, int64_t item) {
  return bd_cuda_member_of((int)list.bands, item, [&](int i) { return list.of[i].*start; });
}

// Four numbers of a row from element `i` on, of which those at [from, to) of `column` and after are
// there; the others are 0.
template <bool packs, typename number>
static __device__ bd_cuda_floats<BD_CUDA_PACK> read(const number *data, const bd_cuda_rows *rows,
                                                    int64_t i, int column, int from, int to) {
  bd_cuda_floats<BD_CUDA_PACK> out = {};
  if constexpr (packs) {
    if (column < from || column >= to) return out;
    return bd_cuda_load_floats<BD_CUDA_PACK>(data + (rows ? bd_cuda_place_of(*rows, i) : i));
  } else {
    for (int e = 0; e < BD_CUDA_PACK; e++) {
      if (column + e < from || column + e >= to) continue;
      const int64_t at = rows ? bd_cuda_place_of(*rows, i + e) : i + e;
      out.at[e] = bd_cuda_load_floats<1>(data + at).at[0];
    }
  }
  return out;
}

// What a thread has added up of a tile. Its packs of a row are as far apart as there are threads
// for the row.
typedef struct tile_sums {
  float columns[BD_CUDA_TILE_PACKS][BD_CUDA_PACK];
  double gradients, weights;
} tile_sums;

// Adds up a row; returns its sum.
static __device__ float add_row(float factor, bd_cuda_floats<BD_CUDA_PACK> *g,
                                bd_cuda_floats<BD_CUDA_PACK> *w, tile_sums *to) {
  float row_sum = 0, weight_sum = 0;
  for (int k = 0; k < BD_CUDA_TILE_PACKS; k++) {
    for (int e = 0; e < BD_CUDA_PACK; e++) {
      const float gradient = g[k].at[e] * factor;
      g[k].at[e] = gradient * gradient;
      w[k].at[e] *= w[k].at[e];
      to->columns[k][e] += g[k].at[e];
    }
    row_sum += bd_cuda_pack_sum(g[k].at);
    weight_sum += bd_cuda_pack_sum(w[k].at);
  }
  to->gradients += (double)row_sum;
  to->weights += (double)weight_sum;
  return row_sum;
}

// Whether all that a thread has of rows [first, end) is there, and the weight as the gradient.
static __device__ bool is_whole(const bd_cuda_band &b, int64_t first, int64_t end, int thread) {
  const bd_cuda_matrix &m = b.of;
  const int64_t start = (b.first_row + first) * m.columns + b.first_column - m.first;
  const int64_t last = (b.first_row + end - 1) * m.columns + b.first_column - m.first + b.columns;
  const int reach = ((BD_CUDA_TILE_PACKS - 1) * b.threads + thread + 1) * BD_CUDA_PACK;
  return start >= 0 && last <= m.count && reach <= b.columns && !m.rows.row;
}

// Nothing is asked on the way, so that a row is read while others are added up.
template <typename of_gradient, typename of_weight>
static __device__ void add_whole_rows(const bd_cuda_band &b, float factor, int64_t first,
                                      int64_t end, int thread, float *row_sums, tile_sums *to) {
  const bd_cuda_matrix &m = b.of;
  const int64_t columns = m.columns, stride = bd_cuda_row_stride(&b);
  const int64_t start = (b.first_row + first) * columns + b.first_column - m.first;
  const of_gradient *gradient = (const of_gradient *)m.gradient + start + thread * BD_CUDA_PACK;
  const of_weight *weight = (const of_weight *)m.weight + start + thread * BD_CUDA_PACK;
  const int apart = b.threads * BD_CUDA_PACK;
  row_sums += first * stride + thread;
  BD_ROLLED
  for (int rows = (int)(end - first); rows > 0; rows--) {
    bd_cuda_floats<BD_CUDA_PACK> g[BD_CUDA_TILE_PACKS], w[BD_CUDA_TILE_PACKS];
    for (int k = 0; k < BD_CUDA_TILE_PACKS; k++) {
      g[k] = bd_cuda_load_floats<BD_CUDA_PACK>(gradient + k * apart);
      w[k] = bd_cuda_load_floats<BD_CUDA_PACK>(weight + k * apart);
    }
    *row_sums = add_row(factor, g, w, to);
    gradient += columns, weight += columns, row_sums += stride;
  }
}

template <bool packs, typename of_gradient, typename of_weight>
static __device__ void add_rows(const bd_cuda_band &b, float factor, int64_t first, int64_t end,
                                int thread, float *row_sums, tile_sums *to) {
  const bd_cuda_matrix &m = b.of;
  const of_gradient *const gradient = (const of_gradient *)m.gradient;
  const of_weight *const weight = (const of_weight *)m.weight;
  const int apart = b.threads * BD_CUDA_PACK;
  BD_ROLLED
  for (int64_t row = first; row < end; row++) {
    const int64_t i = (b.first_row + row) * m.columns + b.first_column - m.first;
    const int from = i < 0 ? (int)bd_cuda_least(-i, b.columns) : 0;
    const int until = i < m.count ? (int)bd_cuda_least(m.count - i, b.columns) : 0;
    bd_cuda_floats<BD_CUDA_PACK> g[BD_CUDA_TILE_PACKS], w[BD_CUDA_TILE_PACKS];
    for (int k = 0; k < BD_CUDA_TILE_PACKS; k++) {
      const int column = thread * BD_CUDA_PACK + k * apart;
      g[k] = read<packs>(gradient, NULL, i + column, column, from, until);
      w[k] = read<packs>(weight, &m.rows, i + column, column, from, until);
    }
    row_sums[row * bd_cuda_row_stride(&b) + thread] = add_row(factor, g, w, to);
  }
}

template <bool packs, typename of_gradient, typename of_weight>
BD_BODY add_tiles(const bd_cuda_band_list &list) {
  BD_FOR_ITEMS(place, list.tile_items) {
    const bd_cuda_band &b = list.of[band_of<&bd_cuda_band::tile_at>(list, place)];
    const int32_t item = (int32_t)(place - b.tile_at), tile = item / b.threads;
    if (tile >= b.tiles) continue; // a block's items are of one band
    const int64_t first = (int64_t)tile * b.tile_rows;
    const int64_t end = bd_cuda_least(first + b.tile_rows, b.rows);
    const int thread = item % b.threads, apart = b.threads * BD_CUDA_PACK;
    float *const row_sums = room_at<float>(list, b.row_at);
    double *const lanes = room_at<double>(list, b.lane_at);
    tile_sums sums = {};
    if (packs && is_whole(b, first, end, thread))
      add_whole_rows<of_gradient, of_weight>(b, b.mixings->factor, first, end, thread, row_sums,
                                             &sums);
    else
      add_rows<packs, of_gradient, of_weight>(b, b.mixings->factor, first, end, thread, row_sums,
                                              &sums);
    for (int k = 0; k < BD_CUDA_TILE_PACKS; k++) {
      const int column = thread * BD_CUDA_PACK + k * apart;
      const float *const c = sums.columns[k];
      float *const to =
          room_at<float>(list, b.column_at) + tile * bd_cuda_column_stride(&b) + column;
      if (column < b.columns) *(float4 *)(void *)to = {c[0], c[1], c[2], c[3]};
    }
    lanes[item] = sums.gradients;
    lanes[b.tiles * b.threads + item] = sums.weights;
  }
}

// A row's sums, of which four are read as one.
static __device__ double sum_of_row(const float *sums, int64_t count) {
  enum { AT_ONCE = 8 };
  double sum = 0;
  int64_t done = 0;
  for (; done + AT_ONCE * BD_CUDA_PACK <= count; done += AT_ONCE * BD_CUDA_PACK) {
    bd_cuda_floats<BD_CUDA_PACK> next[AT_ONCE];
    for (int k = 0; k < AT_ONCE; k++)
      next[k] = bd_cuda_load<BD_CUDA_PACK>(sums + done + k * BD_CUDA_PACK);
    for (int k = 0; k < AT_ONCE; k++)
      for (int e = 0; e < BD_CUDA_PACK; e++)
        sum += (double)next[k].at[e];
  }
  return sum + bd_cuda_sum<AT_ONCE * BD_CUDA_PACK>(sums + done, count - done, 1);
}

// A column of the matrix: what bands before have mixed into its average stays.
static __device__ void mix_column(const bd_cuda_band_list &list, int at, int64_t column) {
  const bd_cuda_band &b = list.of[at];
  const bd_rt_mixing mixing = b.row ? b.mixings->column : b.mixings->row;
  float *const kept = b.column + b.first_column + column;
  float now = *kept;
  for (int k = at; k < at + b.same; k++) {
    const bd_cuda_band &part = list.of[k];
    const float *const sums = room_at<float>(list, part.column_at) + column;
    const bd_rt_mixing mixed_by = {part.top ? mixing.keep : 1, mixing.share};
    now = bd_cuda_mixed(now, mixed_by,
                        bd_cuda_sum<32>(sums, part.tiles, bd_cuda_column_stride(&part)));
  }
  *kept = now;
}

// Nothing is added to rows of the matrix that have no elements here.
static __device__ void mix_row(const bd_cuda_band_list &list, const bd_cuda_band &b, int64_t row) {
  bd_rt_mixing mixing = b.mixings->row;
  float *const kept = b.row + row;
  const int64_t line = row - b.first_row;
  if (line >= 0 && line < b.rows) {
    const float *const sums = room_at<float>(list, b.row_at) + line * bd_cuda_row_stride(&b);
    if (!b.left) mixing.keep = 1;
    *kept = bd_cuda_mixed(*kept, mixing, sum_of_row(sums, b.threads));
  } else if (line < 0 || row >= b.end) {
    *kept = bd_cuda_mixed(*kept, mixing, 0);
  }
}

// A group of tiles.
static __device__ void add_group(const bd_cuda_band_list &list, int at, int64_t group) {
  const bd_cuda_band &b = list.of[at];
  const int64_t which = group / BD_CUDA_GROUPS, number = group % BD_CUDA_GROUPS;
  double *const kept = &((bd_cuda_groups *)list.room)->of[2 * b.weight + which][number];
  double now = b.top && b.left ? 0 : *kept;
  for (int k = at; k < at + b.same; k++) {
    const bd_cuda_band &part = list.of[k];
    const int64_t tiles = (int64_t)part.tiles * part.threads;
    now += bd_cuda_group_sum(room_at<double>(list, part.lane_at) + which * tiles, tiles, number);
  }
  *kept = now;
}

BD_ENTRY BD_ROOM(1) bd_k_mix_bands(bd_cuda_band_list list) {
  BD_FOR_ITEMS(place, list.mix_items) {
    const int at = band_of<&bd_cuda_band::mix_at>(list, place);
    const bd_cuda_band &b = list.of[at];
    const int64_t item = place - b.mix_at, columns = b.same ? b.columns : 0;
    const int64_t line = item - columns - (b.same ? 2 * BD_CUDA_GROUPS : 0);
    if (item < columns)
      mix_column(list, at, item);
    else if (line < 0)
      add_group(list, at, item - columns);
    else
      mix_row(list, b, line + (b.top && b.left ? 0 : b.first_row));
  }
}

#define ADD_TILES(name, packs, of_gradient, of_weight)                                             \
  BD_ENTRY bd_k_add_tiles_##name(bd_cuda_band_list list) {                                         \
    add_tiles<packs, of_gradient, of_weight>(list);                                                \
  }
ADD_TILES(packs_f32, true, float, float)
ADD_TILES(packs_mixed, true, float, uint16_t)
ADD_TILES(packs_bf16, true, uint16_t, uint16_t)
ADD_TILES(f32, false, float, float)
ADD_TILES(mixed, false, float, uint16_t)
ADD_TILES(bf16, false, uint16_t, uint16_t)
