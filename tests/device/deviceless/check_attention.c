// Graphs of attention, given to cuDNN itself for devices that are not there: it must have an engine
// for each in the workspace that programs leave to libraries, which is counted without asking it.
//   check_attention DEVICE: 80, 90 or 100, the compute capability.
#include "ir/memory.h"
#include "runtime/cuda/attention.h"
#include "tests/device/deviceless/describe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct trial {
  const char *name;
  int64_t batch, tq, tk, kv_heads, group, d;
  int causal, dtype;
  int fits; // the gradient of so much at once
  int part; // the last queries of as many as there are keys
  int64_t window;
  int tile;    // its gradients lie apart
  int64_t d_v; // of values; 0: as wide as keys
  double softcap;
} trial;

// Of gradients, a part as the runtime cuts it. Heads that tell padding apart are 8 elements wider.
static const trial trials[] = {
    {"GPT-2, one sample of 1024 tokens", 1, 1024, 1024, 12, 1, 64, 1, BD_RT_BF16, 1, 0, 0, 0, 0, 0},
    {"GPT-2, four samples", 4, 1024, 1024, 12, 1, 64, 1, BD_RT_BF16, 1, 0, 0, 0, 0, 0},
    {"GPT-2, two samples of 25 heads", 2, 1024, 1024, 25, 1, 64, 1, BD_RT_BF16, 1, 0, 0, 0, 0, 0},
    {"Llama 3, one head of 8192 tokens", 1, 8192, 8192, 1, 4, 128, 1, BD_RT_BF16, 1, 0, 0, 0, 0, 0},
    {"Llama 3, a head of 1024 tokens", 1, 1024, 1024, 1, 4, 128, 1, BD_RT_BF16, 1, 0, 0, 0, 0, 0},
    {"BERT in f16, all keys seen", 2, 512, 512, 12, 1, 64, 0, BD_RT_F16, 1, 0, 0, 0, 0, 0},
    {"tests' Mixtral", 8, 24, 24, 2, 2, 8, 1, BD_RT_BF16, 1, 0, 0, 0, 0, 0},
    {"an odd number of tokens", 2, 101, 101, 4, 1, 32, 1, BD_RT_BF16, 1, 0, 0, 0, 0, 0},
    {"one head of 4096 tokens", 1, 4096, 4096, 1, 1, 64, 1, BD_RT_BF16, 1, 0, 0, 0, 0, 0},
    {"one head, more queries than keys", 1, 5000, 3001, 1, 3, 64, 0, BD_RT_F16, 1, 0, 0, 0, 0, 0},
    {"one head, more keys than queries", 1, 3001, 5000, 1, 1, 128, 0, BD_RT_BF16, 1, 0, 0, 0, 0, 0},
    {"BERT-base, padded", 2, 512, 512, 12, 1, 72, 0, BD_RT_BF16, 1, 0, 0, 0, 0, 0},
    {"heads of 32 in f16, padded", 4, 128, 128, 4, 1, 40, 0, BD_RT_F16, 1, 0, 0, 0, 0, 0},
    {"heads of 128, padded", 2, 512, 512, 8, 1, 136, 0, BD_RT_BF16, 1, 0, 0, 0, 0, 0},
    {"one head of 32768 tokens", 1, 32768, 32768, 1, 1, 64, 1, BD_RT_BF16, 0, 0, 0, 0, 0, 0},
    {"the second half of 2048 tokens", 2, 1024, 2048, 2, 4, 128, 1, BD_RT_BF16, 1, 1, 0, 0, 0, 0},
    {"the last 4096 of 32768 tokens", 1, 4096, 32768, 1, 4, 128, 1, BD_RT_BF16, 1, 1, 0, 0, 0, 0},
    {"the last 1024 of 131072 tokens", 1, 1024, 131072, 1, 4, 128, 1, BD_RT_BF16, 1, 1, 0, 0, 0, 0},
    {"an eighth of 1000 tokens in f16", 2, 125, 500, 4, 1, 64, 1, BD_RT_F16, 1, 1, 0, 0, 0, 0},
    {"Mistral, one head of 8192 tokens", 1, 8192, 8192, 1, 4, 128, 1, BD_RT_BF16, 1, 0, 4096, 0, 0,
     0},
    {"a window of fewer keys than a tile", 2, 500, 500, 2, 1, 64, 1, BD_RT_F16, 1, 0, 40, 0, 0, 0},
    {"a window of all keys but one", 2, 1024, 1024, 2, 2, 128, 1, BD_RT_BF16, 1, 0, 1023, 0, 0, 0},
    {"its own key alone", 2, 128, 128, 2, 1, 64, 1, BD_RT_BF16, 1, 0, 1, 0, 0, 0},
    {"a window of heads of 128, padded", 2, 512, 512, 8, 1, 136, 1, BD_RT_BF16, 1, 0, 100, 0, 0, 0},
    {"a part of the queries, and the window before", 1, 1024, 5119, 1, 4, 128, 1, BD_RT_BF16, 1, 1,
     4096, 0, 0, 0},
    {"a part whose window is before all", 1, 1024, 2048, 1, 4, 128, 1, BD_RT_BF16, 1, 1, 1500, 0, 0,
     0},
    {"an eighth, and a window of less", 2, 125, 154, 4, 1, 64, 1, BD_RT_F16, 1, 1, 30, 0, 0, 0},
    {"a part of queries that see all keys", 1, 512, 4096, 4, 2, 64, 0, BD_RT_BF16, 1, 0, 0, 0, 0,
     0},
    {"a tile of 8192 rows", 1, 8192, 8192, 1, 4, 128, 0, BD_RT_BF16, 1, 0, 0, 1, 0, 0},
    {"a tile on the diagonal", 1, 8192, 8192, 1, 4, 128, 1, BD_RT_BF16, 1, 0, 0, 1, 0, 0},
    {"a tile of 4096 rows and their windows", 1, 4096, 8191, 1, 4, 128, 1, BD_RT_BF16, 1, 1, 4096,
     1, 0, 0},
    {"DeepSeek, two heads of 4096 tokens", 1, 4096, 4096, 2, 1, 192, 1, BD_RT_BF16, 1, 0, 0, 0, 128,
     0},
    {"the second half of DeepSeek's 2048", 2, 1024, 2048, 2, 1, 192, 1, BD_RT_BF16, 1, 1, 0, 0, 128,
     0},
    {"a tile of DeepSeek's", 1, 8192, 8192, 1, 1, 192, 0, BD_RT_BF16, 1, 0, 0, 1, 128, 0},
    {"Gemma 2 9B, a head of 8192 tokens", 1, 8192, 8192, 1, 2, 256, 1, BD_RT_BF16, 1, 0, 0, 0, 0,
     50},
    {"Gemma 2 27B, its window", 1, 8192, 8192, 1, 2, 128, 1, BD_RT_BF16, 1, 0, 4096, 0, 0, 50},
    {"a cap, all keys seen", 2, 512, 512, 12, 1, 64, 0, BD_RT_F16, 1, 0, 0, 0, 0, 50},
    {"a cap, half of the queries", 2, 1024, 2048, 2, 4, 128, 1, BD_RT_BF16, 1, 1, 0, 0, 0, 50},
    {"a tile of 16384 rows of one head in f16", 1, 16384, 16384, 1, 1, 64, 1, BD_RT_F16, 1, 0, 0, 1,
     0, 0},
};

