// The device itself, and errors.
#include "tests/device/fake/device.h"

#include <stdio.h>
#include <string.h>

static int chosen = -1;

void bd_fake_check_started(const char *call) {
  if (chosen < 0) bd_fake_fault(call, "called before cudaSetDevice");
}

void bd_fake_want(const char *call, int *loaded) {
  if (!*loaded && bd_fake_count.communicators)
    bd_fake_fault(call, "its code is loaded while other ranks may wait for this one");
  *loaded = 1;
}

// What the driver serves; 0: there is none.
cudaError_t cudaDriverGetVersion(int *version) {
  *version = (int)bd_fake_setting("BD_FAKE_DRIVER", CUDART_VERSION);
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = (int)bd_fake_setting("BD_FAKE_TOOLKIT", CUDART_VERSION);
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count) {
  int driver, toolkit;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&toolkit);
  *count = 0;
  if (driver / 1000 < toolkit / 1000) return cudaErrorInsufficientDriver;
  *count = (int)bd_fake_setting("BD_FAKE_DEVICES", 8);
  return *count ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaSetDevice(int device) {
  int count;
  if (cudaGetDeviceCount(&count) || device < 0 || device >= count) return cudaErrorInvalidDevice;
  if (chosen >= 0 && chosen != device) bd_fake_fault(__func__, "a second device is chosen");
  if (chosen < 0) bd_fake_report_at_end();
  chosen = device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
  (void)device;
  switch (attribute) {
  case cudaDevAttrMultiProcessorCount:
    *value = (int)bd_fake_setting("BD_FAKE_PROCESSORS", 1);
    return cudaSuccess;
  case cudaDevAttrComputeCapabilityMajor:
    *value = (int)bd_fake_setting("BD_FAKE_CAPABILITY", 90) / 10;
    return cudaSuccess;
  case cudaDevAttrComputeCapabilityMinor:
    *value = (int)bd_fake_setting("BD_FAKE_CAPABILITY", 90) % 10;
    return cudaSuccess;
  default:
    bd_fake_fault(__func__, "attribute %d", (int)attribute);
  }
}

// BD_FAKE_OTHER_MODEL: the rank that is of another model, or -2 for all.
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
  (void)device;
  const long long other = bd_fake_setting("BD_FAKE_OTHER_MODEL", -1);
  memset(properties, 0, sizeof *properties);
  snprintf(properties->name, sizeof properties->name, "Fake %s",
           other == -2 || other == bd_fake_setting("BD_FAKE_RANK", 0) ? "B" : "A");
  return cudaSuccess;
}

// A bus number of its own for each device.
cudaError_t cudaDeviceGetPCIBusId(char *bus, int bytes, int device) {
  snprintf(bus, (size_t)bytes, "0000:%02X:00.0", device + 1);
  return cudaSuccess;
}

// Errors are returned where they arise; none stays behind.
cudaError_t cudaGetLastError(void) {
  return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error) {
  switch (error) {
  case cudaSuccess:
    return "no error";
  case cudaErrorMemoryAllocation:
    return "out of memory";
  case cudaErrorInvalidDevice:
    return "invalid device ordinal";
  case cudaErrorInsufficientDriver:
    return "CUDA driver version is insufficient for CUDA runtime version";
  case cudaErrorNoDevice:
    return "no CUDA-capable device is detected";
  case cudaErrorNotReady:
    return "device not ready";
  default:
    return "unknown error";
  }
}
