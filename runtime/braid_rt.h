// The header of emitted programs: what stage programs call. Back ends: cpu/ (MPI, OpenBLAS), cuda/
// (CUDA, cuBLASLt, NCCL); what only one of them has says so.
// A stage program is plain C that a person could have written against this file.
// All pointers are into the rank's arena. Nothing here allocates after start. Failures end the job
// with one line on stderr and a status of braid_rt_abi.h.
#ifndef BRAID_RT_H
#define BRAID_RT_H
#include "runtime/braid_rt_abi.h"

// Runs a program: parses arguments (--help lists them), joins the ranks, trains. Returns the exit
// status. Ranks are stage-major: rank = stage * devices + rank in the mesh.
int bd_rt_main(int argc, char **argv, const bd_rt_program *program);

// CPU programs: runs functions, in their order and in this process alone, with the arguments IN
// OUT. The file IN holds their parameters, OUT gets their results. Returns the exit status.
int bd_rt_evaluate_main(int argc, char **argv, int count, const bd_rt_evaluation *evaluations);

char *bd_rt_arena(bd_rt *rt);
int bd_rt_rank(const bd_rt *rt);
int bd_rt_coord(const bd_rt *rt, int axis); // of this rank in its stage's mesh

// First logical element and valid count of this rank's part of an extent split over `axes` (bit
// mask).
void bd_rt_range(const bd_rt *rt, int64_t extent, uint32_t axes, int64_t *start, int64_t *count);

// Randomness of the current step for micro-batch `micro_batch` and forward call `call`.
bd_rt_random bd_rt_random_of(const bd_rt *rt, int64_t micro_batch, int call);
// Writes 1 / (valid targets of the whole step): the gradient of the loss sum; in f16 programs times
// the loss scale.
void bd_rt_loss_gradient(bd_rt *rt, float *out);
// Adds a micro-batch's loss sum (this rank's partial over the mesh axes in `partial`; replicas over
// the others count once).
void bd_rt_add_loss(bd_rt *rt, const float *loss, uint32_t partial);

// Fills a token or target buffer [rows, sequence] of the micro-batch's samples
// `start`..`start+rows`.
void bd_rt_tokens(bd_rt *rt, int64_t micro_batch, int64_t start, int64_t rows, int32_t *out);
void bd_rt_targets(bd_rt *rt, int64_t micro_batch, int64_t start, int64_t rows, int32_t *out);
// The integers of program->ids[input].
void bd_rt_ids(bd_rt *rt, int input, int64_t micro_batch, int64_t start, int64_t rows,
               int32_t *out);
// The real input of models without tokens, [rows, elements] of f32, bf16 or f16.
void bd_rt_reals(bd_rt *rt, int dtype, int64_t micro_batch, int64_t start, int64_t rows,
                 int64_t elements, void *out);

// What is done from here to the next mark is time of this instruction when the run is profiled.
void bd_rt_mark(bd_rt *rt, int instruction);
// A range of the step begins, BD_RT_FORWARD or another, of micro-batch or layer `number`; the last
// one that has begun ends.
void bd_rt_begin(bd_rt *rt, int what, int64_t number);
void bd_rt_end(bd_rt *rt);

// CPU programs: runs body(args, chunk) for chunk in [0, chunks) on the rank's threads; order is
// free, results are not affected by the number of threads.
typedef void (*bd_rt_body)(void *args, int64_t chunk);
void bd_rt_parallel(bd_rt *rt, bd_rt_body body, void *args, int64_t chunks);

// CUDA programs: starts generated kernel `number` with `buffers` (in, then out) and `range` (first
// index and valid count of each loop), in order with all that the stage does. The arguments are
// copied. `random` is NULL for kernels that draw no numbers.
void bd_rt_launch(bd_rt *rt, int number, int buffer_count, char *const *buffers, int range_count,
                  const int64_t *range, const bd_rt_random *random);

// CUDA programs: the accumulator of a weight's use has all that `micro_batch` adds to it. After the
// last micro-batch of a step nothing may touch it.
void bd_rt_gradient(bd_rt *rt, int64_t micro_batch, const void *gradient);

// CUDA programs: what follows reads a weight as the last update has left it. What has updated parts
// of it on other ranks may bring them here until then, in the order in which the first forward pass
// of all tells of weights. One that this pass tells of is told of in the forward pass of each
// step's micro-batch 0 before anything reads it; in others it need not be.
void bd_rt_await_weight(bd_rt *rt, int64_t micro_batch, const void *weight);

// Clears a buffer of the arena.
void bd_rt_zero(bd_rt *rt, void *data, int64_t bytes);

