// cuDNN for a device that is described and not there: the functions that the runtime loads, handed
// on to the library at $BD_CUDNN, where a descriptor of the device in $BD_DEVICE takes the place of
// the handle.
#include <cudnn.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { PLAN_HANDLE = 400 }; // of a plan; its name is deprecated

static void *library;
static cudnnBackendDescriptor_t device; // stands for the handle, too

static void *find(const char *name) {
  void *const at = dlsym(library, name);
  if (!at) abort();
  return at;
}

#define CALL(result, name, parameters, arguments)                                                  \
  result name parameters {                                                                         \
    result(*next) parameters;                                                                      \
    *(void **)&next = find(#name);                                                                 \
    return next arguments;                                                                         \
  }

static cudnnStatus_t set(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t count, const void *values) {
  cudnnStatus_t (*next)(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                        cudnnBackendAttributeType_t, int64_t, const void *);
  *(void **)&next = find("cudnnBackendSetAttribute");
  return next(d, name, type, count, values);
}

size_t cudnnGetVersion(void) {
  size_t (*next)(void);
  library = dlopen(getenv("BD_CUDNN"), RTLD_NOW | RTLD_LOCAL);
  if (!library) return 0;
  *(void **)&next = find("cudnnGetVersion");
  return next();
}

CALL(const char *, cudnnGetErrorString, (cudnnStatus_t status), (status))
CALL(void, cudnnGetLastErrorString, (char *message, size_t bytes), (message, bytes))
CALL(cudnnStatus_t, cudnnBackendDestroyDescriptor, (cudnnBackendDescriptor_t d), (d))
CALL(cudnnStatus_t, cudnnBackendFinalize, (cudnnBackendDescriptor_t d), (d))
CALL(cudnnStatus_t, cudnnBackendGetAttribute,
     (cudnnBackendDescriptor_t const d, cudnnBackendAttributeName_t name,
      cudnnBackendAttributeType_t type, int64_t room, int64_t *count, void *values),
     (d, name, type, room, count, values))

static cudnnStatus_t create(cudnnBackendDescriptorType_t kind, cudnnBackendDescriptor_t *d) {
  cudnnStatus_t (*next)(cudnnBackendDescriptorType_t, cudnnBackendDescriptor_t *);
  *(void **)&next = find("cudnnBackendCreateDescriptor");
  return next(kind, d);
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  const char *const text = getenv("BD_DEVICE");
  cudnnStatus_t status = create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &device);
  if (!status)
    status = set(device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                 (int64_t)strlen(text) + 1, text);
  if (!status) status = cudnnBackendFinalize(device);
  *handle = (cudnnHandle_t)device;
  return status;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  return cudnnBackendDestroyDescriptor((cudnnBackendDescriptor_t)handle);
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t kind,
                                           cudnnBackendDescriptor_t *d) {
  const cudnnStatus_t status = create(kind, d);
  if (status || kind != CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) return status;
  return set(*d, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *values) {
  if (type != CUDNN_TYPE_HANDLE) return set(d, name, type, count, values);
  if ((int)name == PLAN_HANDLE)
    return set(d, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
  return CUDNN_STATUS_SUCCESS; // a graph is described without a device
}

// Nothing runs on such a device.
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  abort();
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  abort();
}
