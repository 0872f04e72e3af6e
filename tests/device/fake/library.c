// Kernels: their libraries, and launches.
#include "tests/device/fake/library.h"
#include "tests/device/fake/device.h"

#include <stdlib.h>
#include <string.h>

enum { FATBIN_MAGIC = (int)0xBA55ED50, MOST_PARAMETER_BYTES = 32764, MOST_BLOCK = 1024 };

struct CUlib_st {
  int live;
  const bd_fake_own_kernel *own; // of the runtime's; NULL: the program's
  int *loaded;                   // of each kernel
  struct CUlib_st *before;       // loaded
};

typedef struct launch {
  const bd_fake_kernel *kernel;
  emulate_grid grid;
  max_align_t values[]; // of the parameters, each from a multiple of 16 bytes on
} launch;

static struct CUlib_st *libraries;

static int count_of(const struct CUlib_st *library) {
  int count = 0;
  if (!library->own) return bd_fake_kernel_count;
  while (library->own[count].name)
    count++;
  return count;
}

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code,
                                enum cudaJitOption *jit_options, void **jit_values,
                                unsigned jit_count, enum cudaLibraryOption *options, void **values,
                                unsigned count) {
  int magic;
  bd_fake_check_started(__func__);
  memcpy(&magic, code, sizeof magic);
  if (magic != FATBIN_MAGIC && magic != BD_FAKE_OWN_CODE)
    bd_fake_fault(__func__, "the code begins with %#x", (unsigned)magic);
  if (jit_options || jit_values || jit_count || options || values || count)
    bd_fake_fault(__func__, "options are given");
  *library = calloc(1, sizeof **library);
  if (!*library) abort();
  (*library)->live = 1;
  (*library)->before = libraries;
  libraries = *library;
  if (magic == BD_FAKE_OWN_CODE) (*library)->own = ((const bd_fake_own_code *)code)->kernels;
  (*library)->loaded = calloc((size_t)count_of(*library) + 1, sizeof *(*library)->loaded);
  if (!(*library)->loaded) abort();
  bd_fake_count.handles++;
  return cudaSuccess;
}

static void check_library(const char *call, cudaLibrary_t library) {
  if (!library || !library->live) bd_fake_fault(call, "%p is no library", (void *)library);
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  check_library(__func__, library);
  bd_fake_drain(__func__);
  library->live = 0; // the memory stays, so that its use is found
  bd_fake_count.handles--;
  return cudaSuccess;
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name) {
  check_library(__func__, library);
  for (const bd_fake_own_kernel *own = library->own; own && own->name; own++)
    if (strcmp(own->name, name) == 0) {
      *kernel = (cudaKernel_t)(uintptr_t)own;
      return cudaSuccess;
    }
  for (int i = 0; !library->own && i < bd_fake_kernel_count; i++)
    if (strcmp(bd_fake_kernels[i].name, name) == 0) {
      *kernel = (cudaKernel_t)(uintptr_t)&bd_fake_kernels[i];
      return cudaSuccess;
    }
  return cudaErrorSymbolNotFound;
}

static int run(void *args) {
  launch *const l = args;
  char *at = (char *)l->values;
  void *addresses[BD_FAKE_PARAMETERS] = {NULL};
  for (int i = 0; i < l->kernel->parameters; i++) {
    addresses[i] = at;
    at += bd_fake_round_up(l->kernel->bytes[i], 16);
  }
  emulate_launch(l->kernel->function, l->grid, addresses);
  return 1;
}

// A kernel of a library that has not been given back: one of the two, and whether its code is
// there.
typedef struct known {
  const bd_fake_own_kernel *own;
  const bd_fake_kernel *program;
  int *loaded;
} known;

static known find(const char *call, const void *function) {
  for (const struct CUlib_st *l = libraries; l; l = l->before)
    for (int i = 0; l->live && i < count_of(l); i++) {
      if (l->own && &l->own[i] == function) return (known){&l->own[i], NULL, &l->loaded[i]};
      if (!l->own && &bd_fake_kernels[i] == function)
        return (known){NULL, &bd_fake_kernels[i], &l->loaded[i]};
    }
  bd_fake_fault(call, "%p is no kernel of a loaded library", function);
}

static const bd_fake_kernel *program_kernel(const char *call, const void *function) {
  const known k = find(call, function);
  if (!k.program) bd_fake_fault(call, "%s is no kernel of the program", k.own->name);
  return k.program;
}