// out[m,n] (+)= a[m,k] b[k,n] for `batch` products; strides in elements: of m and k for a, of k and
// n for b, of m for out (n has stride 1), and between products. One of each operand's two strides
// is 1.
typedef struct bd_rt_gemm {
  int64_t m, n, k, batch;
  int64_t a_m, a_k, a_batch, b_k, b_n, b_batch, out_m, out_batch;
  int32_t accumulate;
  int32_t dtype, out_dtype; // of a and b, and of out
  // Formats that a and b, in bf16, are rounded to, each under the scale of its largest number in
  // the whole batch, where m, n, k, out_m and, of more than one, out_batch are multiples of
  // BD_RT_F8_GRAIN; and on GPUs BD_RT_ALIGNMENT + batch (m k + n k) bytes for them, the first part
  // rounded up to that alignment. 0: as they are. `f8_kept`: the last product with this room had
  // the same a, or b, and left it rounded there.
  int32_t f8[2], f8_kept[2];
  void *f8_room;
} bd_rt_gemm;
void bd_rt_matmul(bd_rt *rt, const bd_rt_gemm *shape, const void *a, const void *b, void *out);

// What goes with a product in the kernel that computes it. With x = a b in f32, rounded when it is
// written:
//   BIAS          out = x + bias
//   GELU          other = x + bias, out = gelu(x + bias), of halves; tanh form
//   GELU_GRAD     out = x gelu'(other), of halves
//   ADD           out = x + other
//   SUM_A, SUM_B  out (+)= x, and sums += the sums of a, or b, over k
typedef struct bd_rt_epilogue {
  int32_t kind;     // BD_RT_EPILOGUE_*
  const void *bias; // n elements of the type of out; of GELU also NULL
  void *other;      // lies as out does and has its type, apart from it; of ADD also `out` itself
  float *sums;      // m, or n
} bd_rt_epilogue;
// CUDA programs: a product of one batch with an epilogue. Returns 1; or 0, with nothing done, where
// the device's library has none for such a product, or a slow one: the work is then to be done
// apart. The same on every call with these shapes and alignments.
int bd_rt_matmul_with(bd_rt *rt, const bd_rt_gemm *shape, const bd_rt_epilogue *epilogue,
                      const void *a, const void *b, void *out);

// A product of rows in groups, of which each has a matrix of its own. Rows are those of all samples
// of the rank, one after another; rows ends[g - 1] (0 for g = 0) to ends[g] are group g's; ends do
// not decrease, are at most `rows` and multiples of `grain`, which divides `rows`. Strides in
// elements; one of w_k and w_n is 1, all rows are contiguous (stride 1 along k and n).
typedef struct bd_rt_grouped {
  int64_t rows, groups, n, k; // valid on this rank
  int64_t x_row, y_row;       // of x [rows, k] and y [rows, n]
  int64_t w_group, w_k, w_n;  // of w [groups, k, n]
  int64_t grain;
  int32_t accumulate;       // bd_rt_grouped_weights alone
  int32_t dtype, out_dtype; // of the factors, and of the result
  // Formats that the factors, in bf16, are rounded to, each under the scale of its largest number,
  // rows of no group included, where n, k, the grain and the result's strides are multiples of
  // BD_RT_F8_GRAIN; and on GPUs room for them as of bd_rt_gemm. 0: as they are.
  int32_t f8[2];
  void *f8_room;
} bd_rt_grouped;
// Brings the ends of groups to where the host reads them: `count` numbers, from place `at` of the
// stage's room for such (bd_rt_stage.most_ends numbers). They stay until the next call with these
// places. CPU programs: where they are. In a GPU program this waits for what has been asked for
// before.
const int32_t *bd_rt_fetch_ends(bd_rt *rt, int64_t at, const int32_t *ends, int64_t count);
// y = x w, rows past the last end 0. `ends` of this and the next is what bd_rt_fetch_ends returned;
// they are rounded up to the grain and clamped to [previous end, rows], since they are data.
void bd_rt_grouped_rows(bd_rt *rt, const bd_rt_grouped *shape, const void *x, const void *w,
                        const int32_t *ends, void *y);
// w (+)= x' y per group; a group without rows gives 0 (or adds nothing).
void bd_rt_grouped_weights(bd_rt *rt, const bd_rt_grouped *shape, const void *x, const void *y,
                           const int32_t *ends, void *w);

