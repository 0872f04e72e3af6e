// The GPU of a rank, and what is allocated on it.
#include "runtime/cuda/fresh.h"
#include "runtime/cuda/grouping.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  MOST_HOST_THREADS = 16,
  MOST_KERNEL_NAME = 32,
  THREADS_OF_AN_SM = 2048,
};
_Static_assert(BD_CUDA_MOST_KEPT * sizeof(bd_cuda_kept) == BD_RT_KEPT_BYTES, "programs count it");

void bd_cuda_check(cudaError_t error, const char *call) {
  if (error != cudaSuccess)
    bd_rt_fail(BD_RT_EXIT_EXTERNAL, "the GPU failed: %s, in %s", cudaGetErrorString(error), call);
}

void bd_cuda_check_blas(cublasStatus_t status, const char *call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    bd_rt_fail(BD_RT_EXIT_EXTERNAL, "cuBLASLt failed: %s, in %s", cublasLtGetStatusString(status),
               call);
}

void bd_cuda_open_stream(cudaStream_t *out_stream, int exchanges) {
  int least = 0, most = 0;
  BD_CUDA(cudaDeviceGetStreamPriorityRange(&least, &most));
  BD_CUDA(
      cudaStreamCreateWithPriority(out_stream, cudaStreamNonBlocking, exchanges ? most : least));
}

static void start_threads(bd_rt *rt) {
  cpu_set_t allowed;
  const int cores = sched_getaffinity(0, sizeof allowed, &allowed) ? 1 : CPU_COUNT(&allowed);
  const int share = cores / (rt->device->ranks_here > 0 ? rt->device->ranks_here : 1);
  rt->threads = share < 1 ? 1 : share > MOST_HOST_THREADS ? MOST_HOST_THREADS : share;
  // Of samples that are read ahead; one core starts what the GPU does.
  rt->pool = bd_rt_pool_create(rt->threads > 1 ? rt->threads - 1 : 1, 0);
}

// Memory that NCCL can map for other ranks, where there are others. Ranks that share GPUs map none:
// there any memory will do where the driver gives NCCL none.
static int take(const bd_rt *rt, void **arena, size_t bytes) {
  bd_rt_device *const device = rt->device;
  device->nccl_gave_arena = rt->ranks > 1 && ncclMemAlloc(arena, bytes) == ncclSuccess;
  if (device->nccl_gave_arena) return 1;
  return (rt->ranks == 1 || !device->masks_here) && cudaMalloc(arena, bytes) == cudaSuccess;
}

static void free_arena(bd_rt *rt) {
  if (rt->device->nccl_gave_arena)
    bd_cuda_accept(rt, ncclMemFree(rt->arena), "ncclMemFree");
  else
    BD_CUDA(cudaFree(rt->arena));
}

static int allocate_arena(bd_rt *rt, char *message, size_t message_bytes) {
  const int64_t bytes = rt->stage->arena_bytes > 0 ? rt->stage->arena_bytes : 1;
  size_t available = 0, total = 0;
  BD_CUDA(cudaMemGetInfo(&available, &total));
  void *arena = NULL;
  const char *remedy = NULL;
  if ((int64_t)total < bytes)
    remedy = "compile for such GPUs (--cluster, or --memory-cap with less than is free)";
  else if ((int64_t)available < bytes)
    remedy = "end what holds the rest (nvidia-smi lists it), or compile with a --memory-cap below "
             "what is free";
  else if (!take(rt, &arena, (size_t)bytes))
    remedy = rt->ranks > 1 && ncclGetLastError(NULL)[0]
                 ? ncclGetLastError(NULL)
                 : "they do not lie in one piece; end other programs on this GPU";
  if (remedy) {
    snprintf(message, message_bytes,
             "the GPU of rank %d has %zu of %zu bytes free; the program needs %lld: %s", rt->rank,
             available, total, (long long)bytes, remedy);
    return BD_RT_EXIT_MACHINE;
  }
  rt->arena = arena;
  return 0;
}

static void *pinned(size_t bytes) {
  void *memory = NULL;
  BD_CUDA(cudaMallocHost(&memory, bytes));
  memset(memory, 0, bytes);
  return memory;
}

// Blocks that a kernel's launch has for each multiprocessor: for all of its threads, in whole waves
// of those that have registers there at once, since a wave with less takes as long.
static unsigned blocks_of(cudaKernel_t kernel, int threads) {
  const int most = threads < THREADS_OF_AN_SM ? THREADS_OF_AN_SM / threads : 1;
  int wave = 0;
  if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&wave, (const void *)kernel, threads, 0)) {
    (void)cudaGetLastError(); // it only helps
    wave = 0;
  }
  return (unsigned)(wave > 0 && wave <= most ? most / wave * wave : most);
}

