// Devices that are described and not there: those of A100, H100 and B200.
#ifndef BD_TESTS_DEVICE_DEVICELESS_DESCRIBE_H
#define BD_TESTS_DEVICE_DEVICELESS_DESCRIBE_H
#include <stdio.h>
#include <stdlib.h>

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
#endif