// CPU programs (generated kernels on GPUs): tiled attention; never stores T x T. q [batch, tq,
// heads, d], k [batch, tk, kv_heads, d], v [batch, tk, kv_heads, d_v], out [batch, tq, heads, d_v],
// row-major with the given valid counts; lse [batch, tq, heads]. The first head, query and sample
// are global indices; with dropout the first query is a multiple of 16. `workspace` has
// bd_rt_attention_workspace_bytes() bytes. Gradients lie as what they are of. Key j is seen by
// query i, counted over all ranks, when j <= i (`causal`) and j > i - `window`.
typedef struct bd_rt_attention {
  int64_t batch, tq, tk, heads, kv_heads, d, d_v; // valid on this rank
  int64_t q_batch, q_row, k_batch, k_row;         // strides in elements, padding included
  int64_t v_batch, v_row, out_batch, out_row;
  int64_t lse_batch, lse_row;
  float scale, dropout;
  float softcap; // scores become softcap tanh(score / softcap); 0: they stay, as with biases
  int32_t causal;
  uint32_t site;
  int64_t first_sample, first_head, first_query;
  int64_t total_heads, total_queries; // global; elements are numbered over them
  int32_t dtype;                      // of all but lse and the gradient of biases
  int64_t
      places; // of biases by relative position, at most BD_RT_ATTENTION_PLACES; 0: there are none
  int64_t window; // where it is causal, without biases, total_queries <= tk; 0: there is none
} bd_rt_attention;
void bd_rt_attention_forward(bd_rt *rt, const bd_rt_attention *shape, const bd_rt_random *random,
                             const void *q, const void *k, const void *v, void *out, float *lse,
                             void *workspace);
void bd_rt_attention_backward(bd_rt *rt, const bd_rt_attention *shape, const bd_rt_random *random,
                              const void *dout, const void *q, const void *k, const void *v,
                              const void *out, const float *lse, void *dq, void *dk, void *dv,
                              void *workspace);
// Forward with a sink for each head, of the type of q: rows' sums of powers have exp(sink) as well,
// and backward is the same.
void bd_rt_sink_attention_forward(bd_rt *rt, const bd_rt_attention *shape,
                                  const bd_rt_random *random, const void *q, const void *k,
                                  const void *v, const void *sinks, void *out, float *lse,
                                  void *workspace);
// The same with biases [heads, places] that are added to the scores: that of key j and query i is
// at place j - i + far, or the nearest there is; far is places - 1 (`causal`) or half of it.
// dbiases, f32, has the sums over the samples; backward's workspace has
// bd_rt_attention_sums_bytes() more.
void bd_rt_relative_attention_forward(bd_rt *rt, const bd_rt_attention *shape,
                                      const bd_rt_random *random, const void *q, const void *k,
                                      const void *v, const void *biases, void *out, float *lse,
                                      void *workspace);
void bd_rt_relative_attention_backward(bd_rt *rt, const bd_rt_attention *shape,
                                       const bd_rt_random *random, const void *dout, const void *q,
                                       const void *k, const void *v, const void *out,
                                       const float *lse, const void *biases, void *dq, void *dk,
                                       void *dv, float *dbiases, void *workspace);
// CUDA programs: attention by cuDNN, without dropout and biases, of halves; `sums` has the bytes of
// lse. 0: it is not done, because cuDNN is not there or does not take the shape, and generated
// kernels are to do it.
int bd_rt_attend(bd_rt *rt, const bd_rt_attention *shape, const void *q, const void *k,
                 const void *v, void *out, void *lse);
int bd_rt_attend_with_sinks(bd_rt *rt, const bd_rt_attention *shape, const void *q, const void *k,
                            const void *v, const void *sinks, void *out, void *lse);
int bd_rt_attend_grad(bd_rt *rt, const bd_rt_attention *shape, const void *dout, const void *q,
                      const void *k, const void *v, const void *out, const void *lse, void *dq,
                      void *dk, void *dv, void *sums);

// dtable [rows, c] = sum over tokens with row_start <= id < row_start + rows of dout [count, c], in
// token order; `dtype` is that of dout, `table_dtype` BD_RT_F32 or, of dout in bf16, BD_RT_BF16:
// what is added up in f32 is then rounded to the nearest, on GPUs after every 2^13 tokens.
// Overwrites dtable, or adds when `accumulate`.
void bd_rt_embed_dw(bd_rt *rt, int dtype, const int32_t *ids, const void *dout, int64_t count,
                    int64_t c, int64_t row_start, int64_t rows, int32_t accumulate, int table_dtype,
                    void *dtable);

// Convolution and pooling of images x [n, c, x..] by filters [o, c / groups, k..] to y [n, o, y..],
// or with channels last of [n, x.., c] by the same filters to [n, y.., o]; no padding of local
// extents. Along dimension d of three (of fewer, the first are 1 long) point k of the window of
// point y is point y * stride + k * dilation - before of x, or outside. Operands are f32 or both of
// one kind of halves, results of the same type or, of convolutions, f32. All sums are f32, rounded
// once.
typedef struct bd_rt_conv {
  int64_t n, c, o, groups;
  int64_t x[3], k[3], y[3], stride[3], dilation[3], before[3];
  int32_t dtype, out_dtype; // of operands, of the result
  int64_t channels_last;
} bd_rt_conv;
void bd_rt_convolve(bd_rt *rt, const bd_rt_conv *s, const void *x, const void *w, void *y);
void bd_rt_convolve_dx(bd_rt *rt, const bd_rt_conv *s, const void *dy, const void *w, void *dx);
// Overwrites dw, or adds when `accumulate` (to f32 alone).
void bd_rt_convolve_dw(bd_rt *rt, const bd_rt_conv *s, const void *x, const void *dy,
                       int32_t accumulate, void *dw);
