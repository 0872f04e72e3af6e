// The device's own kernels, started from C. Each walks its items by grid stride, waits for no other
// thread, and gives the same bits under any grid.
#ifndef BD_RT_CUDA_KERNELS_H
#define BD_RT_CUDA_KERNELS_H
#include "runtime/backend.h"
#include "runtime/cuda/arguments.h"

#include <cuda_runtime_api.h>

// The kernels as they are loaded. Ends the job where they cannot be.
typedef struct bd_cuda_code bd_cuda_code;
bd_cuda_code *bd_cuda_open_code(void);
void bd_cuda_close_code(bd_cuda_code *code);
// A kernel of a library, its code on the device. Left to itself the driver loads code when a kernel
// is first started, and that may wait for all that the device does: in a step for messages and
// collectives that have begun. Ends the job where there is no such kernel.
void bd_cuda_get_kernel(cudaLibrary_t library, const char *name, cudaKernel_t *out_kernel);

typedef struct bd_cuda_queue {
  cudaStream_t stream;
  int most_blocks; // of one launch
  bd_cuda_code *code;
} bd_cuda_queue;

// update.c: rules of weights that have no memory in common, each with its pace. The rules' own
// numbers of bd_cuda_pace are not looked at.
void bd_cuda_apply(const bd_cuda_queue *queue, int count, const bd_rt_rule *const *rules,
                   const bd_cuda_pace *const *paces);

// optimizer.c. `partials` holds BD_CUDA_SQUARE_LANES + BD_RT_MOST_SQUARES * BD_CUDA_SQUARE_GROUPS
// doubles; sums of squares may go to pinned host memory.
void bd_cuda_narrow(const bd_cuda_queue *queue, int dtype, const float *wide, uint16_t *halves,
                    int64_t count);
void bd_cuda_add(const bd_cuda_queue *queue, float *sum, const float *more, int64_t count);
void bd_cuda_square_sums(const bd_cuda_queue *queue, int tensors, const bd_rt_squares *squares,
                         double *partials);
void bd_cuda_add_loss(const bd_cuda_queue *queue, double *sum, const float *loss);
void bd_cuda_set(const bd_cuda_queue *queue, float *out, float value);

// tiles.c. sum += tile, or sum = tile where it is the first, of `count` halves, a multiple of
// BD_CUDA_PACK.
void bd_cuda_add_tile(const bd_cuda_queue *queue, int dtype, int first, const uint16_t *tile,
                      float *sum, int64_t count);
// Packed sums of heads, rounded to the rows of a tensor.
void bd_cuda_round_head_rows(const bd_cuda_queue *queue, const bd_cuda_head_rows *rows,
                             const float *sum, uint16_t *out);
// out and lse of attention without sinks become those of attention with them, one for each of the
// heads.
void bd_cuda_add_sinks(const bd_cuda_queue *queue, const bd_cuda_sinks *shape,
                       const uint16_t *sinks, uint16_t *out, float *lse);

// adafactor.c, adafactor_updates.c: see bd_rt_add_factors and bd_rt_add_updates, of rules that
// have no memory in common. `mixings` is device memory: what differs from step to step, so the
// rules' factors are not looked at. `mixing`: of their weights' squares, or of their updates'.
// `room`, of BD_CUDA_FACTORS_BYTES or more, begins at a multiple of 16; the bits do not depend on
// its size.
typedef struct bd_cuda_factors {
  const bd_rt_rule *rule;
  const bd_cuda_mixings *mixings;
  bd_rt_mixing mixing;
} bd_cuda_factors;
void bd_cuda_add_factors(const bd_cuda_queue *queue, int count, const bd_cuda_factors *of,
                         void *room, int64_t bytes);
void bd_cuda_add_updates(const bd_cuda_queue *queue, int count, const bd_cuda_factors *of,
                         void *room, int64_t bytes);

// parts.c. Elements [from, from + count) of the blocks of peers first, first + 1, ... first + peers
// - 1, at `count` elements distance in `blocks`; elements that no rank holds are 0 in blocks and
// nowhere in the buffer. `size`: bytes of an element, 2 or 4.
void bd_cuda_pack(const bd_cuda_queue *queue, const bd_cuda_cut *cut, int size, int first,
                  int peers, int64_t from, int64_t count, const void *buffer, void *blocks);
