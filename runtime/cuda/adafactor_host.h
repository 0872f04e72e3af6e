// What the host parts of Adafactor's two kinds of sums have in common.
#ifndef BD_RT_CUDA_ADAFACTOR_HOST_H
#define BD_RT_CUDA_ADAFACTOR_HOST_H
#include "runtime/cuda/launch.h"

// A vector is a row, without an average.
static inline bd_cuda_matrix bd_cuda_matrix_of(const bd_rt_rule *u) {
  const bd_rt_factors *const f = &u->factors;
  const int apart = u->weight && u->halves; // a master, whose elements follow one another
  return (bd_cuda_matrix){u->gradient,
                          u->weight ? (const void *)u->weight : u->halves,
                          bd_cuda_rows_of(apart ? 0 : u->row, u->stride),
                          f->column ? f->columns : f->rows,
                          f->first,
                          u->count};
}

// How a rule's elements are read: all that one launch reads is read so.
typedef struct bd_cuda_access {
  int packs, narrow, rounded; // four by four; gradients, and weights, are bf16
} bd_cuda_access;

static inline bd_cuda_access bd_cuda_access_of(const bd_rt_rule *u, const bd_cuda_matrix *m) {
  const int narrow = u->gradient_dtype != BD_RT_F32, rounded = !u->weight;
  const int packs = m->columns % BD_CUDA_PACK == 0 && m->first % BD_CUDA_PACK == 0 &&
                    m->count % BD_CUDA_PACK == 0 && bd_cuda_rows_fit(&m->rows) &&
                    bd_cuda_fits(m->gradient, narrow ? sizeof(uint16_t) : sizeof(float)) &&
                    bd_cuda_fits(m->weight, rounded ? sizeof(uint16_t) : sizeof(float));
  return (bd_cuda_access){packs, narrow, rounded};
}

static inline int bd_cuda_reads_alike(bd_cuda_access a, bd_cuda_access b) {
  return a.packs == b.packs && a.narrow == b.narrow && a.rounded == b.rounded;
}

static inline int64_t bd_cuda_in_parts(int64_t count, int64_t most) {
  return (count + most - 1) / most;
}

static inline int64_t bd_cuda_padded(int64_t count, int64_t to) {
  return bd_cuda_in_parts(count, to) * to;
}

static inline void bd_cuda_put_mean(bd_cuda_mean_list *list, bd_cuda_mean mean) {
  list->of[list->means++] = mean;
}

// Starts the mixing of the means whose groups the room begins with, and empties the list.
void bd_cuda_mix_means(const bd_cuda_queue *queue, bd_cuda_mean_list *list, const char *room);
// Starts that nothing is added to the `count` averages that begin at the mean, if there are any.
void bd_cuda_leave_mean(const bd_cuda_queue *queue, bd_cuda_mean mean, int64_t count);
#endif
