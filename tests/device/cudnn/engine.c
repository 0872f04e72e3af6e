// The fake cuDNN's engines, its plans and their runs. For a graph it lists three engines: one that
// says that its bits differ from run to run, one that wants more workspace than anybody gives, and
// one that runs; or none where heads are no multiple of 8 wide, as the library.
#include "tests/device/cudnn/descriptor.h"
#include "tests/device/fake/queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  HANDLE_MAGIC = 0x444E4E48,
  ENGINES = 3,
  NONDETERMINISTIC = 0,
  GREEDY = 1,
  WIDTH_UNIT = 8,
  LEAST_WORKSPACE = 256,
  SPOILED_BYTES = 4096,
};

struct cudnnContext {
  int magic;
  cudaStream_t stream;
  int has_stream;
};

size_t cudnnGetVersion(void) {
  const int older =
      bd_fake_setting("BD_FAKE_RANK", 0) == bd_fake_setting("BD_FAKE_CUDNN_OLDER", -1);
  return (size_t)bd_fake_setting("BD_FAKE_CUDNN_VERSION", 91900) - (older ? 100 : 0);
}

const char *cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS         ? "CUDNN_STATUS_SUCCESS"
         : status == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
                                                : "another status";
}

void cudnnGetLastErrorString(char *message, size_t bytes) {
  snprintf(message, bytes, "as the fake device was told");
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  bd_fake_check_started(__func__);
  struct cudnnContext *const made = calloc(1, sizeof *made);
  if (!made) abort();
  made->magic = HANDLE_MAGIC;
  bd_fake_count.handles++;
  *handle = made;
  return CUDNN_STATUS_SUCCESS;
}

static struct cudnnContext *context_of(const char *call, cudnnHandle_t handle) {
  if (!handle || handle->magic != HANDLE_MAGIC)
    bd_fake_fault(call, "%p is no handle", (void *)handle);
  return handle;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  context_of(__func__, handle)->magic = 0; // the memory stays, so that its use is found
  bd_fake_count.handles--;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  struct cudnnContext *const c = context_of(__func__, handle);
  c->stream = stream;
  c->has_stream = 1;
  return CUDNN_STATUS_SUCCESS;
}

