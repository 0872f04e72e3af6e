// What a launch of updates takes: a list of weights' parts. Kernels of Adafactor have parts that
// begin with a bd_cuda_factoring; all go on with a bd_cuda_rule_part, and those of weights without
// masters end with a bd_cuda_rounding.
#ifndef BD_RT_CUDA_UPDATE_H
#define BD_RT_CUDA_UPDATE_H
#include "runtime/cuda/factoring.h"
#include "runtime/cuda/limits.h"
#include "runtime/rounding.h"

enum {
  BD_CUDA_CHUNK = 2 * BD_CUDA_THREADS * BD_CUDA_PACK, // elements, a block's at once
  BD_CUDA_ROUND_THREADS = 128, // of a block: what has registers left takes half of one of 256
  BD_CUDA_ROUND_TILES = 4,     // of draws, a thread's at once
};

// What differs from step to step, on the device.
typedef struct bd_cuda_pace { // of a rule
  float factor, rate, shrink, correction2;
  uint64_t step; // of its draws
} bd_cuda_pace;

typedef struct bd_cuda_rule_part {
  float *weight, *first, *second;
  uint16_t *halves;
  const void *gradient; // f32, or bf16
  const bd_cuda_pace *pace;
  int64_t count, chunk; // the first of its chunks
  bd_cuda_rows rows;
  float decay, beta1, beta2, eps;
  int32_t half_dtype, packs;
} bd_cuda_rule_part;
// Element -before begins a tile of draws, if they come in tiles. `across`: tiles in a row of
// averages, or 1 where these do not begin with tiles.
typedef struct bd_cuda_rounding {
  int64_t before, across;
  bd_rt_draws draws;
} bd_cuda_rounding;

typedef struct bd_cuda_rule_list {
  int64_t parts, chunks;
  int64_t of[BD_CUDA_LIST_BYTES / 8 - 2]; // as many parts as there is room for
} bd_cuda_rule_list;
#endif
