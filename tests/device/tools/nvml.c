// In the place of NVIDIA's management library: a device with made-up figures.
#include <string.h>

typedef struct memory {
  unsigned long long total, free, used;
} memory;

static int started;
static char device;

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **out_device);
int nvmlDeviceGetPowerUsage(const void *at, unsigned *milliwatts);
int nvmlDeviceGetClockInfo(const void *at, int kind, unsigned *megahertz);
int nvmlDeviceGetMemoryInfo(const void *at, memory *out);

int nvmlInit_v2(void) {
  started++;
  return 0;
}

int nvmlShutdown(void) {
  started--;
  return 0;
}

// Only the first device of tests/device/fake is known.
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **out_device) {
  if (!started || strcmp(bus, "0000:01:00.0") != 0) return 6;
  *out_device = &device;
  return 0;
}

static int is_device(const void *at) {
  return started && at == &device;
}

int nvmlDeviceGetPowerUsage(const void *at, unsigned *milliwatts) {
  *milliwatts = 654321;
  return is_device(at) ? 0 : 2;
}

int nvmlDeviceGetClockInfo(const void *at, int kind, unsigned *megahertz) {
  *megahertz = kind == 1 ? 1755 : kind == 2 ? 2619 : 0;
  return is_device(at) ? 0 : 2;
}

int nvmlDeviceGetMemoryInfo(const void *at, memory *out) {
  *out = (memory){.total = 80ULL << 30, .free = 70ULL << 30, .used = 10ULL << 30};
  return is_device(at) ? 0 : 2;
}
