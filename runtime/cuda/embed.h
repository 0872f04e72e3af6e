// What the gradient of an embedding takes.
#ifndef BD_RT_CUDA_EMBED_H
#define BD_RT_CUDA_EMBED_H
#include "runtime/cuda/limits.h"
#include "runtime/cuda/packs.h"

enum {
  BD_CUDA_EMBED_PART = 1024, // tokens that a thread compares one with
  BD_CUDA_EMBED_PARTS = (BD_CUDA_EMBED_TOKENS + BD_CUDA_EMBED_PART - 1) / BD_CUDA_EMBED_PART,
};

// Of one token: tokens with a lesser id, with its own, and of those the ones before it.
typedef struct bd_cuda_embed_counts {
  int32_t less, alike, before;
} bd_cuda_embed_counts;

// The tokens by their ids, those of one id in ascending order.
typedef struct bd_cuda_embed_places {
  bd_cuda_embed_counts of[BD_CUDA_EMBED_PARTS][BD_CUDA_EMBED_TOKENS];
  int32_t token[BD_CUDA_EMBED_TOKENS];
  int32_t piece[BD_CUDA_EMBED_TOKENS]; // tokens of the piece that begins here; of rows elsewhere 0
  int32_t alike[BD_CUDA_EMBED_TOKENS]; // tokens with this id; negative where it is not their first
} bd_cuda_embed_places;

// What pieces are added up from, and to.
typedef struct bd_cuda_embed_table {
  const int32_t *ids;
  int64_t count, c, row_start;
  bd_cuda_rows packs; // of a row
  int shift;          // 2^shift tokens are a piece
  void *rows;         // f32, or bf16
} bd_cuda_embed_table;
#endif
