// Whether this machine can run the program, asked before anything is allocated: GPU, driver,
// device code, NCCL. Each refusal says what is wrong and what to do.
#include "runtime/cuda/rt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  LEAST_CAPABILITY = 80,
  LEAST_F8_CAPABILITY = 89,
  LEAST_NCCL = 21900,
};

typedef struct message {
  char *text;
  size_t bytes;
} message;

// Of the driver and of the toolkit that the program was built with, as 1000 * major + 10 * minor;
// a driver of 0: there is none.
typedef struct versions {
  int driver, toolkit;
} versions;

static versions versions_here(void) {
  versions v = {0, 0};
  if (cudaDriverGetVersion(&v.driver) != cudaSuccess) v.driver = 0;
  BD_CUDA(cudaRuntimeGetVersion(&v.toolkit));
  return v;
}

static int major(int version) {
  return version / 1000;
}

static int minor(int version) {
  return version % 1000 / 10;
}

static int refuse_driver(const bd_rt *rt, versions v, message out) {
  snprintf(
      out.text, out.bytes,
      "the NVIDIA driver of rank %d serves CUDA up to %d.%d, the program was built with %d.%d: "
      "install a driver for CUDA %d.0 or newer there, or build the program with an older "
      "toolkit (make clean train CUDA_HOME=...)",
      rt->rank, major(v.driver), minor(v.driver), major(v.toolkit), minor(v.toolkit),
      major(v.toolkit));
  return BD_RT_EXIT_MACHINE;
}

static int refuse_no_gpu(const bd_rt *rt, cudaError_t error, versions v, message out) {
  const char *why = cudaGetErrorString(error), *what = "see whether nvidia-smi works there";
  if (v.driver == 0) {
    why = "no NVIDIA driver is loaded";
    what = "install one, or give the container its GPUs";
  } else if (error == cudaSuccess || error == cudaErrorNoDevice) {
    why = "none is visible";
    what = "nvidia-smi -L lists those of the machine, CUDA_VISIBLE_DEVICES hides some";
  }
  snprintf(out.text, out.bytes, "rank %d has no GPU that it can use: %s; %s", rt->rank, why, what);
  return BD_RT_EXIT_MACHINE;
}

// What the device code has for a capability: its architectures are numbers, the first also as PTX.
typedef enum coverage { NO_CODE, PTX_ALONE, MACHINE_CODE } coverage;

static coverage coverage_of(const char *architectures, int capability) {
  coverage best = NO_CODE;
  char *end;
  for (const char *at = architectures; *at; at = *end ? end + 1 : end) {
    const long one = strtol(at, &end, 10);
    if (end == at || one > capability) continue;
    if (one / 10 == capability / 10) return MACHINE_CODE;
    if (at == architectures) best = PTX_ALONE;
  }
  return best;
}

// The driver makes machine code of PTX when it is as new as the toolkit that wrote the PTX.
static int check_code(const bd_rt *rt, int capability, versions v, message out) {
  const char *const have = rt->program->architectures;
  if (!have) return 0;
  const int listed = (int)strcspn(have, "\n");
  switch (coverage_of(have, capability)) {
  case MACHINE_CODE:
    return 0;
  case PTX_ALONE:
    if (v.driver >= v.toolkit) return 0;
    snprintf(out.text, out.bytes,
             "the GPU of rank %d has compute capability %d.%d, for which the program has PTX alone "
             "(its machine code: %.*s), and a driver for CUDA %d.%d does not take that of %d.%d: "
             "rebuild it with make clean train ARCHITECTURES=\"%.*s %d\", or update the driver",
             rt->rank, capability / 10, capability % 10, listed, have, major(v.driver),
             minor(v.driver), major(v.toolkit), minor(v.toolkit), listed, have, capability);
    return BD_RT_EXIT_MACHINE;
  case NO_CODE:
    break;
  }
  snprintf(out.text, out.bytes,
           "the GPU of rank %d has compute capability %d.%d, the program was built for %.*s: "
           "rebuild it with make clean train ARCHITECTURES=\"%d %.*s\"",
           rt->rank, capability / 10, capability % 10, listed, have, capability, listed, have);
  return BD_RT_EXIT_MACHINE;
}

static int check_products(const bd_rt *rt, int capability, message out) {
  if (!rt->program->has_f8_products || capability >= LEAST_F8_CAPABILITY) return 0;
  snprintf(
      out.text, out.bytes,
      "this program's products are in fp8, which the GPU of rank %d (compute capability %d.%d) "
      "does not multiply: compile it with --precision bf16, or start it on GPUs of 8.9 or newer",
      rt->rank, capability / 10, capability % 10);
  return BD_RT_EXIT_MACHINE;
}

static int check_gpu(bd_rt *rt, versions v, message out) {
  bd_rt_device *const device = rt->device;
  int first = 0, second = 0;
  BD_CUDA(cudaDeviceGetAttribute(&first, cudaDevAttrComputeCapabilityMajor, device->index));
  BD_CUDA(cudaDeviceGetAttribute(&second, cudaDevAttrComputeCapabilityMinor, device->index));
  const int capability = device->capability = first * 10 + second;
  if (capability >= LEAST_CAPABILITY) {
    const int status = check_products(rt, capability, out);
    return status ? status : check_code(rt, capability, v, out);
  }
  snprintf(out.text, out.bytes,
           "the GPU of rank %d has compute capability %d.%d; the program needs 8.0 or newer (A100, "
           "H100, ...): show it another by CUDA_VISIBLE_DEVICES, or start it elsewhere",
           rt->rank, first, second);
  return BD_RT_EXIT_MACHINE;
}

static int check_nccl(bd_rt *rt, message out) {
  int *const version = &rt->device->nccl_version;
  if (ncclGetVersion(version) == ncclSuccess && *version >= LEAST_NCCL) return 0;
  snprintf(
      out.text, out.bytes,
      "NCCL %d.%d of rank %d is too old; the program needs 2.19 or newer: install one, or name "
      "its folder in LD_LIBRARY_PATH",
      *version / 10000, *version / 100 % 100, rt->rank);
  return BD_RT_EXIT_MACHINE;
}

int bd_cuda_choose(bd_rt *rt, char *text, size_t text_bytes) {
  bd_rt_device *const device = rt->device;
  const message out = {text, text_bytes};
  const versions v = versions_here();
  int count = 0;
  const cudaError_t error = v.driver ? cudaGetDeviceCount(&count) : cudaErrorInsufficientDriver;
  const int outdated = error == cudaErrorInsufficientDriver || major(v.driver) < major(v.toolkit);
  if (v.driver && outdated) return refuse_driver(rt, v, out);
  if (error != cudaSuccess || count == 0) return refuse_no_gpu(rt, error, v, out);
  device->index = device->launcher.local_rank % count;
  BD_CUDA(cudaSetDevice(device->index));
  const int status = check_gpu(rt, v, out);
  return status ? status : check_nccl(rt, out);
}
