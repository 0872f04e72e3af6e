// The runtime's own kernels as libraries of the fake device, in the place of the machine code that
// programs embed.
#include "runtime/cuda/arguments.h"
extern "C" {
#include "tests/device/fake/device.h"
#include "tests/device/fake/library.h"
}

#include <tuple>
#include <type_traits>
#include <utility>

bd_simt_index threadIdx, blockIdx, blockDim, gridDim;

template <typename value> static void check(const char *, const value &) {}
template <typename value> static void check(const char *name, value *const &at) {
  bd_fake_check(name, "an argument", at, sizeof(value), alignof(value));
}

template <typename... parameters> struct launch {
  void (*kernel)(parameters...);
  int blocks, threads, descending;
  std::tuple<parameters...> values;

  static int run(void *args) {
    auto *const self = static_cast<launch *>(args);
    gridDim = {(unsigned)self->blocks, 1, 1};
    blockDim = {(unsigned)self->threads, 1, 1};
    const int64_t threads = (int64_t)self->blocks * self->threads;
    for (int64_t i = 0; i < threads; i++) {
      const int64_t thread = self->descending ? threads - 1 - i : i;
      blockIdx.x = (unsigned)(thread / self->threads);
      threadIdx.x = (unsigned)(thread % self->threads);
      std::apply(self->kernel, self->values);
    }
    return 1;
  }
};

template <typename... parameters, size_t... i>
static std::tuple<parameters...> values_of(void **args, std::index_sequence<i...>) {
  return {*static_cast<const parameters *>(args[i])...};
}

template <typename... parameters>
static void start(const bd_fake_own_kernel *own, int blocks, int threads, cudaStream_t stream,
                  void **args) {
  static_assert((std::is_trivially_copyable_v<parameters> && ...), "arguments are copied as bytes");
  static_assert((sizeof(parameters) + ...) <= 4096, "more than a launch may pass by value");
  launch<parameters...> what{
      reinterpret_cast<void (*)(parameters...)>(own->function), blocks, threads,
      bd_fake_setting("BD_FAKE_SEED", 1) % 2 == 0,
      values_of<parameters...>(args, std::make_index_sequence<sizeof...(parameters)>())};
  std::apply([&](const auto &...each) { (check(own->name, each), ...); }, what.values);
  bd_fake_enqueue(own->name, stream, launch<parameters...>::run, &what, sizeof what);
}

extern "C" {
#define BD_CODE(file)
#define BD_KERNEL(name, ...) void bd_k_##name(__VA_ARGS__);
#include "runtime/cuda/kernels.def"
#undef BD_CODE
#undef BD_KERNEL
}

// For each file a table, which the next one's beginning ends.
static const bd_fake_own_kernel nothing[] = {
#define BD_CODE(file)                                                                              \
  {}                                                                                               \
  }                                                                                                \
  ;                                                                                                \
  static const bd_fake_own_kernel file[] = {
#define BD_KERNEL(name, ...)                                                                       \
  {"bd_k_" #name, reinterpret_cast<void (*)()>(bd_k_##name), start<__VA_ARGS__>},
#include "runtime/cuda/kernels.def"
    {}};
#undef BD_CODE
#undef BD_KERNEL

extern "C" {
#define BD_CODE(file)                                                                              \
  extern const bd_fake_own_code bd_cuda_code_##file;                                               \
  const bd_fake_own_code bd_cuda_code_##file = {BD_FAKE_OWN_CODE, file};
#define BD_KERNEL(name, ...)
#include "runtime/cuda/kernels.def"
}
