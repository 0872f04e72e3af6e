// How a rank finds its place: stage, coordinates, groups.
#include "runtime/cpu/rt.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void say(const char *format, va_list arguments) {
  char line[2048];
  int length = vsnprintf(line, sizeof line, format, arguments);
  length = length < (int)sizeof line ? length : (int)sizeof line - 1;
  for (int i = 0; i < length; i++)
    if ((unsigned char)line[i] < 0x20 || line[i] == 0x7F) line[i] = '?';
  fprintf(stderr, "braid: %s\n", line);
  fflush(stderr);
}

void bd_rt_say(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(format, arguments);
  va_end(arguments);
}

void bd_rt_fail(int status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(format, arguments);
  va_end(arguments);
  MPI_Abort(MPI_COMM_WORLD, status);
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

static void on_mpi_error(MPI_Comm *comm, int *code, ...) {
  (void)comm;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(*code, text, &length);
  bd_rt_fail(BD_RT_EXIT_DEAD_RANK, "another rank ended early, or MPI failed: %s", text);
}

static int has_features(void) {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi2");
}

static int check_world(const bd_rt *rt) {
  const bd_rt_program *const program = rt->program;
  if (program->version != BD_RT_VERSION) {
    if (rt->rank == 0)
      bd_rt_say("program of version %d, runtime of version %d", program->version, BD_RT_VERSION);
    return BD_RT_EXIT_INTERNAL;
  }
  if (rt->ranks != program->stages * rt->devices) {
    if (rt->rank == 0)
      bd_rt_say("this program needs %d ranks (%d stages of %d), but was started with %d",
                program->stages * rt->devices, program->stages, rt->devices, rt->ranks);
    return BD_RT_EXIT_WORLD;
  }
  return 0;
}

// One communicator per set of axes that has more than one rank.
static void split_groups(bd_rt *rt) {
  const bd_rt_program *const program = rt->program;
  for (int mask = 0; mask < BD_RT_GROUPS; mask++) {
    bd_rt_group *const group = &rt->group[mask];
    *group = (bd_rt_group){MPI_COMM_NULL, 1, 0};
    int color = rt->stage_index;
    for (int a = 0; a < program->axes; a++) {
      if (mask >> a & 1) {
        group->size *= program->mesh[a];
        group->rank = group->rank * program->mesh[a] + rt->coord[a];
      } else {
        color = color * program->mesh[a] + rt->coord[a];
      }
    }
    if (mask >> program->axes == 0 && group->size > 1)
      MPI_Comm_split(MPI_COMM_WORLD, color, group->rank, &group->comm);
  }
}

static void *allocate(size_t count, size_t bytes) {
  void *const memory = calloc(count, bytes);
  if (!memory) bd_rt_fail(BD_RT_EXIT_EXTERNAL, "out of memory");
  return memory;
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
  rt->pool = bd_rt_pool_create(rt->threads,
                               own >= rt->threads && (long)ranks_here * rt->threads <= cores);
  rt->thread_scratch =
      bd_rt_pages((int64_t)rt->threads * BD_RT_THREAD_SCRATCH_FLOATS * (int64_t)sizeof(float));
}

int bd_rt_join(bd_rt *rt) {
  const bd_rt_program *const program = rt->program;
  rt->devices = 1;
  for (int a = 0; a < program->axes; a++)
    rt->devices *= program->mesh[a];
  const int status = check_world(rt);
  if (status) return status;
  if (!has_features())
    bd_rt_fail(BD_RT_EXIT_MACHINE,
               "this processor lacks AVX2, FMA or BMI2, which the program uses");
  MPI_Errhandler handler;
  MPI_Comm_create_errhandler(on_mpi_error, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  MPI_Errhandler_free(&handler);
  rt->stage_index = rt->rank / rt->devices;
  rt->mesh_rank = rt->rank % rt->devices;
  rt->stage = &program->stage[rt->stage_index];
  for (int a = program->axes - 1, rest = rt->mesh_rank; a >= 0; a--) {
    rt->coord[a] = rest % program->mesh[a];
    rest /= program->mesh[a];
  }
  MPI_Comm_dup(MPI_COMM_WORLD, &rt->pipe);
  split_groups(rt);
  rt->requests = allocate((size_t)rt->ranks * 2, sizeof *rt->requests);
  rt->types = allocate((size_t)rt->ranks * 2, sizeof *rt->types);
  rt->norms = allocate(((size_t)rt->ranks + 1) * (size_t)(program->tensors + 1), sizeof *rt->norms);
  rt->scratch = bd_rt_pages((int64_t)BD_RT_SCRATCH_FLOATS * (int64_t)sizeof(float));
  rt->arena = bd_rt_pages(rt->stage->arena_bytes);
  start_threads(rt);
  return 0;
}

void bd_rt_leave(bd_rt *rt) {
  for (int i = 0; i < rt->outgoing_count; i++) {
    MPI_Wait(&rt->outgoing[i].request, MPI_STATUS_IGNORE);
    munmap(rt->outgoing[i].copy, (size_t)rt->outgoing[i].capacity);
  }
  bd_rt_pool_destroy(rt->pool);
  for (int mask = 0; mask < BD_RT_GROUPS; mask++)
    if (rt->group[mask].comm != MPI_COMM_NULL) MPI_Comm_free(&rt->group[mask].comm);
  MPI_Comm_free(&rt->pipe);
  free(rt->requests);
  free(rt->types);
  free(rt->norms);
  munmap(rt->thread_scratch, (size_t)rt->threads * BD_RT_THREAD_SCRATCH_FLOATS * sizeof(float));
  munmap(rt->scratch, BD_RT_SCRATCH_FLOATS * sizeof(float));
  munmap(rt->arena, rt->stage->arena_bytes > 0 ? (size_t)rt->stage->arena_bytes : 1);
}
