// Graphs of convolutions, given to cuDNN itself for devices that are not there: it must have an
// engine for each, of halves one for tensor cores, in the workspace that programs leave to
// libraries, for as many images at once as the table says.
//   check_convolution DEVICE: 80, 90 or 100, the compute capability.
#include "runtime/cuda/convolve_graph.h"
#include "tests/device/deviceless/describe.h"

#include <string.h>

enum { WORKSPACE = 31 << 20 };

// Square images and filters, or cubes; pads are half a filter.
typedef struct trial {
  const char *name;
  int dimensions, dtype, channels_last;
  int64_t n, c, o, groups, x, k, stride;
  int64_t least; // images at once
  int rounded;   // the gradient of filters is had in halves alone
} trial;

static const trial trials[] = {
    {"ResNet-50, 7 x 7 of colors", 2, BD_RT_BF16, 1, 64, 3, 64, 1, 224, 7, 2, 16, 1},
    {"ResNet-50, 3 x 3 of 56 x 56", 2, BD_RT_BF16, 1, 256, 64, 64, 1, 56, 3, 1, 256, 0},
    {"ResNet-50, points of 56 x 56", 2, BD_RT_BF16, 1, 256, 64, 256, 1, 56, 1, 1, 256, 0},
    {"ResNet-50, points in steps of 2", 2, BD_RT_BF16, 1, 256, 256, 512, 1, 56, 1, 2, 256, 0},
    {"ResNet-50, 3 x 3 in steps of 2", 2, BD_RT_BF16, 1, 256, 128, 128, 1, 56, 3, 2, 256, 0},
    {"ResNet-50, 3 x 3 of 7 x 7, f16", 2, BD_RT_F16, 1, 256, 512, 512, 1, 7, 3, 1, 256, 0},
    {"U-Net, 3 x 3 x 3 of 64 x 64 x 64", 3, BD_RT_BF16, 1, 2, 32, 32, 1, 64, 3, 1, 2, 0},
    {"U-Net, 2 x 2 x 2 in steps of 2", 3, BD_RT_BF16, 1, 2, 32, 64, 1, 64, 2, 2, 2, 0},
    {"3 x 3 of 56 x 56 in f32", 2, BD_RT_F32, 1, 64, 64, 64, 1, 56, 3, 1, 1, 0},
};

static bd_cuda_convolution shape_of(const trial *t, bd_cuda_conv_kind kind, int64_t n) {
  bd_cuda_convolution c = {.s = {.n = n,
                                 .c = t->c,
                                 .o = t->o,
                                 .groups = t->groups,
                                 .dtype = t->dtype,
                                 .channels_last = t->channels_last},
                           .kind = kind,
                           .rounded = t->rounded && kind == BD_CUDA_CONV_DW,
                           .tensor_cores = t->dtype != BD_RT_F32,
                           .alignment = 16};
  for (int d = 0; d < 3; d++) {
    const int counts = d >= 3 - t->dimensions;
    const int64_t pad = counts && t->k % 2 ? t->k / 2 : 0;
    c.s.x[d] = counts ? t->x : 1;
    c.s.k[d] = counts ? t->k : 1;
    c.s.stride[d] = counts ? t->stride : 1;
    c.s.dilation[d] = 1;
    c.s.before[d] = pad;
    c.s.y[d] = counts ? (t->x + 2 * pad - t->k) / t->stride + 1 : 1;
  }
  return c;
}

static int check(bd_dnn *dnn, const trial *t, bd_cuda_conv_kind kind) {
  static const char *const kinds[] = {"forward", "gradient of images", "gradient of filters"};
  char why[256] = "";
  for (int64_t n = t->n; n >= t->least; n /= 2) {
    const bd_cuda_convolution c = shape_of(t, kind, n);
    bd_dnn_graph *const graph = bd_dnn_begin(dnn);
    bd_cuda_conv_graph(graph, &c);
    bd_dnn_plan *const plan = bd_dnn_choose(graph, WORKSPACE, why, sizeof why);
    if (!plan) continue;
    printf("%s, %s: %lld images at once, %lld bytes of workspace\n", t->name, kinds[kind],
           (long long)n, (long long)bd_dnn_workspace_bytes(plan));
    bd_dnn_free(plan);
    return 1;
  }
  printf("%s, %s: %s\nFAIL\n", t->name, kinds[kind], why);
  return 0;
}

int main(int count, char **arguments) {
  int bad = 0;
  if (count != 2) return 2;
  bd_dnn *const dnn = open_described(atoi(arguments[1]));
  for (size_t i = 0; i < sizeof trials / sizeof *trials; i++)
    for (int kind = BD_CUDA_CONV_FORWARD; kind <= BD_CUDA_CONV_DW; kind++)
      bad += !check(dnn, &trials[i], (bd_cuda_conv_kind)kind);
  bd_dnn_close(dnn);
  return bad != 0;
}