// A graph with a convolution: at most a pointwise operation follows it.
static int convolves(const fake_descriptor *graph, int *out_takes, int64_t *out_workspace) {
  const fake_attribute *const ops = fake_get(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
  fake_descriptor *const *const list = ops->values;
  fake_convolution c;
  int found = 0;
  for (int64_t o = 0; o < ops->count; o++) {
    if (!fake_convolution_of(list[o], &c)) continue;
    found = 1;
    const int inner = fake_tensor_of(fake_operand(list[o], 0)).inner;
    *out_takes = ops->count <= 1 + inner && fake_convolution_taken(&c, inner, out_workspace);
  }
  return found;
}

int fake_adds_up(const fake_descriptor *graph) {
  fake_tensor tensors[FAKE_MOST_TENSORS];
  memset(tensors, 0, sizeof tensors);
  const int count = fake_tensors_of(graph, tensors);
  for (int i = 0; i < count; i++)
    if (tensors[i].reordered) return 1;
  return 0;
}

// The matrix products of a graph whose factor is as wide as heads are.
static int takes(const fake_descriptor *graph) {
  int taken;
  int64_t bytes;
  if (convolves(graph, &taken, &bytes)) return taken;
  const fake_attribute *const ops = fake_get(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
  fake_descriptor *const *const list = ops->values;
  for (int64_t o = 0; o < ops->count; o++) {
    if (list[o]->kind != CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) continue;
    const fake_tensor c = fake_tensor_of(fake_operand(list[o], 0));
    if (!c.inner && c.dims[c.rank - 1] % WIDTH_UNIT) return 0;
  }
  return 1;
}

// Of products in halves that are summed inside: gradients of keys and values, of heads that share
// them.
static int64_t shared_bytes(const fake_descriptor *graph) {
  const fake_attribute *const ops = fake_get(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
  fake_descriptor *const *const list = ops->values;
  int64_t bytes = 0;
  for (int64_t o = 0; o < ops->count; o++) {
    if (list[o]->kind != CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) continue;
    const fake_tensor c = fake_tensor_of(fake_operand(list[o], 0));
    if (c.inner && fake_element_bytes(&c) == 2) bytes += c.extent * 2;
  }
  return bytes;
}

// With a gradient of scores, which is a result and a factor in halves, that in tiles of 64 x 128,
// unless products add up what comes of it.
static int64_t workspace_of(const fake_descriptor *graph) {
  int taken;
  int64_t bytes;
  if (convolves(graph, &taken, &bytes)) return LEAST_WORKSPACE + bytes;
  fake_tensor tensors[FAKE_MOST_TENSORS];
  memset(tensors, 0, sizeof tensors);
  const int count = fake_tensors_of(graph, tensors);
  int turned = 0;
  int64_t most = 0;
  for (int i = 0; i < count; i++) {
    const fake_tensor *const t = &tensors[i];
    if (!t->inner || fake_element_bytes(t) != 2 || t->rank != 4) continue;
    turned |= t->strides[2] == 1 && t->strides[3] > 1;
    const int64_t bytes = 2 * t->dims[0] * t->dims[1] * bd_fake_round_up(t->dims[2], 64) *
                          bd_fake_round_up(t->dims[3], 128);
    if (t->strides[3] == 1 && bytes > most) most = bytes;
  }
  return LEAST_WORKSPACE +
         (turned && !fake_adds_up(graph) ? most : 0) * bd_fake_setting("BD_FAKE_CUDNN_GROWS", 1) +
         shared_bytes(graph);
}

static void build_plan(fake_descriptor *plan) {
  const fake_descriptor *const config =
      fake_descriptor_of("a plan", fake_link(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG),
                         CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 1);
  const struct cudnnContext *const c =
      context_of("a plan", (cudnnHandle_t)fake_link(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE));
  if (c->has_stream) bd_fake_refuse_capture("a plan", c->stream);
  plan->engine = config->engine;
  plan->graph = config->graph;
  plan->workspace_bytes = config->workspace_bytes;
}

cudnnStatus_t fake_finish_engine(fake_descriptor *d) {
  if (d->kind == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    build_plan(d);
    if (bd_fake_setting("BD_FAKE_CUDNN_REFUSES", 0)) return CUDNN_STATUS_NOT_SUPPORTED;
  } else if (d->kind == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) {
    if (fake_get(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)->count !=
        fake_get(d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)->count)
      bd_fake_fault("a variant pack", "as many addresses as ids");
  } else if (d->kind == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) {
    const int64_t mode = fake_integer(d, CUDNN_ATTR_ENGINEHEUR_MODE, -1);
    if (mode != CUDNN_HEUR_MODE_A && mode != CUDNN_HEUR_MODE_FALLBACK)
      bd_fake_fault("heuristics", "mode %lld", (long long)mode);
  } else {
    bd_fake_fault("cudnnBackendFinalize", "a descriptor of kind %d", (int)d->kind);
  }
  return CUDNN_STATUS_SUCCESS;
}

static void list_engines(fake_descriptor *heuristics, int64_t room, int64_t *count, void *values) {
  fake_descriptor *const graph = fake_link(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  const int fallback =
      fake_integer(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, -1) == CUDNN_HEUR_MODE_FALLBACK;
  *count = takes(graph) && !fallback ? ENGINES : 0;
  for (int i = 0; i < *count && i < room; i++) {
    fake_descriptor *const config =
        fake_descriptor_of("heuristics", ((cudnnBackendDescriptor_t *)values)[i],
                           CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 0);
    config->finalized = 1;
    config->engine = i;
    config->graph = graph;
    config->workspace_bytes = i == GREEDY ? (int64_t)1 << 50 : workspace_of(graph);
  }
}

static void expect(const fake_descriptor *d, cudnnBackendAttributeName_t name,
                   cudnnBackendAttributeType_t type, cudnnBackendAttributeType_t expected) {
  if (type != expected)
    bd_fake_fault("cudnnBackendGetAttribute", "attribute %d of kind %d as type %d", (int)name,
                  (int)d->kind, (int)type);
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t room,
                                       int64_t *count, void *values) {
  fake_descriptor *const d = fake_descriptor_of(__func__, descriptor, (int)-1, 1);
  *count = 1;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && d->kind == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) {
    expect(d, name, type, CUDNN_TYPE_BACKEND_DESCRIPTOR);
    list_engines(d, room, count, values);
  } else if ((name == CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE &&
              d->kind == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) ||
             (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE &&
              d->kind == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)) {
    expect(d, name, type, CUDNN_TYPE_INT64);
    *(int64_t *)values = d->workspace_bytes;
  } else if (name == CUDNN_ATTR_ENGINECFG_ENGINE && d->kind == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) {
    expect(d, name, type, CUDNN_TYPE_BACKEND_DESCRIPTOR);
    fake_descriptor *const engine = fake_descriptor_of(
        __func__, *(cudnnBackendDescriptor_t *)values, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 0);
    engine->finalized = 1;
    engine->engine = d->engine;
  } else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE &&
             d->kind == CUDNN_BACKEND_ENGINE_DESCRIPTOR) {
    expect(d, name, type, CUDNN_TYPE_NUMERICAL_NOTE);
    *count = d->engine == NONDETERMINISTIC;
    if (*count && room > 0)
      *(cudnnBackendNumericalNote_t *)values = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
  } else {
    bd_fake_fault(__func__, "attribute %d of a descriptor of kind %d", (int)name, (int)d->kind);
  }
  return CUDNN_STATUS_SUCCESS;
}

typedef struct execution {
  const fake_descriptor *graph;
  void *at[FAKE_MOST_TENSORS], *workspace;
  float value[FAKE_MOST_TENSORS]; // of tensors by value
  int64_t workspace_bytes;
} execution;

static int execute(void *args) {
  execution *const e = args;
  fake_tensor tensors[FAKE_MOST_TENSORS];
  memset(tensors, 0, sizeof tensors);
  const int count = fake_tensors_of(e->graph, tensors);
  for (int i = 0; i < count; i++)
    if (tensors[i].by_value) e->at[i] = &e->value[i];
  fake_evaluate(e->graph, e->at);
  const size_t spoiled =
      e->workspace_bytes < SPOILED_BYTES ? (size_t)e->workspace_bytes : (size_t)SPOILED_BYTES;
  if (spoiled) memset(e->workspace, 0xFF, spoiled);
  return 1;
}

static void *address_of(const fake_descriptor *pack, int64_t id) {
  const fake_attribute *const ids = fake_get(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  void *const *const at = fake_get(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)->values;
  void *found = NULL;
  for (int64_t i = 0; i < ids->count; i++)
    if (((const int64_t *)ids->values)[i] == id) {
      if (found) bd_fake_fault("a variant pack", "two addresses of tensor %lld", (long long)id);
      found = at[i];
    }
  if (!found) bd_fake_fault("a variant pack", "no address of tensor %lld", (long long)id);
  return found;
}

// Which tensors of the graph are results.
static int is_made(const fake_descriptor *graph, int64_t id) {
  const fake_attribute *const ops = fake_get(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
  for (int64_t o = 0; o < ops->count; o++)
    if (fake_tensor_of(fake_operand(((fake_descriptor *const *)ops->values)[o], 0)).id == id)
      return 1;
  return 0;
}

static void check_apart(const execution *e, const fake_tensor *tensors, int count) {
  static const char call[] = "cudnnBackendExecute";
  for (int i = 0; i < count; i++) {
    if (tensors[i].inner || tensors[i].by_value) continue;
    const size_t bytes = (size_t)tensors[i].extent * fake_element_bytes(&tensors[i]);
    if (bd_fake_overlap(e->at[i], bytes, e->workspace, (size_t)e->workspace_bytes))
      bd_fake_fault(call, "a tensor lies in the workspace");
    for (int k = 0; is_made(e->graph, tensors[i].id) && k < count; k++)
      if (k != i && !tensors[k].inner && !tensors[k].by_value &&
          bd_fake_overlap(e->at[i], bytes, e->at[k],
                          (size_t)tensors[k].extent * fake_element_bytes(&tensors[k])))
        bd_fake_fault(call, "a result overlaps another tensor");
  }
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan_at,
                                  cudnnBackendDescriptor_t pack_at) {
  const struct cudnnContext *const c = context_of(__func__, handle);
  fake_descriptor *const plan =
      fake_descriptor_of(__func__, plan_at, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, 1);
  const fake_descriptor *const pack =
      fake_descriptor_of(__func__, pack_at, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, 1);
  fake_tensor tensors[FAKE_MOST_TENSORS];
  execution e = {.graph = fake_descriptor_of(__func__, plan->graph,
                                             CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, 1),
                 .workspace_bytes = plan->workspace_bytes,
                 .workspace = fake_link(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE)};
  if (!c->has_stream) bd_fake_fault(__func__, "the handle has no stream");
  bd_fake_want(__func__, &plan->loaded);
  if (plan->engine == GREEDY || (plan->engine == NONDETERMINISTIC) != fake_adds_up(e.graph))
    bd_fake_fault(__func__, "an engine that nobody should take");
  memset(tensors, 0, sizeof tensors);
  const int count = fake_tensors_of(e.graph, tensors);
  for (int i = 0; i < count; i++) {
    const fake_tensor *const t = &tensors[i];
    if (t->inner) continue;
    e.at[i] = address_of(pack, t->id);
    if (t->by_value)
      memcpy(&e.value[i], e.at[i], sizeof e.value[i]);
    else
      bd_fake_check(__func__, "a tensor", e.at[i], (size_t)t->extent * fake_element_bytes(t),
                    (size_t)t->alignment);
  }
  bd_fake_check(__func__, "the workspace", e.workspace, (size_t)e.workspace_bytes, 256);
  check_apart(&e, tensors, count);
  bd_fake_count.dnn++;
  bd_fake_enqueue(__func__, c->stream, execute, &e, sizeof e);
  return CUDNN_STATUS_SUCCESS;
}
