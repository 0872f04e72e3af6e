// What a device leaves undefined, the fake device reports.
#include "tests/device/children.h"

#include <nccl.h>

static void *device_bytes(size_t bytes) {
  void *at;
  if (cudaMalloc(&at, bytes)) _exit(1);
  return at;
}

static cudaStream_t stream(void) {
  cudaStream_t made;
  if (cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking)) _exit(1);
  return made;
}

static cudaEvent_t event(void) {
  cudaEvent_t made;
  if (cudaEventCreateWithFlags(&made, cudaEventDisableTiming)) _exit(1);
  return made;
}

static void read_by_host(int rank) {
  volatile float *const at = device_bytes(64);
  _exit(at[3] > 0);
}

static void read_by_host_after_work(int rank) {
  volatile float *const at = device_bytes(64);
  cudaMemsetAsync((void *)(uintptr_t)at, 0, 64, NULL);
  cudaStreamSynchronize(NULL);
  _exit(at[3] > 0);
}

static void past_the_end(int rank) {
  cudaMemsetAsync(device_bytes(64), 0, 65, NULL);
}

static int overrun(void *args) {
  memset(*(char **)args + 64, 0, 8); // no check sees this one
  return 1;
}

static void written_past_the_end(int rank) {
  char *const at = device_bytes(64);
  bd_fake_enqueue("a kernel", NULL, overrun, &at, sizeof at);
  cudaFree(at);
}

static void used_after_free(int rank) {
  void *const at = device_bytes(64);
  cudaFree(at);
  cudaMemsetAsync(at, 0, 64, NULL);
}

static void freed_twice(int rank) {
  void *const at = device_bytes(64);
  cudaFree(at);
  cudaFree(at);
}

static void freed_inside(int rank) {
  cudaFree((char *)device_bytes(1024) + 256);
}

static void copy_overlaps(int rank) {
  char *const at = device_bytes(128);
  cudaMemcpyAsync(at + 32, at, 64, cudaMemcpyDeviceToDevice, NULL);
}

static void copy_the_wrong_way(int rank) {
  char from[64] = "";
  cudaMemcpyAsync(device_bytes(64), from, 64, cudaMemcpyDeviceToHost, NULL);
}

static void never_recorded(int rank) {
  cudaStreamWaitEvent(stream(), event(), 0);
}

static void destroyed_event(int rank) {
  const cudaEvent_t e = event();
  cudaEventDestroy(e);
  cudaEventRecord(e, stream());
}

static void destroyed_stream(int rank) {
  const cudaStream_t s = stream();
  cudaStreamDestroy(s);
  cudaMemsetAsync(device_bytes(64), 0, 64, s);
}

static void destroyed_with_work(int rank) {
  const cudaStream_t s = stream();
  cudaMemsetAsync(device_bytes(64), 0, 64, s);
  cudaStreamDestroy(s);
}

static cudaStream_t captured(void) {
  const cudaStream_t s = stream();
  cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal);
  return s;
}

static void host_in_graph(int rank) {
  char from[64] = "";
  void *const to = device_bytes(64);
  cudaMemcpyAsync(to, from, 64, cudaMemcpyHostToDevice, captured());
}

static void event_in_graph(int rank) {
  cudaEventRecord(event(), captured());
}

static void waited_in_graph(int rank) {
  cudaStreamQuery(captured());
}

static void graph_in_graph(int rank) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaStreamEndCapture(captured(), &graph);
  cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphDestroy(graph);
  cudaGraphExecDestroy(exec);
  cudaGraphLaunch(exec, stream());
}

static void wanted_too_late(int rank) {
  int early = 0, late = 0;
  ncclUniqueId id;
  ncclComm_t comm;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  bd_fake_want("a kernel", &early);
  ncclGetUniqueId(&id);
  ncclCommInitRankConfig(&comm, 1, id, 0, &config);
  bd_fake_want("a kernel", &early);
  bd_fake_want("another kernel", &late);
}

// The children of this one have chosen a device already; its own child has not.
static void no_device(void) {
  void *at;
  const pid_t child = fork();
  if (child == 0) {
    if (!freopen("/dev/null", "w", stderr)) abort();
    cudaMalloc(&at, 64);
    _exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  check_true("memory before a device is chosen",
             WIFEXITED(status) && WEXITSTATUS(status) == BD_FAKE_EXIT);
}

static void out_of_memory(int rank) {
  void *at;
  setenv("BD_FAKE_DEVICE_BYTES", "4096", 1);
  check_true("memory is bounded", cudaMalloc(&at, 4097) == cudaErrorMemoryAllocation);
  check_true("memory is given", cudaMalloc(&at, 4096) == cudaSuccess);
}

int main(void) {
  children_fault("the host touches byte 12 of device memory", 1, read_by_host);
  children_fault("the host touches byte 12 of device memory", 1, read_by_host_after_work);
  children_fault("bytes 0 to 65 of an allocation of 64", 1, past_the_end);
  children_fault("byte 64 of an allocation of 64 bytes was written", 1, written_past_the_end);
  children_fault("lies in memory that was freed", 1, used_after_free);
  children_fault("is freed twice", 1, freed_twice);
  children_fault("not the start of an allocation", 1, freed_inside);
  children_fault("source and target overlap", 1, copy_overlaps);
  children_fault("kind 2, from other to device memory", 1, copy_the_wrong_way);
  children_fault("the event was never recorded", 1, never_recorded);
  children_fault("is no event", 1, destroyed_event);
  children_fault("is no stream", 1, destroyed_stream);
  children_fault("work of stream 1 is left", 1, destroyed_with_work);
  children_fault("the stream is being captured", 1, host_in_graph);
  children_fault("the stream is being captured", 1, event_in_graph);
  children_fault("stream 1 is being captured", 1, waited_in_graph);
  children_fault("is no graph that can be launched", 1, graph_in_graph);
  children_fault("another kernel: its code is loaded", 1, wanted_too_late);
  no_device();
  children_pass("out of memory", 1, 1, out_of_memory);
  return check_result(0);
}
