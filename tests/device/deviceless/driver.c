// The CUDA driver's library where there is none, of which cuDNN's engines want to be able to load
// code and no more: what they load is not run.
#define DRIVER_SUCCESS 0
#define DRIVER_NO_DEVICE 100

int cuGetErrorName(int error, const char **name) {
  *name = "an error of a driver that is not there";
  return DRIVER_SUCCESS + 0 * error;
}

int cuGetErrorString(int error, const char **text) {
  return cuGetErrorName(error, text);
}

int cuDriverGetVersion(int *version) {
  *version = 13000;
  return DRIVER_SUCCESS;
}

int cuDeviceGetCount(int *count) {
  *count = 0;
  return DRIVER_SUCCESS;
}

int cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return DRIVER_NO_DEVICE;
}

// A handle that stands for what was loaded.
static int give(void **handle) {
  static int loaded;
  *handle = &loaded;
  return DRIVER_SUCCESS;
}

int cuLibraryLoadData(void **library) {
  return give(library);
}

int cuLibraryLoadFromFile(void **library) {
  return give(library);
}

int cuLibraryGetKernel(void **kernel) {
  return give(kernel);
}

int cuKernelGetAttribute(int *value) {
  *value = 0;
  return DRIVER_SUCCESS;
}

#define NOTHING(name)                                                                              \
  int name(void) {                                                                                 \
    return DRIVER_SUCCESS;                                                                         \
  }
#define ABSENT(name)                                                                               \
  int name(void) {                                                                                 \
    return DRIVER_NO_DEVICE;                                                                       \
  }
NOTHING(cuKernelSetAttribute)
NOTHING(cuLibraryUnload)
ABSENT(cuCtxGetCurrent)
ABSENT(cuCtxGetLimit)
ABSENT(cuCtxPopCurrent)
ABSENT(cuCtxPushCurrent)
ABSENT(cuStreamGetCtx)
ABSENT(cuLinkCreate)
ABSENT(cuLinkAddData)
ABSENT(cuLinkComplete)
ABSENT(cuLinkDestroy)
ABSENT(cuLaunchKernel)
ABSENT(cuLaunchKernelEx)
ABSENT(cuLaunchCooperativeKernel)
ABSENT(cuOccupancyMaxPotentialClusterSize)
