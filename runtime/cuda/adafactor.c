// Cuts matrices into bands for the kernels of adafactor.cu, and starts these.
#include "runtime/cuda/adafactor_host.h"

enum {
  LEAST_ROWS = 8,        // of a tile
  MOST_ROWS = 24,        //
  TILES = 24576,         // that there should be of a matrix
  BAND_PACKS = 1 << 16,  // at most of a row of a band
  BAND_BYTES = 10 << 20, // of the sums of a band
  TILE_THREADS = 64,     // of a block, of which all multiprocessors have as many
};
_Static_assert(sizeof(bd_cuda_groups) + BAND_BYTES <= BD_CUDA_FACTORS_BYTES, "sums have room");
_Static_assert(sizeof(bd_cuda_band_list) <= BD_CUDA_LIST_BYTES, "a launch passes it by value");

// Units of 16 bytes: of tiles' rows, of their columns, and of lanes.
static int64_t row_units(const bd_cuda_band *b) {
  return b->tiles * b->tile_rows * bd_cuda_row_stride(b) / BD_CUDA_PACK;
}
static int64_t column_units(const bd_cuda_band *b) {
  return b->tiles * bd_cuda_column_stride(b) / BD_CUDA_PACK;
}
static int64_t units_of(const bd_cuda_band *b) {
  return row_units(b) + column_units(b) + (int64_t)b->tiles * b->threads;
}

// The tiles of some columns of `rows` rows, and how many rows a band may have at most.
static int64_t cut(bd_cuda_band *b, int64_t rows) {
  b->threads =
      (int32_t)bd_cuda_in_parts(bd_cuda_in_parts(b->columns, BD_CUDA_PACK), BD_CUDA_TILE_PACKS);
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
  bd_cuda_band_list bands;
  bd_cuda_mean_list means;
} factoring;

static void start_tiles(const bd_cuda_queue *queue, bd_cuda_access how,
                        const bd_cuda_band_list *list) {
  const bd_cuda_grid grid = bd_cuda_grid_of(queue, list->tile_items, TILE_THREADS);
  if (how.packs && !how.rounded)
    bd_cuda_start_add_tiles_packs_f32(queue, grid, *list);
  else if (how.packs && !how.narrow)
    bd_cuda_start_add_tiles_packs_mixed(queue, grid, *list);
  else if (how.packs)
    bd_cuda_start_add_tiles_packs_bf16(queue, grid, *list);
  else if (!how.rounded)
    bd_cuda_start_add_tiles_f32(queue, grid, *list);
  else if (!how.narrow)
    bd_cuda_start_add_tiles_mixed(queue, grid, *list);
  else
    bd_cuda_start_add_tiles_bf16(queue, grid, *list);
}

static void start_bands(factoring *all) {
  const bd_cuda_queue *const queue = all->queue;
  bd_cuda_band_list *const list = &all->bands;
  if (list->bands == 0) return;
  start_tiles(queue, all->how, list);
  bd_cuda_start_mix_bands(queue, bd_cuda_over(queue, list->mix_items), *list);
  list->bands = list->tile_items = list->mix_items = 0;
  all->units = sizeof(bd_cuda_groups) / 16;
}

static void put_band(factoring *all, bd_cuda_access how, bd_cuda_band b) {
  bd_cuda_band_list *const list = &all->bands;
  if (list->bands == BD_CUDA_MOST_BANDS || all->units + units_of(&b) > all->most_units ||
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

// Of an average whose mixing is on the device; and that of the weight.
static bd_cuda_mean mean_of(float *at, const bd_rt_mixing *mixing) {
  return (bd_cuda_mean){.at = at, .mixing = mixing};
}
static bd_cuda_mean weight_mean_of(const bd_cuda_factors *of) {
  return (bd_cuda_mean){.at = of->rule->factors.mean + BD_RT_MEAN_WEIGHT, .fixed = of->mixing};
}

static void put_matrix(factoring *all, const bd_cuda_factors *of) {
  const bd_rt_factors *const f = &of->rule->factors;
  bd_cuda_band b = {0};
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
  bd_cuda_put_mean(&all->means, mean_of(f->mean + BD_RT_MEAN_GRADIENT, &of->mixings->gradient));
  bd_cuda_put_mean(&all->means, weight_mean_of(of));
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
  bd_cuda_leave_mean(queue, mean_of(f->row, &of->mixings->row), f->rows);
  bd_cuda_leave_mean(queue, mean_of(f->column, &of->mixings->column), f->columns);
  bd_cuda_leave_mean(queue, mean_of(f->mean + BD_RT_MEAN_GRADIENT, &of->mixings->gradient), 1);
  bd_cuda_leave_mean(queue, weight_mean_of(of), 1);
}

void bd_cuda_add_factors(const bd_cuda_queue *queue, int count, const bd_cuda_factors *of,
                         void *room, int64_t bytes) {
  factoring all = {0};
  all.queue = queue;
  all.units = sizeof(bd_cuda_groups) / 16, all.most_units = bytes / 16;
  all.bands.room = room;
  for (int i = 0; i < count; i++)
    if (of[i].rule->count > 0)
      put_matrix(&all, &of[i]);
    else
      leave_all(queue, &of[i]);
  start_bands(&all);
  bd_cuda_mix_means(queue, &all.means, all.bands.room);
}
