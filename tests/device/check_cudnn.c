// The fake cuDNN reports what the library would refuse or leave undefined.
#include "tests/device/children.h"

#include <cudnn.h>
#include <dlfcn.h>

// Of the fake library, which finds the fake device in this program.
static cudnnStatus_t (*make)(cudnnBackendDescriptorType_t, cudnnBackendDescriptor_t *);
static cudnnStatus_t (*set)(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                            cudnnBackendAttributeType_t, int64_t, const void *);
static cudnnStatus_t (*finalize)(cudnnBackendDescriptor_t);
static cudnnStatus_t (*get)(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                            cudnnBackendAttributeType_t, int64_t, int64_t *, void *);
static cudnnStatus_t (*drop)(cudnnBackendDescriptor_t);
static cudnnStatus_t (*open)(cudnnHandle_t *);
static cudnnStatus_t (*use)(cudnnHandle_t, cudaStream_t);
static cudnnStatus_t (*execute)(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t);

static void find(void *library, const char *name, void *out_function) {
  void *const at = dlsym(library, name);
  if (!at) abort();
  *(void **)out_function = at;
}

static cudnnBackendDescriptor_t made(cudnnBackendDescriptorType_t kind) {
  cudnnBackendDescriptor_t d;
  make(kind, &d);
  return d;
}

enum { ROWS = 4, COLUMNS = 8 };

