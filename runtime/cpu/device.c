// A CPU rank: MPI, its memory and its threads.
#include "runtime/cpu/rt.h"
#include "runtime/overlap.h"

#include <cblas.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void bd_rt_claim(int status) {
  (void)status;
}

void bd_rt_abort(int status) {
  int started = 0;
  MPI_Initialized(&started);
  if (started) MPI_Abort(MPI_COMM_WORLD, status);
  _exit(status);
}

void *bd_rt_pages(int64_t bytes) {
  const size_t size = bytes > 0 ? (size_t)bytes : 1;
  void *const pages =
      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED)
    bd_rt_fail(BD_RT_EXIT_EXTERNAL, "cannot allocate %lld bytes", (long long)bytes);
  if (bytes >= (4 << 20)) madvise(pages, size, MADV_HUGEPAGE);
  return pages;
}

int bd_rt_start(bd_rt *rt, int argc, char **argv) {
  int level;
  if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS) {
    bd_rt_say("cannot start MPI");
    return BD_RT_EXIT_EXTERNAL;
  }
  openblas_set_num_threads(1);
  MPI_Comm_rank(MPI_COMM_WORLD, &rt->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &rt->ranks);
  return 0;
}

void bd_rt_stop(bd_rt *rt) {
  (void)rt;
  MPI_Finalize();
}

static void on_mpi_error(MPI_Comm *comm, int *code, ...) {
  (void)comm;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(*code, text, &length);
  bd_rt_fail(BD_RT_EXIT_DEAD_RANK, "another rank ended early, or MPI failed: %s", text);
}

// One communicator per set of axes that has more than one rank.
static void split_groups(bd_rt *rt) {
  const bd_rt_program *const program = rt->program;
  for (int mask = 0; mask < BD_RT_GROUPS; mask++) {
    int color = rt->stage_index;
    for (int a = 0; a < program->axes; a++)
      if (!(mask >> a & 1)) color = color * program->mesh[a] + rt->coord[a];
    rt->device->comm[mask] = MPI_COMM_NULL;
    if (mask >> program->axes == 0 && rt->group[mask].size > 1)
      MPI_Comm_split(MPI_COMM_WORLD, color, rt->group[mask].rank, &rt->device->comm[mask]);
  }
}

static void start_threads(bd_rt *rt) {
  MPI_Comm node;
  int ranks_here = 1;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rt->rank, MPI_INFO_NULL, &node);
  MPI_Comm_size(node, &ranks_here);
  MPI_Comm_free(&node);
  rt->threads = rt->program->threads_per_rank > 0 ? rt->program->threads_per_rank : 1;
  // Launchers bind ranks to cores: threads that share one must not wait busily for each other.
  cpu_set_t allowed;
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  const int own = sched_getaffinity(0, sizeof allowed, &allowed) ? (int)cores : CPU_COUNT(&allowed);
  if (own < rt->threads && cores >= (long)ranks_here * rt->threads && rt->rank == 0)
    bd_rt_say("%d threads are bound to %d of %ld processors: start mpirun with --bind-to none",
              rt->threads, own, cores);
  rt->pool =
      bd_rt_pool_create(rt->threads, own >= rt->threads && (long)ranks_here * rt->threads <= cores);
  rt->device->thread_scratch =
      bd_rt_pages((int64_t)rt->threads * BD_RT_THREAD_SCRATCH_FLOATS * (int64_t)sizeof(float));
}

int bd_rt_open(bd_rt *rt) {
  const size_t ranks = (size_t)rt->ranks, sums = (size_t)rt->program->tensors + 1;
  MPI_Errhandler handler;
  MPI_Comm_create_errhandler(on_mpi_error, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  MPI_Errhandler_free(&handler);
  bd_rt_device *const device = rt->device = bd_rt_allocate(1, sizeof *device);
  MPI_Comm_dup(MPI_COMM_WORLD, &device->pipe);
  split_groups(rt);
  device->requests = bd_rt_allocate(ranks * 2, sizeof *device->requests);
  device->types = bd_rt_allocate(ranks * 2, sizeof *device->types);
  device->gathered = bd_rt_allocate(ranks * sums, sizeof *device->gathered);
  rt->sums = bd_rt_allocate(sums, sizeof *rt->sums);
  rt->scratch = bd_rt_pages((int64_t)BD_RT_SCRATCH_FLOATS * (int64_t)sizeof(float));
  rt->arena = bd_rt_pages(rt->stage->arena_bytes);
  start_threads(rt);
  bd_rt_overlap_open(rt);
  return 0;
}

void bd_rt_close(bd_rt *rt) {
  bd_rt_device *const device = rt->device;
  bd_rt_close_pipes(rt);
  bd_rt_pool_destroy(rt->pool);
  if (device->convs) device->close_convs(device->convs);
  for (int mask = 0; mask < BD_RT_GROUPS; mask++)
    if (device->comm[mask] != MPI_COMM_NULL) MPI_Comm_free(&device->comm[mask]);
  MPI_Comm_free(&device->pipe);
  munmap(device->thread_scratch, (size_t)rt->threads * BD_RT_THREAD_SCRATCH_FLOATS * sizeof(float));
  munmap(rt->scratch, BD_RT_SCRATCH_FLOATS * sizeof(float));
  munmap(rt->arena, rt->stage->arena_bytes > 0 ? (size_t)rt->stage->arena_bytes : 1);
  free(device->requests);
  free(device->types);
  free(device->gathered);
  free(rt->sums);
  free(device);
}