typedef enum way { FORWARD, BACKWARD, ANY_ORDER, WAYS } way;

static int64_t values_of(const trial *t) {
  return t->d_v ? t->d_v : t->d;
}

static bd_cuda_attention shape_of(const trial *t, way way) {
  const int64_t q_row = t->kv_heads * t->group * t->d, k_row = t->kv_heads * t->d,
                out_row = t->kv_heads * t->group * values_of(t), v_row = t->kv_heads * values_of(t),
                lse_row = t->kv_heads * t->group;
  return (bd_cuda_attention){.batch = t->batch,
                             .tq = t->tq,
                             .tk = t->tk,
                             .kv_heads = t->kv_heads,
                             .group = t->group,
                             .d = t->d,
                             .d_v = values_of(t),
                             .first = t->part ? t->tk - t->tq : 0,
                             .keys = t->tk,
                             .window = t->window,
                             .softcap = t->softcap,
                             .q_batch = t->tq * q_row,
                             .q_row = q_row,
                             .k_batch = t->tk * k_row,
                             .k_row = k_row,
                             .v_batch = t->tk * v_row,
                             .v_row = v_row,
                             .out_batch = t->tq * out_row,
                             .out_row = out_row,
                             .lse_batch = t->tq * lse_row,
                             .lse_row = lse_row,
                             .scale = 0.125f,
                             .causal = t->causal,
                             .dtype = t->dtype,
                             .gradient = way != FORWARD,
                             .any_order = way == ANY_ORDER,
                             .apart = way == BACKWARD && t->tile};
}

