// The state of one CPU rank.
#ifndef BD_RT_CPU_RT_H
#define BD_RT_CPU_RT_H
#include "runtime/backend.h"

#include <mpi.h>

typedef struct bd_rt_copy_out { // a message on its way
  void *data;
  int64_t capacity;
  MPI_Request request;
} bd_rt_copy_out;

// Messages of one stage and tag: as many copies as the stages that they go on or back, so that none
// wait for each other in a circle.
typedef struct bd_rt_outgoing {
  int stage, tag;
  int copies, next; // next: the oldest
  bd_rt_copy_out *copy;
} bd_rt_outgoing;

enum {
  BD_RT_THREAD_SCRATCH_FLOATS = 1 << 19, // of one thread: tiles of products and convolutions
  BD_RT_MAX_OUTGOING = 256,
};

typedef struct bd_rt_convs bd_rt_convs;

struct bd_rt_device {
  bd_rt_convs *convs; // what convolutions keep, and its end; NULL before the first
  void (*close_convs)(bd_rt_convs *convs);
  MPI_Comm pipe;               // point to point between stages
  MPI_Comm comm[BD_RT_GROUPS]; // by mask of mesh axes
  float *thread_scratch;       // `threads` times BD_RT_THREAD_SCRATCH_FLOATS
  MPI_Request *requests;       // 2 * ranks
  MPI_Datatype *types;         // 2 * ranks
  double *gathered;            // ranks * (tensors + 1)
  double stamps[BD_RT_STAMPS]; // seconds of the monotonic clock
  int outgoing_count;
  bd_rt_outgoing outgoing[BD_RT_MAX_OUTGOING];
};

// Waits until all messages have been received, and frees their copies.
void bd_rt_close_pipes(bd_rt *rt);

// Zeroed pages of their own; huge where the kernel can. Ends the job when there are none.
void *bd_rt_pages(int64_t bytes);

static inline float *bd_rt_thread_scratch(const bd_rt *rt, int worker) {
  return rt->device->thread_scratch + (int64_t)worker * BD_RT_THREAD_SCRATCH_FLOATS;
}

// c (m x n) = alpha * a b + beta * c with the storage of bd_rt_gemm, on the calling thread.
void bd_rt_gemm_block(int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t a_m,
                      int64_t a_k, const float *b, int64_t b_k, int64_t b_n, float beta, float *c,
                      int64_t c_m);
#endif