static cudnnBackendDescriptor_t begin_tensor(int64_t id, int64_t columns) {
  const int64_t alignment = 16, dims[] = {1, ROWS, columns},
                strides[] = {ROWS * columns, columns, 1};
  const cudnnDataType_t type = CUDNN_DATA_FLOAT;
  const cudnnBackendDescriptor_t d = made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
  set(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  set(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
  set(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 3, dims);
  set(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 3, strides);
  return d;
}

static cudnnBackendDescriptor_t tensor(int64_t id, int64_t columns) {
  const cudnnBackendDescriptor_t d = begin_tensor(id, columns);
  finalize(d);
  return d;
}

static void link_to(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                    cudnnBackendDescriptor_t to) {
  set(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &to);
}

static cudnnBackendDescriptor_t exponential(cudnnBackendDescriptor_t x,
                                            cudnnBackendDescriptor_t y) {
  const cudnnPointwiseMode_t mode = CUDNN_POINTWISE_EXP;
  const cudnnDataType_t type = CUDNN_DATA_FLOAT;
  const cudnnBackendDescriptor_t how = made(CUDNN_BACKEND_POINTWISE_DESCRIPTOR),
                                 op = made(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  set(how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  set(how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
  finalize(how);
  link_to(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  link_to(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  link_to(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  finalize(op);
  return op;
}

// y = exp(x), of tensors 1 and 2; the last engine of the list.
static cudnnBackendDescriptor_t plan_of(cudnnHandle_t handle) {
  const cudnnBackendDescriptor_t op = exponential(tensor(1, COLUMNS), tensor(2, COLUMNS)),
                                 graph = made(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR),
                                 heuristics = made(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR),
                                 plan = made(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  cudnnBackendDescriptor_t configs[3];
  int64_t count;
  set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  link_to(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, op);
  finalize(graph);
  link_to(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  finalize(heuristics);
  for (int i = 0; i < 3; i++)
    configs[i] = made(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  get(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 3, &count, configs);
  set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  link_to(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configs[2]);
  finalize(plan);
  return plan;
}

static void run(void *x, void *y, void *workspace) {
  cudnnHandle_t handle;
  open(&handle);
  use(handle, NULL);
  const int64_t ids[] = {1, 2};
  void *at[] = {x, y};
  const cudnnBackendDescriptor_t plan = plan_of(handle),
                                 pack = made(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 2, ids);
  set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 2, at);
  set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  finalize(pack);
  execute(handle, plan, pack);
}

static char *device_bytes(size_t bytes) {
  void *at;
  if (cudaMalloc(&at, bytes)) _exit(1);
  return at;
}

enum { BYTES = ROWS * COLUMNS * 4, WORKSPACE = 256 };

static void evaluated(int rank) {
  float values[ROWS * COLUMNS], zeros[ROWS * COLUMNS] = {0};
  char *const x = device_bytes(BYTES), *const y = device_bytes(BYTES);
  cudaMemcpyAsync(x, zeros, BYTES, cudaMemcpyHostToDevice, NULL);
  run(x, y, device_bytes(WORKSPACE));
  cudaMemcpyAsync(values, y, BYTES, cudaMemcpyDeviceToHost, NULL);
  bd_fake_drain("the check");
  for (int i = 0; i < ROWS * COLUMNS; i++)
    check_true("exp(0) is 1", values[i] == 1);
}

static void on_host(int rank) {
  static float values[ROWS * COLUMNS];
  run(values, device_bytes(BYTES), device_bytes(WORKSPACE));
}

static void in_place(int rank) {
  char *const x = device_bytes(BYTES);
  run(x, x, device_bytes(WORKSPACE));
}

static void misaligned(int rank) {
  run(device_bytes(BYTES + 16) + 4, device_bytes(BYTES), device_bytes(WORKSPACE));
}

static void in_workspace(int rank) {
  char *const x = device_bytes(1024);
  run(x, device_bytes(BYTES), x);
}

static void small_workspace(int rank) {
  run(device_bytes(BYTES), device_bytes(BYTES), device_bytes(WORKSPACE / 2));
}

static void unfinished(int rank) {
  exponential(begin_tensor(1, COLUMNS), tensor(2, COLUMNS));
}

static void dropped(int rank) {
  const cudnnBackendDescriptor_t x = tensor(1, COLUMNS);
  drop(x);
  exponential(x, tensor(2, COLUMNS));
}

static void other_shape(int rank) {
  exponential(tensor(1, COLUMNS), tensor(2, COLUMNS + 1));
}

static void wrong_type(int rank) {
  const float id = 1;
  set(made(CUDNN_BACKEND_TENSOR_DESCRIPTOR), CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_FLOAT, 1, &id);
}

static void wrong_name(int rank) {
  const int64_t id = 1;
  set(made(CUDNN_BACKEND_MATMUL_DESCRIPTOR), CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
}

static void incomplete(int rank) {
  finalize(made(CUDNN_BACKEND_TENSOR_DESCRIPTOR));
}

static void set_late(int rank) {
  const int64_t id = 7;
  set(tensor(1, COLUMNS), CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
}

static void planned_in_capture(int rank) {
  cudaStream_t stream;
  cudnnHandle_t handle;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  open(&handle);
  use(handle, stream);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  plan_of(handle);
}

int main(int count, char **arguments) {
  void *const library = count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!library) {
    fprintf(stderr, "FAILED: %s\n", dlerror());
    return 1;
  }
  find(library, "cudnnBackendCreateDescriptor", &make);
  find(library, "cudnnBackendSetAttribute", &set);
  find(library, "cudnnBackendFinalize", &finalize);
  find(library, "cudnnBackendGetAttribute", &get);
  find(library, "cudnnBackendDestroyDescriptor", &drop);
  find(library, "cudnnCreate", &open);
  find(library, "cudnnSetStream", &use);
  find(library, "cudnnBackendExecute", &execute);
  children_pass("exp", 1, 1, evaluated);
  children_fault("is no memory of the device", 1, on_host);
  children_fault("a result overlaps another tensor", 1, in_place);
  children_fault("not aligned to 16 bytes", 1, misaligned);
  children_fault("a tensor lies in the workspace", 1, in_workspace);
  children_fault("the workspace: bytes 0 to 256", 1, small_workspace);
  children_fault("is not finalized", 1, unfinished);
  children_fault("is no descriptor", 1, dropped);
  children_fault("dimension 2 of 8 elements for 9", 1, other_shape);
  children_fault("values of type 4", 1, wrong_type);
  children_fault("has no attribute 906", 1, wrong_name);
  children_fault("without attribute", 1, incomplete);
  children_fault("of a finalized descriptor", 1, set_late);
  children_fault("is being captured", 1, planned_in_capture);
  return check_result(0);
}