static void load_code(bd_rt *rt) {
  const bd_rt_program *const program = rt->program;
  bd_rt_device *const device = rt->device;
  if (program->kernel_count == 0) return;
  device->kernels = bd_rt_allocate((size_t)program->kernel_count, sizeof *device->kernels);
  device->kernel_blocks =
      bd_rt_allocate((size_t)program->kernel_count, sizeof *device->kernel_blocks);
  BD_CUDA(cudaLibraryLoadData(&device->code, program->device_code, NULL, NULL, 0, NULL, NULL, 0));
  for (int i = 0; i < program->kernel_count; i++) {
    char name[MOST_KERNEL_NAME];
    snprintf(name, sizeof name, "bdk_%d", i);
    bd_cuda_get_kernel(device->code, name, &device->kernels[i]);
    device->kernel_blocks[i] = blocks_of(device->kernels[i], program->kernels[i].threads);
  }
}

int bd_cuda_allocate(bd_rt *rt, char *message, size_t message_bytes) {
  bd_rt_device *const device = rt->device;
  const size_t stages = (size_t)rt->program->stages;
  int processors = 1;
  const int status = allocate_arena(rt, message, message_bytes);
  if (status) return status;
  device->library = rt->arena + rt->stage->library_offset;
  device->library_bytes = rt->stage->library_bytes - BD_RT_KEPT_BYTES;
  device->kept = (bd_cuda_kept *)(void *)(device->library + device->library_bytes);
  device->room = device->library + BD_CUDA_WORKSPACE_BYTES;
  device->room_bytes = device->library_bytes - BD_CUDA_WORKSPACE_BYTES;
  if (rt->stage->library_bytes < BD_CUDA_LEAST_LIBRARY_BYTES) {
    snprintf(message, message_bytes, "the program leaves %lld bytes to libraries, which need %d",
             (long long)rt->stage->library_bytes, BD_CUDA_LEAST_LIBRARY_BYTES);
    return BD_RT_EXIT_INTERNAL;
  }
  BD_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device->index));
  for (int l = 0; l < BD_CUDA_STREAMS; l++)
    bd_cuda_open_stream(&device->lanes[l].stream, l != BD_CUDA_MAIN);
  BD_CUDA(cudaEventCreateWithFlags(&device->forked, cudaEventDisableTiming));
  BD_CUDA(cudaEventCreateWithFlags(&device->joined, cudaEventDisableTiming));
  for (int i = 0; i < BD_RT_SLOTS; i++)
    BD_CUDA(cudaEventCreateWithFlags(&device->prefetched[i], cudaEventDisableTiming));
  device->processors = processors;
  bd_cuda_take_lane(device, BD_CUDA_MAIN);
  device->queue.most_blocks = processors * (THREADS_OF_AN_SM / BD_CUDA_THREADS) * 4;
  rt->scratch = pinned(BD_RT_SCRATCH_FLOATS * sizeof(float));
  device->mapped = pinned(BD_RT_SCRATCH_FLOATS * sizeof(float));
  rt->sums = pinned(((size_t)rt->program->tensors + 1) * sizeof *rt->sums);
  device->to = bd_rt_allocate(stages, sizeof *device->to);
  device->from = bd_rt_allocate(stages, sizeof *device->from);
  if (bd_cuda_open_segments(rt)) bd_rt_fail(BD_RT_EXIT_EXTERNAL, "out of memory");
  BD_CUDA_BLAS(cublasLtCreate(&device->blas));
  device->queue.code = bd_cuda_open_code();
  load_code(rt);
  bd_cuda_open_grouping(rt);
  bd_cuda_open_sensors(rt);
  start_threads(rt);
  return 0;
}

void bd_cuda_release(bd_rt *rt) {
  bd_rt_device *const device = rt->device;
  bd_cuda_release_reader(rt);
  bd_rt_pool_destroy(rt->pool);
  bd_cuda_close_sensors(rt);
  bd_cuda_close_segments(rt);
  bd_cuda_release_dnn(rt);
  bd_cuda_release_products(rt);
  bd_cuda_release_grouping(rt);
  bd_cuda_release_fresh(rt);
  BD_CUDA_BLAS(cublasLtDestroy(device->blas));
  bd_cuda_close_code(device->queue.code);
  if (device->code) BD_CUDA(cudaLibraryUnload(device->code));
  free(device->kernels);
  free(device->kernel_blocks);
  free(device->to);
  free(device->from);
  for (int l = 0; l < BD_CUDA_STREAMS; l++)
    BD_CUDA(cudaStreamDestroy(device->lanes[l].stream));
  BD_CUDA(cudaEventDestroy(device->forked));
  BD_CUDA(cudaEventDestroy(device->joined));
  for (int i = 0; i < BD_RT_SLOTS; i++)
    BD_CUDA(cudaEventDestroy(device->prefetched[i]));
  BD_CUDA(cudaFreeHost(rt->scratch));
  BD_CUDA(cudaFreeHost(device->mapped));
  BD_CUDA(cudaFreeHost(rt->sums));
  free_arena(rt);
}
