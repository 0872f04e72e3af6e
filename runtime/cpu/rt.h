// The state of one CPU rank, shared by the files of runtime/.
#ifndef BD_RT_CPU_RT_H
#define BD_RT_CPU_RT_H
#include "runtime/braid_rt.h"
#include "runtime/data.h"
#include "runtime/options.h"

#include <mpi.h>
#include <stddef.h>

// Ranks of a stage that differ only in the coordinates of some mesh axes, lower axes slower.
typedef struct bd_rt_group {
  MPI_Comm comm;
  int size, rank;
} bd_rt_group;

typedef struct bd_rt_pool bd_rt_pool;

typedef struct bd_rt_outgoing { // a send in flight
  int stage, tag;
  void *copy;
  int64_t capacity;
  MPI_Request request;
} bd_rt_outgoing;

enum {
  BD_RT_SCRATCH_FLOATS = 1 << 21,        // of collectives, loading and saving
  BD_RT_THREAD_SCRATCH_FLOATS = 1 << 17, // of one thread: convolution's tiles
  BD_RT_MAX_OUTGOING = 256,
  BD_RT_GROUPS = 1 << BD_RT_MAX_AXES,
};

struct bd_rt {
  const bd_rt_program *program;
  const bd_rt_stage *stage; // this rank's
  bd_rt_options options;
  int rank, ranks, stage_index, mesh_rank, devices;
  int coord[BD_RT_MAX_AXES];
  MPI_Comm pipe;                   // point to point between stages
  bd_rt_group group[BD_RT_GROUPS]; // by mask of mesh axes
  char *arena;
  bd_rt_pool *pool;
  int threads;
  float *scratch;        // BD_RT_SCRATCH_FLOATS
  float *thread_scratch; // `threads` times BD_RT_THREAD_SCRATCH_FLOATS
  MPI_Request *requests; // 2 * ranks
  MPI_Datatype *types;   // 2 * ranks
  double *norms;         // (ranks + 1) * tensors
  int outgoing_count;
  bd_rt_outgoing outgoing[BD_RT_MAX_OUTGOING];
  bd_rt_data data;
  uint64_t step;
  double loss_sum; // of this rank, this step
  float loss_scale;
};

// Ends the job: one line on stderr. For failures that one rank alone sees.
_Noreturn void bd_rt_fail(int status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// The same line without ending: control bytes of the message are shown as '?'.
void bd_rt_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Zeroed pages of their own; huge where the kernel can. Ends the job when there are none.
void *bd_rt_pages(int64_t bytes);

// A pool of `threads` threads, the caller included. `spin`: wait busily for a moment, for ranks
// that have their cores to themselves.
bd_rt_pool *bd_rt_pool_create(int threads, int spin);
void bd_rt_pool_destroy(bd_rt_pool *pool);
// As bd_rt_parallel; body also learns which of the pool's threads runs it.
typedef void (*bd_rt_worker_body)(void *args, int64_t chunk, int worker);
void bd_rt_pool_run(bd_rt_pool *pool, bd_rt_worker_body body, void *args, int64_t chunks);

// Ranks and groups. Returns 0 or a BD_RT_EXIT status (agreed on by all ranks, rank 0 has spoken).
int bd_rt_join(bd_rt *rt);
void bd_rt_leave(bd_rt *rt);

// Which of the group over `axes` holds what of an extent.
static inline void bd_rt_part(int64_t extent, int parts, int index, int64_t *start,
                              int64_t *count) {
  const int64_t part = (extent + parts - 1) / parts;
  *start = part * index < extent ? part * index : extent;
  *count = extent - *start < part ? extent - *start : part;
}

// out = combination of all `in` in ascending rank order; `in` may be `out`.
void bd_rt_reduce(bd_rt *rt, const bd_rt_group *group, int combiner, int64_t count, const float *in,
                  float *out);
// In place: only this rank's flat part (see bd_rt_part) of `data` becomes the sum.
void bd_rt_reduce_part(bd_rt *rt, const bd_rt_group *group, int64_t count, float *data);
// In place: every rank's flat part reaches the others.
void bd_rt_gather_parts(bd_rt *rt, const bd_rt_group *group, int64_t count, float *data);

// Before anything else: has OpenBLAS use the widest kernels the processor can run. It knows processors by
// name and takes a 256-bit kernel for one newer than itself, so the program starts itself again with
// OPENBLAS_CORETYPE set; one that is set already stands.
void bd_rt_gemm_choose(char **argv);

// c (m x n) = alpha * a b + beta * c with the storage of bd_rt_gemm, on the calling thread.
void bd_rt_gemm_block(int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t a_m,
                      int64_t a_k, const float *b, int64_t b_k, int64_t b_n, float beta, float *c,
                      int64_t c_m);

// Weights: values from the seed or from a safetensors file; returns 0 or a status after rank 0 has
// spoken. Padding becomes zero.
int bd_rt_weights_init(bd_rt *rt);
int bd_rt_weights_load(bd_rt *rt, const char *path);
int bd_rt_weights_save(bd_rt *rt, const char *path);

// End of step: adds and synchronizes gradients, clips, updates the weights. Returns the global
// norm.
double bd_rt_update(bd_rt *rt);
#endif