// Pools have c channels both in and out, and no groups. The maximum of a window with nothing inside
// is -inf; of equal ones the first counts.
void bd_rt_maxpool(bd_rt *rt, const bd_rt_conv *s, const void *x, void *y);
void bd_rt_maxpool_grad(bd_rt *rt, const bd_rt_conv *s, const void *x, const void *dy, void *dx);

// Collectives along one mesh axis of this stage, on elements of `dtype`. Sums run in ascending rank
// order on the CPU, in NCCL's on GPUs.
// A tensor is seen as [outer, inner]: the dimension that is gathered or scattered is `extent` long
// between `outer` slow and `inner` fast elements; parts are ceil(extent / ranks) long, the last
// ones shorter.
void bd_rt_all_reduce(bd_rt *rt, int axis, int dtype, int combiner, int64_t count, const void *in,
                      void *out);
void bd_rt_all_gather(bd_rt *rt, int axis, int dtype, int64_t outer, int64_t extent, int64_t inner,
                      const void *in, void *out);
// CUDA programs: an all-gather of parts of equal size, one after another (`outer` is 1), that goes
// on beside what follows until bd_rt_await with the same slot, below BD_RT_PREFETCHES. Meanwhile
// nothing may touch `out`.
void bd_rt_prefetch(bd_rt *rt, int slot, int axis, int dtype, int64_t outer, int64_t extent,
                    int64_t inner, const void *in, void *out);
// CUDA programs: the collective asked for between the two goes on in the same way, in order with
// other such ones, until bd_rt_await with the slot, which several may have, one after another. It
// is a sum, a maximum, or a gather or a scatter as above. Meanwhile nothing may write what it
// reads, nor touch what it writes.
void bd_rt_beside(bd_rt *rt, int slot);
void bd_rt_beside_end(bd_rt *rt);
// Waits for what has the slot, if anything does.
void bd_rt_await(bd_rt *rt, int slot);
// A gather as bd_rt_prefetch begins it, for the layer that comes next, which begins before step
// `step` of this one, or, when that is the count of its steps, after them; `instruction` as
// bd_rt_mark takes it.
typedef struct bd_rt_gather {
  int32_t step, instruction, slot, axis, dtype;
  int64_t extent, inner;
  const void *in;
  void *out;
} bd_rt_gather;
// Those before `step`. `ahead`: NULL, or a list that ends with a negative step.
static inline void bd_rt_ahead(bd_rt *rt, const bd_rt_gather *ahead, int step) {
  for (; ahead && ahead->step >= 0; ahead++) {
    if (ahead->step != step) continue;
    bd_rt_mark(rt, ahead->instruction);
    bd_rt_prefetch(rt, ahead->slot, ahead->axis, ahead->dtype, 1, ahead->extent, ahead->inner,
                   ahead->in, ahead->out);
  }
}
void bd_rt_reduce_scatter(bd_rt *rt, int axis, int dtype, int64_t outer, int64_t extent,
                          int64_t inner, const void *in, void *out);
// Cuts the rank's part of a replica.
void bd_rt_shard(bd_rt *rt, int axis, int dtype, int64_t outer, int64_t extent, int64_t inner,
                 const void *in, void *out);
// Swaps `count` elements with the rank at the mirrored place: of n ranks that is n - 1 - r of rank
// r. One in the middle copies its own.
void bd_rt_mirror(bd_rt *rt, int axis, int dtype, int64_t count, const void *in, void *out);
// Splits `from_extent` and joins `to_extent`: [outer, from, middle, to, inner] with from before to,
// or the reverse order when `swapped`.
void bd_rt_all_to_all(bd_rt *rt, int axis, int dtype, int64_t outer, int64_t first, int64_t middle,
                      int64_t second, int64_t inner, int swapped, const void *in, void *out);

// To and from the rank at the same mesh coordinates of another stage. A send copies: the buffer may
// be written again at once. It waits only for the oldest copy of the same stage and tag, of which
// there are as many as the stages that the message goes on or back, so 1F1B cannot deadlock. The
// copies lie outside the arena on the CPU, in the send segment of bd_rt_stage on CUDA. Messages
// leave by bd_rt_post at the latest, all together: what a pass sends is sent at its end.
void bd_rt_send(bd_rt *rt, int stage, int tag, const void *data, int64_t bytes);
void bd_rt_post(bd_rt *rt);
void bd_rt_recv(bd_rt *rt, int stage, int tag, void *data, int64_t bytes);
#endif
