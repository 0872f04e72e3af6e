// Adafactor's sums of squares. A matrix is cut into tiles, of which a thread adds up one in f32:
// its rows, its columns and, in f64, all of it; then tiles are added in f64. How it is cut depends
// on shapes alone; a launch adds up as many matrices as its room holds the sums of.
#include "runtime/cuda/adafactor.cuh"

enum {
  PACKS = 8,             // of a row of a tile
  LEAST_ROWS = 8,        // of a tile
  MOST_ROWS = 24,        //
  TILES = 24576,         // that there should be of a matrix
  BAND_PACKS = 1 << 16,  // at most of a row of a band
  BAND_BYTES = 10 << 20, // of the sums of a band
  TILE_THREADS = 64,     // of a block, of which all multiprocessors have as many
  MOST_BANDS = 16,       // of a launch
};
static_assert(sizeof(bd_cuda_groups) + BAND_BYTES <= BD_CUDA_FACTORS_BYTES, "sums have room");

// Rows and columns of the matrix that are added up at once, and the averages: of rows maybe none.
typedef struct band {
  bd_cuda_matrix of;
  float *row, *column;
  const bd_cuda_mixings *mixings;
  int64_t all_rows, end;   // of the matrix, where its elements end
  int64_t tile_at, mix_at; // its first items
  int64_t first_row, rows, first_column;
  int32_t columns, threads, tile_rows, tiles; // threads of a row; tiles one below another
  int32_t row_at, column_at, lane_at;         // in the room, in units of 16 bytes
  int16_t top, left;                          // whether it is the first of its columns, of its rows
  int16_t same;   // bands from this one on that have its columns, or 0 if one before counts it
  int16_t weight; // whose groups
} band;

static __host__ __device__ int64_t row_stride(const band &b) {
  return (b.threads + BD_CUDA_PACK - 1) / BD_CUDA_PACK * BD_CUDA_PACK;
}
static __host__ __device__ int64_t column_stride(const band &b) {
  return (b.columns + BD_CUDA_PACK - 1) / BD_CUDA_PACK * BD_CUDA_PACK;
}

typedef struct band_list {
  int64_t bands, tile_items, mix_items;
  char *room;
  band of[MOST_BANDS];
} band_list;
static_assert(sizeof(band_list) <= 4096, "a launch passes it by value");

template <typename number> static __device__ number *room_at(const band_list &list, int32_t at) {
  return (number *)(void *)(list.room + (int64_t)at * 16);
}

// The last band that begins at the item or before.
template <int64_t band::*start> static __device__ int band_of(const band_list &list, int64_t item) {
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
  float columns[PACKS][BD_CUDA_PACK];
  double gradients, weights;
} tile_sums;