void bd_cuda_unpack(const bd_cuda_queue *queue, const bd_cuda_cut *cut, int size, int first,
                    int peers, int64_t from, int64_t count, const void *blocks, void *buffer);
// out = the log-sum-exp of `parts` vectors that lie `count` apart, in ascending order.
void bd_cuda_combine_lse(const bd_cuda_queue *queue, int parts, int64_t count, const float *in,
                         float *out);

// weights.c: see bd_rt_place, bd_rt_pick, bd_rt_window and bd_rt_clear_padding. `values` is device
// memory. `size`: bytes of an element, 2 or 4.
void bd_cuda_place(const bd_cuda_queue *queue, const bd_rt_weight *weight, const bd_rt_local *local,
                   int64_t first, int64_t count, const float *values, int dtype, void *buffer);
void bd_cuda_pick(const bd_cuda_queue *queue, const bd_rt_weight *weight, const bd_rt_local *local,
                  int64_t first, int64_t count, int dtype, const void *buffer, float *values);
void bd_cuda_window(const bd_cuda_queue *queue, const bd_rt_local *local, int64_t first,
                    int64_t count, int size, void *values, void *buffer, int store);
void bd_cuda_clear_padding(const bd_cuda_queue *queue, const bd_rt_local *local, int size,
                           void *buffer);
void bd_cuda_fill(const bd_cuda_queue *queue, const bd_rt_weight *weight, const bd_rt_local *local,
                  uint64_t seed, int dtype, void *buffer);
// sum += more, each sum rounded to the nearest half of `dtype`.
void bd_cuda_add_halves(const bd_cuda_queue *queue, int dtype, uint16_t *sum, const uint16_t *more,
                        int64_t count);

// float8.c. The factor row by row in 8 bits, times scales[0]; scales[BD_CUDA_F8_INVERSE] becomes 1
// / scales[0], and the next factor's may begin behind BD_CUDA_F8_SCALES: cublasLt reads inverses at
// multiples of 16 bytes alone. `room` holds BD_CUDA_F8_ROOM numbers.
enum { BD_CUDA_F8_INVERSE = 4, BD_CUDA_F8_SCALES = 8 };
void bd_cuda_round_f8(const bd_cuda_queue *queue, const bd_cuda_factor *factor, uint32_t *room,
                      float *scales, void *out);

// kept.c: `from` may be changed at once.
void bd_cuda_put(const bd_cuda_queue *queue, const bd_cuda_kept *from, int count, bd_cuda_kept *to);

// embed.c, of at most BD_CUDA_EMBED_TOKENS tokens at once, each of which is compared with all.
// `room`, of BD_CUDA_EMBED_BYTES, begins at a multiple of 16.
void bd_cuda_embed_dw(const bd_cuda_queue *queue, int dtype, const int32_t *ids, const void *dout,
                      int64_t count, int64_t c, int64_t row_start, int64_t rows, int table_dtype,
                      void *dtable, void *room);

// conv.c and maxpool.c: see bd_rt_convolve, bd_rt_maxpool and their gradients.
void bd_cuda_conv(const bd_cuda_queue *queue, const bd_rt_conv *s, const void *x, const void *w,
                  void *y);
void bd_cuda_conv_dx(const bd_cuda_queue *queue, const bd_rt_conv *s, const void *dy, const void *w,
                     void *dx);
void bd_cuda_conv_dw(const bd_cuda_queue *queue, const bd_rt_conv *s, const void *x, const void *dy,
                     int accumulate, void *dw);
// Filters [o, k.., c / groups] of `dtype` become, or with `accumulate` are added to, dw.
void bd_cuda_place_filters(const bd_cuda_queue *queue, const bd_rt_conv *s, int dtype,
                           const void *filters, int accumulate, void *dw);
void bd_cuda_maxpool(const bd_cuda_queue *queue, const bd_rt_conv *s, const void *x, void *y);
void bd_cuda_maxpool_grad(const bd_cuda_queue *queue, const bd_rt_conv *s, const void *x,
                          const void *dy, void *dx);
#endif
