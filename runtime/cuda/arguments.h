// What the runtime's kernels take, as the host and the device see it; what those of one file alone
// take has a header of its own.
#ifndef BD_RT_CUDA_ARGUMENTS_H
#define BD_RT_CUDA_ARGUMENTS_H
#include "runtime/braid_rt.h"
#include "runtime/cuda/adafactor.h"
#include "runtime/cuda/embed.h"
#include "runtime/cuda/limits.h"
#include "runtime/cuda/maxpool.h"
#include "runtime/cuda/sinks.h"
#include "runtime/cuda/tiles.h"
#include "runtime/cuda/update.h"
#include "runtime/squares.h"

// Words that a kernel reads on the device instead of taking them as an argument, because they
// differ from step to step.
typedef struct bd_cuda_kept {
  int64_t words[4];
} bd_cuda_kept;
enum { BD_CUDA_KEPT_AT_ONCE = 64 };
typedef struct bd_cuda_kept_list {
  bd_cuda_kept of[BD_CUDA_KEPT_AT_ONCE];
} bd_cuda_kept_list;

// Tensors whose squares are summed by one launch. Tensor t has lanes start[t] to start[t + 1] - 1,
// a multiple of BD_CUDA_SQUARE_GROUPS that its count alone decides, and so does the order of its
// sum.
typedef struct bd_cuda_square_list {
  int tensors;
  int64_t start[BD_RT_MOST_SQUARES + 1];
  bd_rt_squares of[BD_RT_MOST_SQUARES];
} bd_cuda_square_list;

// A tensor of five dimensions of which a group of ranks cut one or two. A block is what one rank
// gives another, in row-major order and padded to the same size for all peers; the buffer that it
// is cut from or goes to holds dimension `own` (or none: -1) only in this rank's padded part, and
// of dimension `peers` the part of every peer.
typedef struct bd_cuda_cut {
  int64_t extent[5];
  int own, peers, parts; // parts: ranks of the group
} bd_cuda_cut;

// A factor in bf16 of `rows` sums of `terms`, one of whose strides is 1; `terms` is a multiple of
// BD_RT_F8_GRAIN. Rows are of all matrices of a batch, `each` of one.
typedef struct bd_cuda_factor {
  const uint16_t *data;
  int64_t rows, terms, row_stride, term_stride, each, batch_stride;
  int format;
} bd_cuda_factor;
#endif