// What is asked of a kernel has its code loaded.
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function) {
  memset(attributes, 0, sizeof *attributes);
  bd_fake_want(__func__, find(__func__, function).loaded);
  return cudaSuccess;
}

static void check_grid(const bd_fake_kernel *kernel, dim3 grid, dim3 block) {
  if (grid.x < 1 || grid.x > INT32_MAX || grid.y != 1 || grid.z != 1)
    bd_fake_fault(kernel->name, "a grid of %u x %u x %u", grid.x, grid.y, grid.z);
  if ((int)block.x != kernel->threads || block.y != 1 || block.z != 1)
    bd_fake_fault(kernel->name, "blocks of %u x %u x %u threads, not %d", block.x, block.y, block.z,
                  kernel->threads);
}

// As if each had registers for three.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function,
                                                          int threads, size_t shared_bytes) {
  const bd_fake_kernel *const kernel = program_kernel(__func__, function);
  if (threads != kernel->threads || shared_bytes)
    bd_fake_fault(kernel->name, "blocks of %d threads, not %d", threads, kernel->threads);
  *blocks = 3;
  return cudaSuccess;
}

// The first parameter is an array of pointers to buffers.
static void check_buffers(const bd_fake_kernel *kernel, void *const *buffers) {
  for (int i = 0; i < kernel->bytes[0] / (int)sizeof *buffers; i++)
    bd_fake_check(kernel->name, "a buffer", buffers[i], 1, 2);
}

// Kernels that draw random numbers have a pointer to what of their coordinates is on the device.
static void check_random(const bd_fake_kernel *kernel, const char *random) {
  const void *moving;
  memcpy(&moving, random + sizeof(uint64_t), sizeof moving);
  if (moving) bd_fake_check(kernel->name, "the coordinates", moving, 2 * sizeof(uint64_t), 8);
}

static void start_own(const bd_fake_own_kernel *own, dim3 grid, dim3 block, void **parameters,
                      size_t shared_bytes, cudaStream_t stream) {
  if (grid.x < 1 || grid.x > INT32_MAX || grid.y != 1 || grid.z != 1 || block.x < 1 ||
      block.x > MOST_BLOCK || block.y != 1 || block.z != 1)
    bd_fake_fault(own->name, "%u x %u x %u blocks of %u x %u x %u threads", grid.x, grid.y, grid.z,
                  block.x, block.y, block.z);
  if (shared_bytes) bd_fake_fault(own->name, "dynamic shared memory");
  bd_fake_count.launches++;
  own->start(own, (int)grid.x, (int)block.x, stream, parameters);
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **parameters,
                             size_t shared_bytes, cudaStream_t stream) {
  const known which = find(__func__, function);
  bd_fake_want(which.own ? which.own->name : which.program->name, which.loaded);
  if (which.own) {
    start_own(which.own, grid, block, parameters, shared_bytes, stream);
    return cudaSuccess;
  }
  const bd_fake_kernel *const kernel = which.program;
  int64_t bytes = 0;
  check_grid(kernel, grid, block);
  if (shared_bytes) bd_fake_fault(kernel->name, "dynamic shared memory");
  for (int i = 0; i < kernel->parameters; i++)
    bytes += bd_fake_round_up(kernel->bytes[i], 16);
  if (bytes > MOST_PARAMETER_BYTES)
    bd_fake_fault(kernel->name, "%lld bytes of parameters", (long long)bytes);
  launch *const l = malloc(sizeof *l + (size_t)bytes);
  if (!l) abort();
  *l = (launch){.kernel = kernel,
                .grid = {.blocks = (int)grid.x,
                         .threads = kernel->threads,
                         .descending = bd_fake_setting("BD_FAKE_SEED", 1) % 2 == 0}};
  char *at = (char *)l->values;
  for (int i = 0; i < kernel->parameters; i++) {
    memcpy(at, parameters[i], (size_t)kernel->bytes[i]);
    at += bd_fake_round_up(kernel->bytes[i], 16);
  }
  check_buffers(kernel, (void *const *)(void *)l->values);
  check_random(kernel, parameters[BD_FAKE_PARAMETERS - 1]);
  bd_fake_count.kernels++;
  bd_fake_enqueue(kernel->name, stream, run, l, sizeof *l + (size_t)bytes);
  free(l);
  return cudaSuccess;
}
