// The choice of an engine for a graph of cuDNN, and the runs of the plan that comes of it.
#include "runtime/cuda/dnn_inside.h"
#include "runtime/rank.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_CONFIGS = 16 }; // of one list of engines

struct bd_dnn_plan {
  bd_dnn_graph *graph; // what it was described by
  bd_dnn_item plan;
  int64_t workspace_bytes;
};

static int64_t get(bd_dnn_graph *g, bd_dnn_item item, bd_dnn_name name, bd_dnn_type type,
                   int64_t room, void *values) {
  int64_t count = 0;
  char call[32];
  snprintf(call, sizeof call, "attribute %d", (int)name);
  if (!item || g->refused) return 0;
  const int status = g->dnn->get_attribute(item, (int)name, (int)type, room, &count, values);
  return bd_dnn_accept(g, status, call) ? count : 0;
}

static bd_dnn_item operation_graph(bd_dnn_graph *g) {
  const bd_dnn_attribute list[] = {
      {BD_DNN_OPERATIONGRAPH_HANDLE, BD_DNN_TYPE_HANDLE, 1, &g->dnn->handle},
      {BD_DNN_OPERATIONGRAPH_OPS, BD_DNN_TYPE_BACKEND_DESCRIPTOR, g->operation_count,
       g->operations}};
  return bd_dnn_make(g, BD_DNN_OPERATIONGRAPH_DESCRIPTOR, list, 2);
}

// The library's engines for a graph, best first.
static int list_configs(bd_dnn_graph *g, bd_dnn_item operations, int mode, bd_dnn_item *configs) {
  const bd_dnn_attribute list[] = {
      {BD_DNN_ENGINEHEUR_OPERATION_GRAPH, BD_DNN_TYPE_BACKEND_DESCRIPTOR, 1, &operations},
      {BD_DNN_ENGINEHEUR_MODE, BD_DNN_TYPE_HEUR_MODE, 1, &mode}};
  const bd_dnn_item heuristics = bd_dnn_make(g, BD_DNN_ENGINEHEUR_DESCRIPTOR, list, 2);
  int64_t count =
      get(g, heuristics, BD_DNN_ENGINEHEUR_RESULTS, BD_DNN_TYPE_BACKEND_DESCRIPTOR, 0, NULL);
  if (count > MOST_CONFIGS) count = MOST_CONFIGS;
  for (int i = 0; i < count; i++)
    configs[i] = bd_dnn_create(g, BD_DNN_ENGINECFG_DESCRIPTOR);
  // As many as it still holds for possible.
  return count == 0 ? 0
                    : (int)get(g, heuristics, BD_DNN_ENGINEHEUR_RESULTS,
                               BD_DNN_TYPE_BACKEND_DESCRIPTOR, count, configs);
}

// An engine that gives the same bits from run to run, where that is asked for, and numbers as they
// are asked for.
static int suits(bd_dnn_graph *g, bd_dnn_item config) {
  int notes[BD_DNN_MOST_NOTES];
  bd_dnn_item engine = bd_dnn_create(g, BD_DNN_ENGINE_DESCRIPTOR);
  get(g, config, BD_DNN_ENGINECFG_ENGINE, BD_DNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine);
  const int64_t count = get(g, engine, BD_DNN_ENGINE_NUMERICAL_NOTE, BD_DNN_TYPE_NUMERICAL_NOTE,
                            BD_DNN_MOST_NOTES, notes);
  unsigned said = 0;
  for (int i = 0; i < count; i++)
    said |= 1u << notes[i];
  const unsigned unordered = g->any_order ? 0 : 1u << BD_DNN_NOTE_NONDETERMINISTIC;
  if (said & (g->avoided | unordered)) return 0;
  return !g->refused && (said & g->wanted) == g->wanted;
}

void bd_dnn_avoid(bd_dnn_graph *g, unsigned notes) {
  g->avoided |= notes;
}

void bd_dnn_want(bd_dnn_graph *g, unsigned notes) {
  g->wanted |= notes;
}

void bd_dnn_allow_any_order(bd_dnn_graph *g) {
  g->any_order = 1;
}

static int64_t workspace_of(bd_dnn_graph *g, bd_dnn_item item, bd_dnn_name name) {
  int64_t bytes = 0;
  get(g, item, name, BD_DNN_TYPE_INT64, 1, &bytes);
  return bytes;
}

// Builds the plan of one engine: many compile their code here. An engine that cannot be had says
// nothing of the next one.
static bd_dnn_item plan_of(bd_dnn_graph *g, bd_dnn_item config) {
  const bd_dnn_attribute list[] = {
      {BD_DNN_EXECUTION_PLAN_HANDLE, BD_DNN_TYPE_HANDLE, 1, &g->dnn->handle},
      {BD_DNN_EXECUTION_PLAN_ENGINE_CONFIG, BD_DNN_TYPE_BACKEND_DESCRIPTOR, 1, &config}};
  return bd_dnn_make(g, BD_DNN_EXECUTION_PLAN_DESCRIPTOR, list, 2);
}

