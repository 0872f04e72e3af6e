// Attention by cuDNN: the graphs, and which part of an op one run of them is.
#ifndef BD_RT_CUDA_ATTENTION_H
#define BD_RT_CUDA_ATTENTION_H
#include "runtime/braid_rt.h"
#include "runtime/cuda/dnn.h"

// One op's shape, of `batch` samples and `kv_heads` key-value heads of them. Compared as bytes: no
// member has padding after it. Where it is causal, query i is at key number first + i, and of a
// part of the queries (`first` may be 0 there as well) tk is first + tq. Of the op's `keys` those
// are the ones behind `skipped`, which no query's window reaches; nor does any query see what
// follows them.
typedef struct bd_cuda_attention {
  int64_t batch, tq, tk, kv_heads, group; // group: query heads per key-value head
  int64_t d, d_v;                         // of a head of queries and keys, and of values
  int64_t first, keys, skipped;
  int64_t window;                                             // where it is causal; 0: none
  int64_t q_batch, q_row, k_batch, k_row, lse_batch, lse_row; // strides in elements
  int64_t v_batch, v_row, out_batch, out_row;
  double softcap; // 0: none
  float scale;
  int32_t causal, dtype, gradient;
  int64_t any_order; // of a gradient
  int64_t apart;     // of a gradient: dq, dk and dv lie packed, [batch, heads, rows, d]
} bd_cuda_attention;

// Buffers of the graphs, in the order of their addresses. The sums are one f32 per row of the
// part's queries, [batch, heads, tq].
enum { BD_ATTEND_Q, BD_ATTEND_K, BD_ATTEND_V, BD_ATTEND_OUT, BD_ATTEND_LSE, BD_ATTEND_BUFFERS };
enum {
  BD_ATTEND_GRAD_DOUT,
  BD_ATTEND_GRAD_Q,
  BD_ATTEND_GRAD_K,
  BD_ATTEND_GRAD_V,
  BD_ATTEND_GRAD_OUT,
  BD_ATTEND_GRAD_LSE,
  BD_ATTEND_GRAD_DQ,
  BD_ATTEND_GRAD_DK,
  BD_ATTEND_GRAD_DV,
  BD_ATTEND_GRAD_SUMS,
  // In any order alone: dq in f32, bd_cuda_attention_wide_bytes() that the library adds to, or sets
  // to 0 before, as its engines differ.
  BD_ATTEND_GRAD_WIDE,
  BD_ATTEND_GRAD_BUFFERS
};
int64_t bd_cuda_attention_wide_bytes(const bd_cuda_attention *shape);

// The addresses of the op's buffers from a sample and a key-value head of it on.
void bd_cuda_attention_place(const bd_cuda_attention *shape, char *const *at, int64_t sample,
                             int64_t head, char **out_at);

// With S = scale q k', of a softcap c then c tanh(S / c), seen keys only: lse = log sum exp S, out
// = exp(S - lse) v.
void bd_cuda_attention_graph(bd_dnn_graph *graph, const bd_cuda_attention *shape);
// With P = exp(S - lse) and D the sums of dout out along rows: dv = P' dout, dS = P (dout v' - D),
// of a softcap times 1 - tanh(S / c)^2, dk = scale dS' q, dq = scale dS k. All of dS exists in the
// workspace, which makes every sum one of a fixed order; in any order each block of keys adds to dq
// in f32 as it comes.
void bd_cuda_attention_grad_graph(bd_dnn_graph *graph, const bd_cuda_attention *shape);
#endif
