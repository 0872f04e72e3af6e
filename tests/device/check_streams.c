// The fake device's streams and events: legal orders give the right numbers under every seed, and a
// missing wait gives a wrong one under some.
#include "tests/device/children.h"

#include <math.h>

enum { COUNT = 1000, SEEDS = 20 };

typedef struct buffers {
  float *host, *a, *b;
  cudaStream_t first, second;
  cudaEvent_t event;
} buffers;

static void good(cudaError_t error) {
  if (error != cudaSuccess) {
    fprintf(stderr, "FAILED: %s\n", cudaGetErrorString(error));
    _exit(1);
  }
}

static buffers make(void) {
  buffers b;
  good(cudaMallocHost((void **)&b.host, COUNT * sizeof(float)));
  good(cudaMalloc((void **)&b.a, COUNT * sizeof(float)));
  good(cudaMalloc((void **)&b.b, COUNT * sizeof(float)));
  good(cudaStreamCreateWithFlags(&b.first, cudaStreamNonBlocking));
  good(cudaStreamCreateWithFlags(&b.second, cudaStreamNonBlocking));
  good(cudaEventCreateWithFlags(&b.event, cudaEventDisableTiming));
  for (int i = 0; i < COUNT; i++)
    b.host[i] = (float)i;
  return b;
}

static void to_device(const buffers *b) {
  good(cudaMemcpyAsync(b->a, b->host, COUNT * sizeof(float), cudaMemcpyHostToDevice, b->first));
}

// host -> a on one stream, a -> b on the other; returns b.
static float *pass_along(const buffers *b, int wait) {
  static float result[COUNT];
  to_device(b);
  if (wait) {
    good(cudaEventRecord(b->event, b->first));
    good(cudaStreamWaitEvent(b->second, b->event, 0));
  }
  good(cudaMemcpyAsync(b->b, b->a, COUNT * sizeof(float), cudaMemcpyDeviceToDevice, b->second));
  good(cudaStreamSynchronize(b->second));
  good(cudaMemcpy(result, b->b, sizeof result, cudaMemcpyDeviceToHost));
  return result;
}

static void ordered(int rank) {
  const buffers b = make();
  check_near("a copy after its event", pass_along(&b, 1), b.host, COUNT, 0);
}

static void unordered(int rank) {
  const buffers b = make();
  const float *const result = pass_along(&b, 0);
  check_true("a copy without its event", result[COUNT - 1] == (float)(COUNT - 1));
}

// The source of an asynchronous copy is read late.
static void hasty(int rank) {
  const buffers b = make();
  to_device(&b);
  b.host[0] = -1;
  good(cudaStreamSynchronize(b.first));
  float result[COUNT];
  good(cudaMemcpy(result, b.a, sizeof result, cudaMemcpyDeviceToHost));
  check_true("a source that was changed too early", result[0] == 0);
}

static void waits_for_first_record(int rank) {
  const buffers b = make();
  to_device(&b);
  good(cudaEventRecord(b.event, b.first));
  good(cudaStreamWaitEvent(b.second, b.event, 0));
  good(cudaEventRecord(b.event, b.second)); // again: those that wait already are not concerned
  while (cudaEventQuery(b.event) == cudaErrorNotReady) {
  }
  float result[COUNT];
  good(cudaMemcpy(result, b.a, sizeof result, cudaMemcpyDeviceToHost));
  check_near("an event recorded twice", result, b.host, COUNT, 0);
}

static void polls(int rank) {
  const buffers b = make();
  int questions = 0;
  for (int i = 0; i < 500; i++)
    to_device(&b);
  while (cudaStreamQuery(b.first) == cudaErrorNotReady)
    questions++;
  check_true("work takes a while", questions > 2);
}

// The default stream waits for blocking streams and they for it.
static void legacy(int rank) {
  const buffers b = make();
  cudaStream_t blocking;
  float result[COUNT];
  good(cudaStreamCreateWithFlags(&blocking, cudaStreamDefault));
  good(cudaMemcpyAsync(b.a, b.host, COUNT * sizeof(float), cudaMemcpyHostToDevice, blocking));
  good(cudaMemcpyAsync(b.b, b.a, COUNT * sizeof(float), cudaMemcpyDeviceToDevice, NULL));
  good(cudaMemsetAsync(b.b, 0, sizeof(float), blocking));
  good(cudaStreamSynchronize(blocking));
  good(cudaMemcpy(result, b.b, sizeof result, cudaMemcpyDeviceToHost));
  check_near("the default stream", result, b.host, COUNT, 0);
}

// What is captured is not done before the graph is launched, and then each time, in its order among
// the stream's other work.
static void graph(int rank) {
  const buffers b = make();
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  float result[COUNT];
  good(cudaStreamBeginCapture(b.first, cudaStreamCaptureModeThreadLocal));
  good(cudaMemcpyAsync(b.b, b.a, COUNT * sizeof(float), cudaMemcpyDeviceToDevice, b.first));
  good(cudaMemsetAsync(b.a, 0, sizeof(float), b.first));
  good(cudaStreamEndCapture(b.first, &graph));
  good(cudaGraphInstantiate(&exec, graph, 0));
  good(cudaGraphDestroy(graph));
  good(cudaStreamSynchronize(b.first));
  good(cudaMemcpy(result, b.b, sizeof result, cudaMemcpyDeviceToHost));
  check_true("a graph that was not launched", isnan(result[1]));
  for (int turn = 0; turn < 2; turn++) {
    to_device(&b);
    good(cudaGraphLaunch(exec, b.first));
    good(cudaStreamSynchronize(b.first));
    good(cudaMemcpy(result, b.b, sizeof result, cudaMemcpyDeviceToHost));
    check_near("a graph's copy", result, b.host, COUNT, 0);
    b.host[1]++;
  }
  good(cudaGraphExecDestroy(exec));
}

static void fresh(int rank) {
  const buffers b = make();
  float result[COUNT];
  good(cudaMemcpy(result, b.a, sizeof result, cudaMemcpyDeviceToHost));
  check_true("fresh memory is not a number", isnan(result[0]) && isnan(result[COUNT - 1]));
}

// How many seeds the body fails under.
static int failing_seeds(children_body body) {
  int failing = 0;
  for (int seed = 0; seed < SEEDS; seed++)
    failing += children_run(1, seed, body).status[0] == 1;
  return failing;
}

int main(void) {
  for (int seed = 0; seed < SEEDS; seed++) {
    children_pass("ordered", 1, seed, ordered);
    children_pass("first record", 1, seed, waits_for_first_record);
    children_pass("legacy stream", 1, seed, legacy);
    children_pass("graph", 1, seed, graph);
  }
  children_pass("polls", 1, 1, polls);
  children_pass("fresh", 1, 1, fresh);
  const int failing = failing_seeds(unordered);
  check_true("a missing wait is found under some seeds, not all", failing > 0 && failing < SEEDS);
  check_true("a source changed too early is found", failing_seeds(hasty) == SEEDS);
  return check_result(0);
}