static void note_workspace(bd_dnn_graph *g, int64_t bytes, int64_t most) {
  if (!g->why[0])
    snprintf(g->why, sizeof g->why, "it needs %lld bytes of workspace, of %lld", (long long)bytes,
             (long long)most);
}

static bd_dnn_item choose(bd_dnn_graph *g, int64_t most, int64_t *out_bytes) {
  static const int modes[] = {BD_DNN_HEUR_MODE_A, BD_DNN_HEUR_MODE_FALLBACK};
  const bd_dnn_item operations = operation_graph(g);
  for (int m = 0; m < 2 && !g->refused; m++) {
    bd_dnn_item configs[MOST_CONFIGS];
    const int count = list_configs(g, operations, modes[m], configs);
    for (int i = 0; i < count && !g->refused; i++) {
      const int64_t bytes = workspace_of(g, configs[i], BD_DNN_ENGINECFG_WORKSPACE_SIZE);
      if (bytes > most) note_workspace(g, bytes, most);
      if (bytes > most || !suits(g, configs[i])) continue;
      const bd_dnn_item plan = plan_of(g, configs[i]);
      *out_bytes = workspace_of(g, plan, BD_DNN_EXECUTION_PLAN_WORKSPACE_SIZE);
      if (plan && *out_bytes <= most) return plan;
      g->refused = 0;
    }
  }
  if (!g->why[0]) snprintf(g->why, sizeof g->why, "cuDNN has no engine for it");
  return NULL;
}

bd_dnn_plan *bd_dnn_choose(bd_dnn_graph *g, int64_t most_workspace_bytes, char *why,
                           size_t why_bytes) {
  bd_dnn_plan *const p = bd_rt_allocate(1, sizeof *p);
  p->graph = g;
  p->plan = choose(g, most_workspace_bytes, &p->workspace_bytes);
  if (p->plan) return p;
  snprintf(why, why_bytes, "%s", g->why);
  bd_dnn_free(p);
  return NULL;
}

void bd_dnn_free(bd_dnn_plan *plan) {
  if (!plan) return;
  bd_dnn_discard(plan->graph);
  free(plan);
}

int64_t bd_dnn_workspace_bytes(const bd_dnn_plan *plan) {
  return plan->workspace_bytes;
}

static void expect(const bd_dnn *dnn, int status, const char *call) {
  char more[BD_DNN_WHY_BYTES] = "";
  if (status == BD_DNN_SUCCESS) return;
  dnn->get_last_error_string(more, sizeof more);
  bd_rt_fail(BD_RT_EXIT_EXTERNAL, "cuDNN failed: %s, in %s: %s", dnn->get_error_string(status),
             call, more);
}

static void use_stream(bd_dnn *dnn, cudaStream_t stream) {
  if (dnn->has_stream && dnn->stream == stream) return;
  expect(dnn, dnn->set_stream(dnn->handle, stream), "cudnnSetStream");
  dnn->stream = stream;
  dnn->has_stream = 1;
}

void bd_dnn_run(const bd_dnn_plan *plan, void *const *addresses, void *workspace,
                cudaStream_t stream) {
  bd_dnn_graph *const g = plan->graph;
  bd_dnn *const dnn = g->dnn;
  int64_t ids[BD_DNN_MOST_ADDRESSES];
  void *at[BD_DNN_MOST_ADDRESSES], *pack;
  int count = 0;
  for (int i = 0; i < g->buffer_count; i++, count++)
    ids[count] = g->buffer[i], at[count] = addresses[i];
  for (int i = 0; i < g->constant_count; i++, count++)
    ids[count] = g->constant[i], at[count] = &g->value[i];
  const bd_dnn_attribute list[] = {
      {BD_DNN_VARIANT_PACK_UNIQUE_IDS, BD_DNN_TYPE_INT64, count, ids},
      {BD_DNN_VARIANT_PACK_DATA_POINTERS, BD_DNN_TYPE_VOID_PTR, count, at},
      {BD_DNN_VARIANT_PACK_WORKSPACE, BD_DNN_TYPE_VOID_PTR, 1, &workspace}};
  use_stream(dnn, stream);
  expect(dnn, dnn->create_descriptor(BD_DNN_VARIANT_PACK_DESCRIPTOR, &pack), "a variant pack");
  for (int i = 0; i < 3; i++)
    expect(dnn,
           dnn->set_attribute(pack, (int)list[i].name, (int)list[i].type, list[i].count,
                              list[i].values),
           "a variant pack");
  expect(dnn, dnn->finalize(pack), "a variant pack");
  expect(dnn, dnn->execute(dnn->handle, plan->plan, pack), "cudnnBackendExecute");
  expect(dnn, dnn->destroy_descriptor(pack), "a variant pack");
}
