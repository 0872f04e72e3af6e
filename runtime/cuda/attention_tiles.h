// Gradients of attention whose gradients of scores exceed the workspace even for one key-value
// head: tiles of queries by keys, each a run of cuDNN, added up in f32 in one order. With rows' lse
// and sums known, a tile's parts of dq, dk and dv do not depend on the other tiles.
#ifndef BD_RT_CUDA_ATTENTION_TILES_H
#define BD_RT_CUDA_ATTENTION_TILES_H
#include "runtime/cuda/attention.h"

// A tile is `rows` queries and as many keys. Under a causal mask tiles on the diagonal have a plan
// of their own, and those above it are left out. Queries with a window, which is at most a key
// longer than `rows`, have one tile, of all keys that they see; `diagonal` is that of the first
// ones, whose windows begin before all keys.
typedef struct bd_cuda_tiles {
  int64_t rows; // 0: there are none
  bd_dnn_plan *full, *diagonal;
} bd_cuda_tiles;

// Plans the tiles of a gradient in a fixed order: of as many rows as divide its queries and keys,
// BD_RT_LEAST_TILE at least, and fit the library segment. Returns whether there are such; else
// `why` says what is lacking.
int bd_cuda_plan_tiles(bd_rt *rt, bd_dnn *dnn, const bd_cuda_attention *shape,
                       bd_cuda_tiles *out_tiles, char *why, size_t why_bytes);
void bd_cuda_free_tiles(bd_cuda_tiles *tiles);

// `at`: the op's buffers by BD_ATTEND_GRAD_*. Of dk and dv, the keys that the library has.
void bd_cuda_run_tiles(bd_rt *rt, const bd_cuda_attention *shape, const bd_cuda_tiles *tiles,
                       char *const *at);
// The same buffers: runs each of the plans once, wherever the op's tiles are.
void bd_cuda_try_tiles(bd_rt *rt, const bd_cuda_attention *shape, const bd_cuda_tiles *tiles,
                       char *const *at);
#endif
