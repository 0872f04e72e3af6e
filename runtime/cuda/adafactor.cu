// Adafactor's sums of squares. A matrix is cut into tiles, of which a thread adds up one in f32:
// its rows, its columns and, in f64, all of it; then tiles are added in f64. How it is cut depends
// on shapes alone.
#include "runtime/cuda/packs.cuh"

enum {
  PACKS = 8,             // of a row of a tile
  LEAST_ROWS = 8,        // of a tile
  MOST_ROWS = 24,        //
  TILES = 49152,         // that should be there for all multiprocessors to be busy
  BAND_PACKS = 1 << 16,  // at most of a band, which is what one launch adds up
  ROW_ROOM = 1 << 20,    // sums of tiles' rows of a band
  COLUMN_ROOM = 5 << 18, // of tiles' columns
  LANES = 1 << 17,       // tiles of a band, and sums of updates
  GROUPS = 512,          // of tiles, which a thread adds up
  TILE_THREADS = 64,     // of a block, of which all multiprocessors have as many
  AHEAD = 4,             // packs that a thread reads before it adds them up
};

typedef struct sums {
  float row[ROW_ROOM], column[COLUMN_ROOM];
  double lane[LANES], group[2 * GROUPS]; // of gradients, and of weights in the second halves
} sums;
static_assert(sizeof(sums) <= BD_CUDA_FACTORS_BYTES, "sums have room");

// Rows and columns of the matrix that one launch adds up.
typedef struct band {
  int64_t first_row, rows, first_column, columns;
  int64_t threads, tile_rows, tiles; // threads of a row; tiles one below another
  int top, left;                     // whether it is the first of its columns, of its rows
} band;

static __device__ int64_t row_stride(const band &b) {
  return (b.threads + BD_CUDA_PACK - 1) / BD_CUDA_PACK * BD_CUDA_PACK;
}
static __device__ int64_t column_stride(const band &b) {
  return (b.columns + BD_CUDA_PACK - 1) / BD_CUDA_PACK * BD_CUDA_PACK;
}

// The matrix, and where its elements are in the model's buffer.
typedef struct matrix {
  const float *gradient, *weight;
  const uint16_t *halves; // the weight, where `weight` is NULL
  bd_cuda_rows rows;
  int64_t columns, first, count;
  float factor;
} matrix;

// What is mixed into: of rows maybe none.
typedef struct averages {
  float *row, *column;
  bd_rt_mixing row_mixing, column_mixing;
} averages;

// Four numbers of a row from element `i` on, of which those at [from, to) of `column` and after are
// there; the others are 0.
template <bool packs, typename number>
static __device__ bd_cuda_floats<BD_CUDA_PACK> read(const number *data, const bd_cuda_rows *rows,
                                                    int64_t i, int column, int from, int to) {
  bd_cuda_floats<BD_CUDA_PACK> out = {};
  if constexpr (packs) {
    if (column < from || column >= to) return out;
    const number *const at = data + (rows ? bd_cuda_place_of(*rows, i) : i);
    if constexpr (sizeof(number) == sizeof(float)) return bd_cuda_load<BD_CUDA_PACK>(at);
    if constexpr (sizeof(number) != sizeof(float)) {
      const bd_cuda_halves<BD_CUDA_PACK> halves = bd_cuda_load<BD_CUDA_PACK>(at);
      for (int e = 0; e < BD_CUDA_PACK; e++)
        out.at[e] = bd_rt_from_bf16(halves.get(e));
    }
  } else {
    for (int e = 0; e < BD_CUDA_PACK; e++) {
      if (column + e < from || column + e >= to) continue;
      const number value = data[rows ? bd_cuda_place_of(*rows, i + e) : i + e];
      if constexpr (sizeof(number) == sizeof(float)) out.at[e] = value;
      if constexpr (sizeof(number) != sizeof(float)) out.at[e] = bd_rt_from_bf16(value);
    }
  }
  return out;
}

static __device__ float sum_of(const float *squares) {
  return (squares[0] + squares[1]) + (squares[2] + squares[3]);
}

