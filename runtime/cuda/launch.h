// How the host starts the runtime's kernels: for each of kernels.def a function bd_cuda_start_NAME
// with the kernel's parameters behind the queue and the grid. It ends the job where a kernel cannot
// be started.
#ifndef BD_RT_CUDA_LAUNCH_H
#define BD_RT_CUDA_LAUNCH_H
#include "runtime/cuda/kernels.h"

typedef enum bd_cuda_kernel {
#define BD_CODE(file)
#define BD_KERNEL(name, ...) BD_K_##name,
#include "runtime/cuda/kernels.def"
#undef BD_CODE
#undef BD_KERNEL
  BD_CUDA_KERNELS
} bd_cuda_kernel;

typedef struct bd_cuda_grid {
  int blocks, threads; // of a block
} bd_cuda_grid;

// `args`: where the parameters are.
void bd_cuda_start(const bd_cuda_queue *queue, bd_cuda_kernel kernel, bd_cuda_grid grid,
                   void **args);

// For so many items, of which a thread takes one or, where there are many, several.
static inline bd_cuda_grid bd_cuda_grid_of(const bd_cuda_queue *queue, int64_t items, int threads) {
  const int64_t blocks = (items + threads - 1) / threads;
  return (bd_cuda_grid){(int)(blocks < queue->most_blocks ? blocks : queue->most_blocks), threads};
}

static inline bd_cuda_grid bd_cuda_over(const bd_cuda_queue *queue, int64_t items) {
  return bd_cuda_grid_of(queue, items, BD_CUDA_THREADS);
}

#define BD_START(name, parameters, ...)                                                            \
  static inline void bd_cuda_start_##name(const bd_cuda_queue *queue, bd_cuda_grid grid,           \
                                          BD_LIST parameters) {                                    \
    bd_cuda_start(queue, BD_K_##name, grid, (void *[]){__VA_ARGS__});                              \
  }
#define BD_LIST(...) __VA_ARGS__
#define BD_START_1(name, A) BD_START(name, (A a), &a)
#define BD_START_2(name, A, B) BD_START(name, (A a, B b), &a, &b)
#define BD_START_3(name, A, B, C) BD_START(name, (A a, B b, C c), &a, &b, &c)
#define BD_START_4(name, A, B, C, D) BD_START(name, (A a, B b, C c, D d), &a, &b, &c, &d)
#define BD_START_5(name, A, B, C, D, E)                                                            \
  BD_START(name, (A a, B b, C c, D d, E e), &a, &b, &c, &d, &e)
#define BD_START_6(name, A, B, C, D, E, F)                                                         \
  BD_START(name, (A a, B b, C c, D d, E e, F f), &a, &b, &c, &d, &e, &f)
#define BD_START_7(name, A, B, C, D, E, F, G)                                                      \
  BD_START(name, (A a, B b, C c, D d, E e, F f, G g), &a, &b, &c, &d, &e, &f, &g)
#define BD_EIGHTH(a, b, c, d, e, f, g, h, ...) h
#define BD_START_FOR(...)                                                                          \
  BD_EIGHTH(__VA_ARGS__, BD_START_7, BD_START_6, BD_START_5, BD_START_4, BD_START_3, BD_START_2,   \
            BD_START_1, )

#define BD_CODE(file)
#define BD_KERNEL(name, ...) BD_START_FOR(__VA_ARGS__)(name, __VA_ARGS__)
#include "runtime/cuda/kernels.def"
#undef BD_CODE
#undef BD_KERNEL
#endif
