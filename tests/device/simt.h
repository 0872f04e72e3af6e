// Included before a .cu file that g++ compiles as C++: the runtime's own kernels, which wait for no
// other thread, run on the fake device one thread after another (kernels.cpp).
#ifndef BD_TESTS_DEVICE_SIMT_H
#define BD_TESTS_DEVICE_SIMT_H
#include <cuda_runtime_api.h>

// Of the thread that runs.
struct bd_simt_index {
  unsigned x, y, z;
};
extern bd_simt_index threadIdx, blockIdx, blockDim, gridDim;

// Intrinsics.
template <typename value> static inline void __stcs(value *to, value from) {
  *to = from;
}
template <typename value> static inline value __ldcs(const value *from) {
  return *from;
}
#endif