// A thread's packs of a row are as far apart as there are threads for the row.
template <bool packs, typename number>
static __global__ void add_tiles(matrix m, const number *weight, band b, sums *out) {
  BD_FOR_ITEMS(item, b.tiles * b.threads) {
    const int64_t tile = item / b.threads, first = tile * b.tile_rows;
    const int64_t end = bd_cuda_least(first + b.tile_rows, b.rows);
    const int thread = (int)(item % b.threads), apart = (int)b.threads * BD_CUDA_PACK;
    float columns[PACKS][BD_CUDA_PACK] = {};
    double gradients = 0, weights = 0;
    BD_ROLLED
    for (int64_t row = first; row < end; row++) {
      const int64_t i = (b.first_row + row) * m.columns + b.first_column - m.first;
      const int from = i < 0 ? (int)bd_cuda_least(-i, b.columns) : 0;
      const int to = i < m.count ? (int)bd_cuda_least(m.count - i, b.columns) : 0;
      bd_cuda_floats<BD_CUDA_PACK> g[PACKS], w[PACKS];
      float row_sum = 0, weight_sum = 0;
      for (int k = 0; k < PACKS; k++) {
        const int column = thread * BD_CUDA_PACK + k * apart;
        g[k] = read<packs>(m.gradient, NULL, i + column, column, from, to);
        w[k] = read<packs>(weight, &m.rows, i + column, column, from, to);
      }
      for (int k = 0; k < PACKS; k++) {
        for (int e = 0; e < BD_CUDA_PACK; e++) {
          const float gradient = g[k].at[e] * m.factor;
          g[k].at[e] = gradient * gradient;
          w[k].at[e] *= w[k].at[e];
          columns[k][e] += g[k].at[e];
        }
        row_sum += sum_of(g[k].at);
        weight_sum += sum_of(w[k].at);
      }
      out->row[row * row_stride(b) + thread] = row_sum;
      gradients += (double)row_sum;
      weights += (double)weight_sum;
    }
    for (int k = 0; k < PACKS; k++) {
      const int column = thread * BD_CUDA_PACK + k * apart;
      float *const to = out->column + tile * column_stride(b) + column;
      if (column < b.columns)
        *(float4 *)(void *)to = {columns[k][0], columns[k][1], columns[k][2], columns[k][3]};
    }
    out->lane[item] = gradients;
    out->lane[LANES / 2 + item] = weights;
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

static __device__ float mixed(float kept, bd_rt_mixing mixing, double sum) {
  return mixing.keep * kept + mixing.share * (float)sum;
}

static __device__ double group_sum(const double *lanes, int64_t count, int64_t group) {
  return bd_cuda_sum<32>(lanes + group, (count - group + GROUPS - 1) / GROUPS, GROUPS);
}

// The columns of a band, its rows if there are averages, and groups of its tiles. What other bands
// have mixed into an average stays.
static __global__ void BD_ROOM(1) mix_band(band b, sums *s, averages a) {
  bd_rt_mixing row_mixing = a.row_mixing, column_mixing = a.column_mixing;
  if (!b.left) row_mixing.keep = 1;
  if (!b.top) column_mixing.keep = 1;
  const int64_t tiles = b.tiles * b.threads, rows = a.row ? b.rows : 0;
  BD_FOR_ITEMS(item, b.columns + rows + 2 * GROUPS) {
    const int64_t line = item - b.columns, group = line - rows;
    if (item < b.columns) {
      const double sum = bd_cuda_sum<32>(s->column + item, b.tiles, column_stride(b));
      float *const kept = a.column + b.first_column + item;
      *kept = mixed(*kept, column_mixing, sum);
    } else if (line < rows) {
      float *const kept = a.row + b.first_row + line;
      *kept = mixed(*kept, row_mixing, sum_of_row(s->row + line * row_stride(b), b.threads));
    } else {
      const double *const lanes = s->lane + group / GROUPS * (LANES / 2);
      const double sum = group_sum(lanes, tiles, group % GROUPS);
      s->group[group] = b.top && b.left ? sum : s->group[group] + sum;
    }
  }
}

// Nothing is added to what lies outside of [first, end).
static __global__ void mix_nothing(float *kept, int64_t count, int64_t first, int64_t end,
                                   bd_rt_mixing mixing) {
  BD_FOR_ITEMS(i, count) {
    if (i < first || i >= end) kept[i] = mixed(kept[i], mixing, 0);
  }
}

// `far`: how far apart a lane's packs are.
template <bool packs>
static __global__ void add_updates(matrix m, bd_cuda_factoring f, int64_t lanes, bd_cuda_spot far,
                                   sums *out) {
  constexpr int width = packs ? BD_CUDA_PACK : 1;
  const float inverse = bd_cuda_inverse_mean(f);
  const int64_t count = m.count / width;
  BD_FOR_ITEMS(lane, lanes) {
    double sum = 0;
    bd_cuda_spot spot = bd_cuda_spot_of(f, lane * width);
    for (int64_t pack = lane; pack < count; pack += AHEAD * lanes) {
      bd_cuda_floats<width> g[AHEAD], average[AHEAD];
      for (int k = 0; k < AHEAD; k++) {
        g[k] = bd_cuda_load<width>(m.gradient + bd_cuda_least(pack + k * lanes, count - 1) * width);
        average[k] = bd_cuda_averages<width>(f, inverse, bd_cuda_clamp(f, spot));
        bd_cuda_go_on(f, far, &spot);
      }
      for (int k = 0; k < AHEAD; k++) {
        for (int e = 0; e < width; e++) {
          const float update = g[k].at[e] * m.factor * bd_cuda_inverse_root(average[k].at[e]);
          g[k].at[e] = update * update;
        }
        float square = g[k].at[0];
        if constexpr (packs) square = sum_of(g[k].at);
        if (pack + k * lanes < count) sum += (double)square;
      }
    }
    out->lane[lane] = sum;
  }
}

static __global__ void BD_ROOM(1) add_lanes(sums *s, int64_t lanes) {
  BD_FOR_ITEMS(group, GROUPS) s->group[group] = group_sum(s->lane, lanes, group);
}

// One mean or two, which lie side by side.
typedef struct mean_mixings {
  bd_rt_mixing of[2];
} mean_mixings;

static __global__ void BD_ROOM(1)
    mix_means(const double *groups, mean_mixings mixings, int count, float *means) {
  BD_FOR_ITEMS(i, count)
  means[i] = mixed(means[i], mixings.of[i], bd_cuda_sum<64>(groups + i * GROUPS, GROUPS, 1));
}

// A vector is a row, without an average.
static matrix matrix_of(const bd_rt_rule *u) {
  const bd_rt_factors *const f = &u->factors;
  const bool apart = u->weight && u->halves; // a master, whose elements follow one another
  return {u->gradient,
          u->weight,
          u->weight ? NULL : u->halves,
          bd_cuda_rows_of(apart ? 0 : u->row, u->stride),
          f->column ? f->columns : f->rows,
          f->first,
          u->count,
          u->factor};
}

static bool comes_in_packs(const matrix *m) {
  return m->columns % BD_CUDA_PACK == 0 && m->first % BD_CUDA_PACK == 0 &&
         m->count % BD_CUDA_PACK == 0 && bd_cuda_rows_fit(m->rows) &&
         bd_cuda_fits(m->gradient, sizeof(float)) && bd_cuda_fits(m->weight, sizeof(float)) &&
         bd_cuda_fits(m->halves, sizeof(uint16_t));
}

static int64_t in_parts(int64_t count, int64_t most) {
  return (count + most - 1) / most;
}

// The tiles of some columns of `rows` rows, and how many rows a band may have at most.
static int64_t cut(band *b, int64_t rows) {
  const int64_t packs = in_parts(b->columns, BD_CUDA_PACK);
  b->threads = in_parts(packs, PACKS);
  b->tile_rows = in_parts(rows * b->threads, TILES);
  if (b->tile_rows < LEAST_ROWS) b->tile_rows = LEAST_ROWS;
  if (b->tile_rows > MOST_ROWS) b->tile_rows = MOST_ROWS;
  const int64_t stride = in_parts(b->threads, BD_CUDA_PACK) * BD_CUDA_PACK;
  int64_t tiles = ROW_ROOM / stride / b->tile_rows;
  tiles = bd_rt_least(tiles, COLUMN_ROOM / (packs * BD_CUDA_PACK));
  tiles = bd_rt_least(tiles, LANES / 2 / b->threads);
  const int64_t bands = in_parts(rows, tiles * b->tile_rows);
  return in_parts(in_parts(rows, bands), b->tile_rows) * b->tile_rows;
}

template <bool packs, typename number>
static void add_band(const bd_cuda_queue *queue, const matrix *m, const number *weight,
                     const band *b, sums *s) {
  BD_LAUNCH((add_tiles<packs, number>), blocks_of(queue, b->tiles * b->threads, TILE_THREADS),
            TILE_THREADS, queue->stream, *m, weight, *b, s);
}

static void add_matrix(const bd_cuda_queue *queue, const matrix *m, const averages *a, sums *s) {
  const int64_t first = m->first / m->columns, end = in_parts(m->first + m->count, m->columns);
  const bool packs = comes_in_packs(m);
  band b = {};
  for (; b.first_column < m->columns; b.first_column += b.columns) {
    b.left = b.first_column == 0;
    b.columns = bd_rt_least(m->columns - b.first_column, BAND_PACKS * BD_CUDA_PACK);
    const int64_t most = cut(&b, end - first);
    for (b.first_row = first; b.first_row < end; b.first_row += b.rows) {
      b.top = b.first_row == first;
      b.rows = bd_rt_least(end - b.first_row, most);
      b.tiles = in_parts(b.rows, b.tile_rows);
      if (packs && m->weight)
        add_band<true>(queue, m, m->weight, &b, s);
      else if (packs)
        add_band<true>(queue, m, m->halves, &b, s);
      else if (m->weight)
        add_band<false>(queue, m, m->weight, &b, s);
      else
        add_band<false>(queue, m, m->halves, &b, s);
      BD_LAUNCH(mix_band, blocks_of(queue, b.columns + b.rows + 2 * GROUPS), BD_CUDA_THREADS,
                queue->stream, b, s, *a);
    }
  }
}

static void leave(const bd_cuda_queue *queue, float *kept, int64_t count, int64_t first,
                  int64_t end, bd_rt_mixing mixing) {
  if (kept && end - first < count)
    BD_LAUNCH(mix_nothing, blocks_of(queue, count), BD_CUDA_THREADS, queue->stream, kept, count,
              first, end, mixing);
}

static_assert(BD_RT_MEAN_WEIGHT == BD_RT_MEAN_GRADIENT + 1, "they are mixed together");

void bd_cuda_add_factors(const bd_cuda_queue *queue, const bd_rt_rule *rule,
                         const bd_rt_mixings *mixings, void *room) {
  const bd_rt_factors *const f = &rule->factors;
  const matrix m = matrix_of(rule);
  sums *const s = (sums *)room;
  const averages a = f->column ? averages{f->row, f->column, mixings->row, mixings->column}
                               : averages{NULL, f->row, {}, mixings->row};
  if (m.count > 0) {
    const int64_t end = in_parts(m.first + m.count, m.columns);
    leave(queue, a.row, f->rows, m.first / m.columns, end, a.row_mixing);
    add_matrix(queue, &m, &a, s);
    BD_LAUNCH(mix_means, 1, 2, queue->stream, s->group,
              (mean_mixings{{mixings->gradient, mixings->weight}}), 2,
              f->mean + BD_RT_MEAN_GRADIENT);
    return;
  }
  leave(queue, a.row, f->rows, 0, 0, a.row_mixing);
  leave(queue, a.column, m.columns, 0, 0, a.column_mixing);
  leave(queue, f->mean + BD_RT_MEAN_GRADIENT, 1, 0, 0, mixings->gradient);
  leave(queue, f->mean + BD_RT_MEAN_WEIGHT, 1, 0, 0, mixings->weight);
}

void bd_cuda_add_updates(const bd_cuda_queue *queue, const bd_rt_rule *rule, bd_rt_mixing mixing,
                         void *room) {
  const matrix m = matrix_of(rule);
  const bd_cuda_factoring f = bd_cuda_factoring_of(&rule->factors);
  float *const mean = rule->factors.mean + BD_RT_MEAN_UPDATE;
  sums *const s = (sums *)room;
  const bool packs = comes_in_packs(&m) && bd_cuda_factoring_fits(f);
  const int64_t lanes = bd_rt_least(LANES, in_parts(m.count, packs ? BD_CUDA_PACK : 1));
  if (m.count == 0) {
    leave(queue, mean, 1, 0, 0, mixing);
    return;
  }
  const int64_t apart = lanes * (packs ? BD_CUDA_PACK : 1);
  const bd_cuda_spot far = {(int32_t)(apart / m.columns), (int32_t)(apart % m.columns)};
  if (packs)
    BD_LAUNCH(add_updates<true>, blocks_of(queue, lanes), BD_CUDA_THREADS, queue->stream, m, f,
              lanes, far, s);
  else
    BD_LAUNCH(add_updates<false>, blocks_of(queue, lanes), BD_CUDA_THREADS, queue->stream, m, f,
              lanes, far, s);
  BD_LAUNCH(add_lanes, GROUPS / 32, 32, queue->stream, s, lanes);
  BD_LAUNCH(mix_means, 1, 1, queue->stream, s->group, (mean_mixings{{mixing}}), 1, mean);
}