// What the library segment has for a model of this attention, at least.
static int64_t workspace_for(const trial *t) {
  const int64_t least = BD_LIBRARY_LEAST_BYTES - BD_LIBRARY_KEPT_BYTES,
                heads = bd_memory_attention_heads(t->group, t->tq, t->tk, t->d, values_of(t)),
                counted =
                    bd_memory_attention_bytes(heads, t->group, t->tq, t->tk, t->d, values_of(t));
  return counted > least ? counted : least;
}

// It wants no more than is counted for its heads.
static int as_counted(const trial *t, int64_t bytes) {
  return bytes <= bd_memory_attention_bytes(t->batch * t->kv_heads, t->group, t->tq, t->tk, t->d,
                                            values_of(t));
}

// Gradients of heads of more than 128, and of capped scores, are for Hopper; of capped scores and
// of DeepSeek's heads Blackwell has those in any order. Generated kernels do the others.
static int has_engine(const trial *t, way way, int capability) {
  const int wide = t->d > 128, deepseek = t->d == 192 && values_of(t) == 128;
  if (way == FORWARD || capability == 90) return 1;
  if (!wide && t->softcap == 0) return 1;
  return capability == 100 && way == ANY_ORDER && (!wide || (deepseek && t->softcap == 0));
}

static int check(bd_dnn *dnn, const trial *t, way way, int capability) {
  static const char *const names[] = {"forward", "backward", "backward in any order"};
  char why[256] = "";
  const bd_cuda_attention shape = shape_of(t, way);
  bd_dnn_graph *const graph = bd_dnn_begin(dnn);
  if (way != FORWARD)
    bd_cuda_attention_grad_graph(graph, &shape);
  else
    bd_cuda_attention_graph(graph, &shape);
  bd_dnn_plan *const plan = bd_dnn_choose(
      graph, workspace_for(t) - bd_cuda_attention_wide_bytes(&shape), why, sizeof why);
  const int has = has_engine(t, way, capability), expected = has && (way != BACKWARD || t->fits);
  printf("%s, %s: ", t->name, names[way]);
  if (plan)
    printf("%lld bytes of workspace\n", (long long)bd_dnn_workspace_bytes(plan));
  else
    printf("%s\n", why);
  int good = expected ? plan != NULL
                      : !plan && strstr(why, has ? "bytes of workspace" : "no engine") != NULL;
  if (plan && way == BACKWARD) good = good && as_counted(t, bd_dnn_workspace_bytes(plan));
  bd_dnn_free(plan);
  if (!good) printf("FAIL\n");
  return good;
}

int main(int count, char **arguments) {
  int bad = 0;
  if (count != 2) return 2;
  const int capability = atoi(arguments[1]);
  bd_dnn *const dnn = open_described(capability);
  for (size_t i = 0; i < sizeof trials / sizeof *trials; i++)
    for (int way = FORWARD; way < WAYS; way++)
      bad += !check(dnn, &trials[i], way, capability);
  bd_dnn_close(dnn);
  return bad != 0;
}