// Adds up a row; returns its sum.
static __device__ float add_row(float factor, bd_cuda_floats<BD_CUDA_PACK> *g,
                                bd_cuda_floats<BD_CUDA_PACK> *w, tile_sums *to) {
  float row_sum = 0, weight_sum = 0;
  for (int k = 0; k < PACKS; k++) {
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
static __device__ bool is_whole(const band &b, int64_t first, int64_t end, int thread) {
  const bd_cuda_matrix &m = b.of;
  const int64_t start = (b.first_row + first) * m.columns + b.first_column - m.first;
  const int64_t last = (b.first_row + end - 1) * m.columns + b.first_column - m.first + b.columns;
  const int reach = ((PACKS - 1) * b.threads + thread + 1) * BD_CUDA_PACK;
  return start >= 0 && last <= m.count && reach <= b.columns && !m.rows.row;
}

// Nothing is asked on the way, so that a row is read while others are added up.
template <typename of_gradient, typename of_weight>
static __device__ void add_whole_rows(const band &b, float factor, int64_t first, int64_t end,
                                      int thread, float *row_sums, tile_sums *to) {
  const bd_cuda_matrix &m = b.of;
  const int64_t columns = m.columns, stride = row_stride(b);
  const int64_t start = (b.first_row + first) * columns + b.first_column - m.first;
  const of_gradient *gradient = (const of_gradient *)m.gradient + start + thread * BD_CUDA_PACK;
  const of_weight *weight = (const of_weight *)m.weight + start + thread * BD_CUDA_PACK;
  const int apart = b.threads * BD_CUDA_PACK;
  row_sums += first * stride + thread;
  BD_ROLLED
  for (int rows = (int)(end - first); rows > 0; rows--) {
    bd_cuda_floats<BD_CUDA_PACK> g[PACKS], w[PACKS];
    for (int k = 0; k < PACKS; k++) {
      g[k] = bd_cuda_load_floats<BD_CUDA_PACK>(gradient + k * apart);
      w[k] = bd_cuda_load_floats<BD_CUDA_PACK>(weight + k * apart);
    }
    *row_sums = add_row(factor, g, w, to);
    gradient += columns, weight += columns, row_sums += stride;
  }
}

template <bool packs, typename of_gradient, typename of_weight>
static __device__ void add_rows(const band &b, float factor, int64_t first, int64_t end, int thread,
                                float *row_sums, tile_sums *to) {
  const bd_cuda_matrix &m = b.of;
  const of_gradient *const gradient = (const of_gradient *)m.gradient;
  const of_weight *const weight = (const of_weight *)m.weight;
  const int apart = b.threads * BD_CUDA_PACK;
  BD_ROLLED
  for (int64_t row = first; row < end; row++) {
    const int64_t i = (b.first_row + row) * m.columns + b.first_column - m.first;
    const int from = i < 0 ? (int)bd_cuda_least(-i, b.columns) : 0;
    const int until = i < m.count ? (int)bd_cuda_least(m.count - i, b.columns) : 0;
    bd_cuda_floats<BD_CUDA_PACK> g[PACKS], w[PACKS];
    for (int k = 0; k < PACKS; k++) {
      const int column = thread * BD_CUDA_PACK + k * apart;
      g[k] = read<packs>(gradient, NULL, i + column, column, from, until);
      w[k] = read<packs>(weight, &m.rows, i + column, column, from, until);
    }
    row_sums[row * row_stride(b) + thread] = add_row(factor, g, w, to);
  }
}

template <bool packs, typename of_gradient, typename of_weight>
static __global__ void add_tiles(band_list list) {
  BD_FOR_ITEMS(place, list.tile_items) {
    const band &b = list.of[band_of<&band::tile_at>(list, place)];
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
    for (int k = 0; k < PACKS; k++) {
      const int column = thread * BD_CUDA_PACK + k * apart;
      const float *const c = sums.columns[k];
      float *const to = room_at<float>(list, b.column_at) + tile * column_stride(b) + column;
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
static __device__ void mix_column(const band_list &list, int at, int64_t column) {
  const band &b = list.of[at];
  const bd_rt_mixing mixing = b.row ? b.mixings->column : b.mixings->row;
  float *const kept = b.column + b.first_column + column;
  float now = *kept;
  for (int k = at; k < at + b.same; k++) {
    const band &part = list.of[k];
    const float *const sums = room_at<float>(list, part.column_at) + column;
    const bd_rt_mixing mixed_by = {part.top ? mixing.keep : 1, mixing.share};
    now = bd_cuda_mixed(now, mixed_by, bd_cuda_sum<32>(sums, part.tiles, column_stride(part)));
  }
  *kept = now;
}

// Nothing is added to rows of the matrix that have no elements here.
static __device__ void mix_row(const band_list &list, const band &b, int64_t row) {
  bd_rt_mixing mixing = b.mixings->row;
  float *const kept = b.row + row;
  const int64_t line = row - b.first_row;
  if (line >= 0 && line < b.rows) {
    const float *const sums = room_at<float>(list, b.row_at) + line * row_stride(b);
    if (!b.left) mixing.keep = 1;
    *kept = bd_cuda_mixed(*kept, mixing, sum_of_row(sums, b.threads));
  } else if (line < 0 || row >= b.end) {
    *kept = bd_cuda_mixed(*kept, mixing, 0);
  }
}

// A group of tiles.
static __device__ void add_group(const band_list &list, int at, int64_t group) {
  const band &b = list.of[at];
  const int64_t which = group / BD_CUDA_GROUPS, number = group % BD_CUDA_GROUPS;
  double *const kept = &((bd_cuda_groups *)list.room)->of[2 * b.weight + which][number];
  double now = b.top && b.left ? 0 : *kept;
  for (int k = at; k < at + b.same; k++) {
    const band &part = list.of[k];
    const int64_t tiles = (int64_t)part.tiles * part.threads;
    now += bd_cuda_group_sum(room_at<double>(list, part.lane_at) + which * tiles, tiles, number);
  }
  *kept = now;
}

static __global__ void BD_ROOM(1) mix_bands(band_list list) {
  BD_FOR_ITEMS(place, list.mix_items) {
    const int at = band_of<&band::mix_at>(list, place);
    const band &b = list.of[at];
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

// Units of 16 bytes: of tiles' rows, of their columns, and of lanes.
static int64_t row_units(const band *b) {
  return b->tiles * b->tile_rows * row_stride(*b) / BD_CUDA_PACK;
}
static int64_t column_units(const band *b) {
  return b->tiles * column_stride(*b) / BD_CUDA_PACK;
}
static int64_t units_of(const band *b) {
  return row_units(b) + column_units(b) + (int64_t)b->tiles * b->threads;
}

// The tiles of some columns of `rows` rows, and how many rows a band may have at most.
static int64_t cut(band *b, int64_t rows) {
  b->threads = (int32_t)bd_cuda_in_parts(bd_cuda_in_parts(b->columns, BD_CUDA_PACK), PACKS);
  int64_t tile_rows = bd_cuda_in_parts(rows * b->threads, TILES);
  if (tile_rows < LEAST_ROWS) tile_rows = LEAST_ROWS;
  b->tile_rows = (int32_t)bd_rt_least(tile_rows, MOST_ROWS);
  b->tiles = 1;
  const int64_t tiles = BAND_BYTES / 16 / units_of(b);
  const int64_t bands = bd_cuda_in_parts(rows, tiles * b->tile_rows);
  return bd_cuda_padded(bd_cuda_in_parts(rows, bands), b->tile_rows);
}

// What is waiting to be started together.
typedef struct factoring {
  const bd_cuda_queue *queue;
  int64_t units, most_units; // of the room
  bd_cuda_access how;        // of all bands
  band_list bands;
  bd_cuda_mean_list means;
} factoring;

template <bool packs, typename of_gradient, typename of_weight>
static void start_tiles(const bd_cuda_queue *queue, const band_list *list) {
  BD_LAUNCH((add_tiles<packs, of_gradient, of_weight>),
            blocks_of(queue, list->tile_items, TILE_THREADS), TILE_THREADS, queue->stream, *list);
}

template <bool packs> static void start_tiles_of(const factoring *all) {
  const bd_cuda_access &r = all->how;
  if (!r.rounded)
    start_tiles<packs, float, float>(all->queue, &all->bands);
  else if (!r.narrow)
    start_tiles<packs, float, uint16_t>(all->queue, &all->bands);
  else
    start_tiles<packs, uint16_t, uint16_t>(all->queue, &all->bands);
}

static void start_bands(factoring *all) {
  const bd_cuda_queue *const queue = all->queue;
  band_list *const list = &all->bands;
  if (list->bands == 0) return;
  if (all->how.packs)
    start_tiles_of<true>(all);
  else
    start_tiles_of<false>(all);
  BD_LAUNCH(mix_bands, blocks_of(queue, list->mix_items), BD_CUDA_THREADS, queue->stream, *list);
  list->bands = list->tile_items = list->mix_items = 0;
  all->units = sizeof(bd_cuda_groups) / 16;
}

static void put_band(factoring *all, const bd_cuda_access &how, band b) {
  band_list *const list = &all->bands;
  if (list->bands == MOST_BANDS || all->units + units_of(&b) > all->most_units ||
      !bd_cuda_reads_alike(all->how, how) || (b.top && !b.left))
    start_bands(all);
  all->how = how;
  b.row_at = (int32_t)all->units;
  b.column_at = (int32_t)(b.row_at + row_units(&b));
  b.lane_at = (int32_t)(b.column_at + column_units(&b));
  all->units += units_of(&b);
  b.tile_at = list->tile_items, b.mix_at = list->mix_items;
  int64_t first = list->bands; // that has its columns
  while (!b.top && first > 0 && !list->of[--first].same)
    ;
  if (first == list->bands) list->mix_items += b.columns + 2 * BD_CUDA_GROUPS;
  if (b.row) list->mix_items += b.top && b.left ? b.all_rows : b.rows;
  list->tile_items += bd_cuda_padded((int64_t)b.tiles * b.threads, TILE_THREADS);
  list->of[list->bands++] = b;
  list->of[first].same++;
}

static void put_matrix(factoring *all, const bd_cuda_factors *of) {
  const bd_rt_factors *const f = &of->rule->factors;
  band b = {};
  b.of = bd_cuda_matrix_of(of->rule);
  const bd_cuda_access how = bd_cuda_access_of(of->rule, &b.of);
  b.row = f->column ? f->row : NULL;
  b.column = f->column ? f->column : f->row;
  b.mixings = of->mixings;
  b.all_rows = f->column ? f->rows : 1;
  const int64_t columns = b.of.columns, first = b.of.first / columns;
  b.end = bd_cuda_in_parts(b.of.first + b.of.count, columns);
  if (all->means.means == 2 * BD_CUDA_MOST_FACTORED) {
    start_bands(all);
    bd_cuda_mix_means(all->queue, &all->means, all->bands.room);
  }
  b.weight = (int16_t)(all->means.means / 2);
  bd_cuda_put_mean(&all->means, {f->mean + BD_RT_MEAN_GRADIENT, &of->mixings->gradient, {}});
  bd_cuda_put_mean(&all->means, {f->mean + BD_RT_MEAN_WEIGHT, NULL, of->mixing});
  for (; b.first_column < columns; b.first_column += b.columns) {
    b.left = b.first_column == 0;
    b.columns = (int32_t)bd_rt_least(columns - b.first_column, BAND_PACKS * BD_CUDA_PACK);
    const int64_t most = cut(&b, b.end - first);
    for (b.first_row = first; b.first_row < b.end; b.first_row += b.rows) {
      b.top = b.first_row == first;
      b.rows = bd_rt_least(b.end - b.first_row, most);
      b.tiles = (int32_t)bd_cuda_in_parts(b.rows, b.tile_rows);
      put_band(all, how, b);
    }
  }
}

static void leave_all(const bd_cuda_queue *queue, const bd_cuda_factors *of) {
  const bd_rt_factors *const f = &of->rule->factors;
  bd_cuda_leave_mean(queue, {f->row, &of->mixings->row, {}}, f->rows);
  bd_cuda_leave_mean(queue, {f->column, &of->mixings->column, {}}, f->columns);
  bd_cuda_leave_mean(queue, {f->mean + BD_RT_MEAN_GRADIENT, &of->mixings->gradient, {}}, 1);
  bd_cuda_leave_mean(queue, {f->mean + BD_RT_MEAN_WEIGHT, NULL, of->mixing}, 1);
}

void bd_cuda_add_factors(const bd_cuda_queue *queue, int count, const bd_cuda_factors *of,
                         void *room, int64_t bytes) {
  factoring all = {};
  all.queue = queue;
  all.units = sizeof(bd_cuda_groups) / 16, all.most_units = bytes / 16;
  all.bands.room = (char *)room;
  for (int i = 0; i < count; i++)
    if (of[i].rule->count > 0)
      put_matrix(&all, &of[i]);
    else
      leave_all(queue, &of[i]);
  start_bands(&all);
  bd_cuda_mix_means(queue, &all.means, all.bands.room);
}
