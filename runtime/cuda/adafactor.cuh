// What Adafactor's two kinds of sums have in common: of squares of gradients and weights
// (adafactor.cu), and of squares of updates (adafactor_updates.cu). Both end in means
// (adafactor_means.cu).
#ifndef BD_RT_CUDA_ADAFACTOR_CUH
#define BD_RT_CUDA_ADAFACTOR_CUH
#include "runtime/cuda/factoring.cuh"

enum {
  BD_CUDA_GROUPS = 512,       // of tiles or lanes, which a thread adds up
  BD_CUDA_MOST_FACTORED = 24, // weights whose means are mixed together
};

// Sums of groups, of gradients and of weights or of updates alone, where the room begins; the rest
// of it is for what they are made of.
typedef struct bd_cuda_groups {
  double of[2 * BD_CUDA_MOST_FACTORED][BD_CUDA_GROUPS];
} bd_cuda_groups;

// The matrix, and where its elements are in the model's buffer.
typedef struct bd_cuda_matrix {
  const void *gradient, *weight; // each f32, or bf16
  bd_cuda_rows rows;
  int64_t columns, first, count;
} bd_cuda_matrix;

// A vector is a row, without an average.
static inline bd_cuda_matrix bd_cuda_matrix_of(const bd_rt_rule *u) {
  const bd_rt_factors *const f = &u->factors;
  const bool apart = u->weight && u->halves; // a master, whose elements follow one another
  return {u->gradient,
          u->weight ? (const void *)u->weight : u->halves,
          bd_cuda_rows_of(apart ? 0 : u->row, u->stride),
          f->column ? f->columns : f->rows,
          f->first,
          u->count};
}

// How a rule's elements are read: all that one launch reads is read so.
typedef struct bd_cuda_access {
  bool packs, narrow, rounded; // four by four; gradients, and weights, are bf16
} bd_cuda_access;

static inline bd_cuda_access bd_cuda_access_of(const bd_rt_rule *u, const bd_cuda_matrix *m) {
  const bool narrow = u->gradient_dtype != BD_RT_F32, rounded = !u->weight;
  const bool packs = m->columns % BD_CUDA_PACK == 0 && m->first % BD_CUDA_PACK == 0 &&
                     m->count % BD_CUDA_PACK == 0 && bd_cuda_rows_fit(m->rows) &&
                     bd_cuda_fits(m->gradient, narrow ? sizeof(uint16_t) : sizeof(float)) &&
                     bd_cuda_fits(m->weight, rounded ? sizeof(uint16_t) : sizeof(float));
  return {packs, narrow, rounded};
}

static inline bool bd_cuda_reads_alike(const bd_cuda_access &a, const bd_cuda_access &b) {
  return a.packs == b.packs && a.narrow == b.narrow && a.rounded == b.rounded;
}

static inline int64_t bd_cuda_in_parts(int64_t count, int64_t most) {
  return (count + most - 1) / most;
}

static inline int64_t bd_cuda_padded(int64_t count, int64_t to) {
  return bd_cuda_in_parts(count, to) * to;
}

static inline __device__ float bd_cuda_pack_sum(const float *squares) {
  return (squares[0] + squares[1]) + (squares[2] + squares[3]);
}

static inline __device__ float bd_cuda_mixed(float kept, bd_rt_mixing mixing, double sum) {
  return mixing.keep * kept + mixing.share * (float)sum;
}

static inline __device__ double bd_cuda_group_sum(const double *lanes, int64_t count,
                                                  int64_t group) {
  return bd_cuda_sum<32>(lanes + group, (count - group + BD_CUDA_GROUPS - 1) / BD_CUDA_GROUPS,
                         BD_CUDA_GROUPS);
}

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

static inline void bd_cuda_put_mean(bd_cuda_mean_list *list, const bd_cuda_mean &m) {
  list->of[list->means++] = m;
}

// Starts the mixing of the means whose groups the room begins with, and empties the list.
void bd_cuda_mix_means(const bd_cuda_queue *queue, bd_cuda_mean_list *list, const char *room);
// Starts that nothing is added to the `count` averages that begin at the mean, if there are any.
void bd_cuda_leave_mean(const bd_cuda_queue *queue, const bd_cuda_mean &mean, int64_t count);
#endif
