// Graphs of attention, given to cuDNN itself for devices that are not there: it must have an engine
// for each in the workspace that programs leave to libraries.
//   check_attention DEVICE: 80, 90 or 100, the compute capability.
#include "runtime/cuda/attention.h"
#include "tests/device/deviceless/describe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKSPACE = 31 << 20 };

typedef struct trial {
  const char *name;
  int64_t batch, tq, tk, kv_heads, group, d;
  int causal, dtype;
  int fits; // the gradient of so much at once
} trial;

// Of gradients, a part as the runtime cuts it.
static const trial trials[] = {
    {"GPT-2, one sample of 1024 tokens", 1, 1024, 1024, 12, 1, 64, 1, BD_RT_BF16, 1},
    {"Llama 3, one head of 8192 tokens", 1, 8192, 8192, 1, 4, 128, 1, BD_RT_BF16, 0},
    {"Llama 3, a head of 1024 tokens", 1, 1024, 1024, 1, 4, 128, 1, BD_RT_BF16, 1},
    {"BERT in f16, all keys seen", 2, 512, 512, 12, 1, 64, 0, BD_RT_F16, 1},
    {"tests' Mixtral", 8, 24, 24, 2, 2, 8, 1, BD_RT_BF16, 1},
    {"an odd number of tokens", 2, 101, 101, 4, 1, 32, 1, BD_RT_BF16, 1},
};

static bd_cuda_attention shape_of(const trial *t, int gradient) {
  const int64_t q_row = t->kv_heads * t->group * t->d, k_row = t->kv_heads * t->d,
                lse_row = t->kv_heads * t->group;
  return (bd_cuda_attention){.batch = t->batch,
                             .tq = t->tq,
                             .tk = t->tk,
                             .kv_heads = t->kv_heads,
                             .group = t->group,
                             .d = t->d,
                             .q_batch = t->tq * q_row,
                             .q_row = q_row,
                             .k_batch = t->tk * k_row,
                             .k_row = k_row,
                             .lse_batch = t->tq * lse_row,
                             .lse_row = lse_row,
                             .scale = 0.125f,
                             .causal = t->causal,
                             .dtype = t->dtype,
                             .gradient = gradient};
}

static int check(bd_dnn *dnn, const trial *t, int gradient) {
  char why[256] = "";
  const bd_cuda_attention shape = shape_of(t, gradient);
  bd_dnn_graph *const graph = bd_dnn_begin(dnn);
  if (gradient)
    bd_cuda_attention_grad_graph(graph, &shape);
  else
    bd_cuda_attention_graph(graph, &shape);
  bd_dnn_plan *const plan = bd_dnn_choose(graph, WORKSPACE, why, sizeof why);
  const int expected = !gradient || t->fits;
  printf("%s, %s: ", t->name, gradient ? "backward" : "forward");
  if (plan)
    printf("%lld bytes of workspace\n", (long long)bd_dnn_workspace_bytes(plan));
  else
    printf("%s\n", why);
  const int good = expected ? plan != NULL : !plan && strstr(why, "bytes of workspace") != NULL;
  bd_dnn_free(plan);
  if (!good) printf("FAIL\n");
  return good;
}

int main(int count, char **arguments) {
  int bad = 0;
  if (count != 2) return 2;
  bd_dnn *const dnn = open_described(atoi(arguments[1]));
  for (size_t i = 0; i < sizeof trials / sizeof *trials; i++)
    for (int gradient = 0; gradient < 2; gradient++)
      bad += !check(dnn, &trials[i], gradient);
  bd_dnn_close(dnn);
  return bad != 0;
}
