// What Adafactor's two kinds of sums take: of squares of gradients and weights, which are cut into
// bands (adafactor.cu), and of squares of updates (adafactor_updates.cu). Both end in means
// (adafactor_means.cu).
#ifndef BD_RT_CUDA_ADAFACTOR_H
#define BD_RT_CUDA_ADAFACTOR_H
#include "runtime/cuda/factoring.h"
#include "runtime/cuda/limits.h"

enum {
  BD_CUDA_GROUPS = 512,       // of tiles or lanes, which a thread adds up
  BD_CUDA_MOST_FACTORED = 24, // weights whose means are mixed together
  BD_CUDA_MOST_BANDS = 16,    // of a launch
  BD_CUDA_TILE_PACKS = 8,     // of a row of a tile
};

// Words that differ from step to step, on the device.
typedef struct bd_cuda_mixings {
  bd_rt_mixing row, column, gradient;
  float factor;
} bd_cuda_mixings;

// Sums of groups, of gradients and of weights or of updates alone, where the room begins; the rest
// of it is for what they are made of.
typedef struct bd_cuda_groups {
  double of[2 * BD_CUDA_MOST_FACTORED][BD_CUDA_GROUPS];
} bd_cuda_groups;

// An average that a mean is mixed into. `mixing`: on the device, or NULL and there is `fixed`.
typedef struct bd_cuda_mean {
  float *at;
  const bd_rt_mixing *mixing;
  bd_rt_mixing fixed;
} bd_cuda_mean;
typedef struct bd_cuda_mean_list {
  int64_t means;
  bd_cuda_mean of[2 * BD_CUDA_MOST_FACTORED];
} bd_cuda_mean_list;

// A weight's matrix, and where its elements are in the model's buffer.
typedef struct bd_cuda_matrix {
  const void *gradient, *weight; // each f32, or bf16
  bd_cuda_rows rows;
  int64_t columns, first, count;
} bd_cuda_matrix;

// Rows and columns of the matrix that are added up at once, and the averages: of rows maybe none.
typedef struct bd_cuda_band {
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
} bd_cuda_band;
typedef struct bd_cuda_band_list {
  int64_t bands, tile_items, mix_items;
  char *room;
  bd_cuda_band of[BD_CUDA_MOST_BANDS];
} bd_cuda_band_list;

// How far apart sums of a band's rows, and those of its columns, lie in the room.
BD_RT_ANYWHERE int64_t bd_cuda_row_stride(const bd_cuda_band *b) {
  return (b->threads + BD_CUDA_PACK - 1) / BD_CUDA_PACK * BD_CUDA_PACK;
}
BD_RT_ANYWHERE int64_t bd_cuda_column_stride(const bd_cuda_band *b) {
  return (b->columns + BD_CUDA_PACK - 1) / BD_CUDA_PACK * BD_CUDA_PACK;
}

// A weight's updates. `far`: how far apart a lane's packs are, maybe whole rows.
typedef struct bd_cuda_update {
  const void *gradient; // f32, or bf16
  const bd_cuda_mixings *mixings;
  int64_t count, lanes, first_lane;
  bd_cuda_factoring f;
  bd_cuda_spot far;
} bd_cuda_update;
typedef struct bd_cuda_update_list {
  int64_t updates, lanes;
  char *room;
  bd_cuda_update of[BD_CUDA_MOST_FACTORED];
} bd_cuda_update_list;
#endif
