// Included before a .cu file that g++ compiles as C++: the runtime's own kernels, which wait for no
// other thread, run on the fake device one thread after another.
#ifndef BD_TESTS_DEVICE_SIMT_H
#define BD_TESTS_DEVICE_SIMT_H
extern "C" {
#include "tests/device/fake/device.h"
}

#include <cstdlib>
#include <tuple>
#include <type_traits>

struct bd_simt_index {
  unsigned x, y, z;
};
static bd_simt_index threadIdx, blockIdx, blockDim, gridDim;

// Intrinsics.
template <typename value> static inline void __stcs(value *to, value from) {
  *to = from;
}
template <typename value> static inline value __ldcs(const value *from) {
  return *from;
}

template <typename value> void bd_simt_check(const char *, const value &) {}
template <typename value> void bd_simt_check(const char *name, value *const &at) {
  bd_fake_check(name, "an argument", at, sizeof(value), alignof(value));
}

template <typename... parameters> struct bd_simt_launch {
  void (*kernel)(parameters...);
  int grid, block, descending;
  std::tuple<parameters...> values;

  static int run(void *args) {
    auto *const self = static_cast<bd_simt_launch *>(args);
    gridDim = {(unsigned)self->grid, 1, 1};
    blockDim = {(unsigned)self->block, 1, 1};
    const int64_t threads = (int64_t)self->grid * self->block;
    for (int64_t i = 0; i < threads; i++) {
      const int64_t thread = self->descending ? threads - 1 - i : i;
      blockIdx.x = (unsigned)(thread / self->block);
      threadIdx.x = (unsigned)(thread % self->block);
      std::apply(self->kernel, self->values);
    }
    return 1;
  }
};

template <typename... parameters, typename... arguments>
void bd_simt_start(const char *name, void (*kernel)(parameters...), int grid, int block,
                   cudaStream_t stream, arguments... values) {
  if (grid < 1 || block < 1 || block > 1024)
    bd_fake_fault(name, "%d blocks of %d threads", grid, block);
  bd_simt_launch<parameters...> launch{
      kernel, grid, block, bd_fake_setting("BD_FAKE_SEED", 1) % 2 == 0, {values...}};
  static_assert((std::is_trivially_copyable_v<parameters> && ...), "arguments are copied as bytes");
  static_assert((sizeof(parameters) + ...) <= 4096, "more than a launch may pass by value");
  std::apply([&](const auto &...each) { (bd_simt_check(name, each), ...); }, launch.values);
  bd_fake_count.launches++;
  bd_fake_enqueue(name, stream, bd_simt_launch<parameters...>::run, &launch, sizeof launch);
}

#define __launch_bounds__(...)
#define BD_LAUNCH(kernel, grid, block, stream, ...)                                                \
  bd_simt_start(#kernel, kernel, grid, block, stream, __VA_ARGS__)
#endif
