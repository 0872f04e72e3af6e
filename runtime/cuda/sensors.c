// Power, clocks and memory by NVIDIA's management library, which comes with the driver. It is
// loaded when it is there; all of it that is used is declared here.
#include "runtime/cuda/rt.h"
#include "runtime/cuda/symbol.h"

#include <dlfcn.h>
#include <stdlib.h>

typedef struct nvml_device *nvml_device;
typedef struct nvml_memory { // bytes
  unsigned long long total, free, used;
} nvml_memory;

enum { NVML_SUCCESS = 0, NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2 };

struct bd_cuda_sensors {
  void *library;
  nvml_device device;
  int (*shutdown)(void);
  int (*power)(nvml_device device, unsigned *milliwatts);
  int (*clock)(nvml_device device, int kind, unsigned *megahertz);
  int (*memory)(nvml_device device, nvml_memory *memory);
};

static int load(bd_cuda_sensors *s, const char *bus) {
  int (*init)(void);
  int (*handle)(const char *bus, nvml_device *device);
  if (!bd_cuda_symbol(s->library, "nvmlInit_v2", &init) ||
      !bd_cuda_symbol(s->library, "nvmlShutdown", &s->shutdown) ||
      !bd_cuda_symbol(s->library, "nvmlDeviceGetHandleByPciBusId_v2", &handle) ||
      !bd_cuda_symbol(s->library, "nvmlDeviceGetPowerUsage", &s->power) ||
      !bd_cuda_symbol(s->library, "nvmlDeviceGetClockInfo", &s->clock) ||
      !bd_cuda_symbol(s->library, "nvmlDeviceGetMemoryInfo", &s->memory))
    return 0;
  if (init() != NVML_SUCCESS) return 0;
  if (handle(bus, &s->device) == NVML_SUCCESS) return 1;
  s->shutdown();
  return 0;
}

void bd_cuda_open_sensors(bd_rt *rt) {
  char bus[64] = "";
  bd_cuda_sensors *const s = bd_rt_allocate(1, sizeof *s);
  BD_CUDA(cudaDeviceGetPCIBusId(bus, sizeof bus, rt->device->index));
  s->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (s->library && load(s, bus)) {
    rt->device->sensors = s;
    return;
  }
  if (s->library) dlclose(s->library);
  free(s);
}

void bd_cuda_close_sensors(bd_rt *rt) {
  bd_cuda_sensors *const s = rt->device->sensors;
  if (!s) return;
  s->shutdown();
  dlclose(s->library);
  free(s);
  rt->device->sensors = NULL;
}

int bd_rt_sense(const bd_rt *rt, bd_rt_sensors *out) {
  const bd_cuda_sensors *const s = rt->device->sensors;
  unsigned power = 0, clock = 0, memory_clock = 0;
  nvml_memory memory = {0, 0, 0};
  if (!s || s->power(s->device, &power) || s->clock(s->device, NVML_CLOCK_SM, &clock) ||
      s->clock(s->device, NVML_CLOCK_MEM, &memory_clock) || s->memory(s->device, &memory))
    return 0;
  *out = (bd_rt_sensors){.power_watts = 1e-3 * power,
                         .clock_mhz = clock,
                         .memory_clock_mhz = memory_clock,
                         .memory_used_bytes = (int64_t)memory.used,
                         .memory_bytes = (int64_t)memory.total};
  return 1;
}
