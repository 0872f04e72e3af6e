// Graphs: work of one stream, captured in its order, done again as one piece.
#include "tests/device/fake/queue.h"

#include <stdlib.h>

enum { GRAPH_MAGIC = 0x47524150, EXEC_MAGIC = 0x45584543 };

struct CUgraph_st {
  int magic;
  bd_fake_captured *work;
};

struct CUgraphExec_st {
  int magic;
  bd_fake_captured *work; // the graph's, which it outlives
};

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  struct CUstream_st *const s = bd_fake_stream_of(__func__, stream);
  bd_fake_refuse_capture(__func__, stream);
  if (!s->index) bd_fake_fault(__func__, "the default stream is captured");
  if (mode != cudaStreamCaptureModeThreadLocal) bd_fake_fault(__func__, "mode %d", (int)mode);
  s->capture = calloc(1, sizeof *s->capture);
  if (!s->capture) abort();
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  struct CUstream_st *const s = bd_fake_stream_of(__func__, stream);
  struct CUgraph_st *const g = calloc(1, sizeof *g);
  if (!g) abort();
  if (!s->capture) bd_fake_fault(__func__, "the stream is not captured");
  *g = (struct CUgraph_st){GRAPH_MAGIC, s->capture};
  s->capture = NULL;
  bd_fake_count.handles++;
  *graph = g;
  return cudaSuccess;
}

static struct CUgraph_st *graph_of(const char *call, cudaGraph_t graph) {
  if (!graph || graph->magic != GRAPH_MAGIC) bd_fake_fault(call, "%p is no graph", (void *)graph);
  return graph;
}

static struct CUgraphExec_st *exec_of(const char *call, cudaGraphExec_t exec) {
  if (!exec || exec->magic != EXEC_MAGIC)
    bd_fake_fault(call, "%p is no graph that can be launched", (void *)exec);
  return exec;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags) {
  struct CUgraph_st *const g = graph_of(__func__, graph);
  struct CUgraphExec_st *const made = calloc(1, sizeof *made);
  if (!made) abort();
  if (flags) bd_fake_fault(__func__, "flags %#llx", flags);
  if (!g->work) bd_fake_fault(__func__, "a second time");
  *made = (struct CUgraphExec_st){EXEC_MAGIC, g->work};
  g->work = NULL;
  bd_fake_count.handles++;
  *exec = made;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  struct CUgraph_st *const g = graph_of(__func__, graph);
  if (g->work) bd_fake_free_captured(g->work);
  g->magic = 0; // the memory stays, so that its use is found
  bd_fake_count.handles--;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  struct CUgraphExec_st *const e = exec_of(__func__, exec);
  bd_fake_drain(__func__);
  bd_fake_free_captured(e->work);
  e->magic = 0; // the memory stays, so that its use is found
  bd_fake_count.handles--;
  return cudaSuccess;
}

static int run(void *args) {
  return bd_fake_run_captured((*(struct CUgraphExec_st **)args)->work);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  struct CUgraphExec_st *const e = exec_of(__func__, exec);
  bd_fake_refuse_capture(__func__, stream);
  bd_fake_count.graphs++;
  bd_fake_enqueue(__func__, stream, run, &e, sizeof e);
  return cudaSuccess;
}
