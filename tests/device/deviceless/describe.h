// Devices that are described and not there: those of A100, H100 and B200.
#ifndef BD_TESTS_DEVICE_DEVICELESS_DESCRIBE_H
#define BD_TESTS_DEVICE_DEVICELESS_DESCRIBE_H
#include "runtime/cuda/dnn.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// An engine's name for the properties of a device of this compute capability: 80, 90 or 100.
static inline void describe(int capability) {
  char text[1024];
  const int processors = capability == 80 ? 108 : capability == 90 ? 132 : 148;
  const int shared = capability == 80 ? 166912 : 232448;
  snprintf(text, sizeof text,
           "{\"deviceName\":\"described\",\"deviceVer\":%d,\"driverVer\":13000,\"cudaDeviceId\":0,"
           "\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,\"warpSize\":32,"
           "\"multiProcessorCount\":%d,\"maxGridSize\":[2147483647,65535,65535],"
           "\"maxBlockSize\":[1024,1024,64],\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,"
           "\"maxCtasPerSM\":32,\"regsPerBlock\":65536,\"maxRegistersPerSM\":65536,"
           "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":%d,"
           "\"reservedSharedMemoryPerBlock\":1024,\"l2CacheSize\":52428800,"
           "\"totalGlobalMem\":85899345920,\"smClockRateKHz\":1755000,"
           "\"memClockRateKHz\":2619000}",
           capability * 10, processors, shared);
  setenv("BD_DEVICE", text, 1);
}

// cuDNN for such a device. One that is too old ends the test as skipped, none at all as failed.
static inline bd_dnn *open_described(int capability) {
  char why[256] = "";
  describe(capability);
  bd_dnn *const dnn = bd_dnn_open(why, sizeof why);
  if (dnn) return dnn;
  const int old = strstr(why, "older") != NULL;
  printf("%s: %s\n", old ? "skipped" : "FAIL", why);
  exit(!old);
}
#endif
