// Convolutions as graphs of cuDNN.
#ifndef BD_RT_CUDA_CONVOLVE_GRAPH_H
#define BD_RT_CUDA_CONVOLVE_GRAPH_H
#include "runtime/braid_rt.h"
#include "runtime/cuda/dnn.h"

// One of the three, of the shape `s` (of its out_dtype nothing is asked). The gradient of filters
// is made as [o, k.., c / groups]: of halves in f32, or `rounded` to them.
typedef enum bd_cuda_conv_kind {
  BD_CUDA_CONV_FORWARD, // buffers x, w, y
  BD_CUDA_CONV_DX,      // dy, w, dx
  BD_CUDA_CONV_DW,      // x, dy, dw
} bd_cuda_conv_kind;
typedef struct bd_cuda_convolution {
  bd_rt_conv s;
  bd_cuda_conv_kind kind;
  int rounded;
  int alignment;    // bytes that addresses of images are multiples of
  int tensor_cores; // engines without them are not asked
  int tf32;         // operands of f32 may be rounded to 10 binary digits
} bd_cuda_convolution;
enum { BD_CUDA_CONV_BUFFERS = 3 };

void bd_cuda_conv_graph(bd_dnn_graph *graph, const bd_cuda_convolution *c);
// Element type of what a gradient of filters is made in.
int bd_cuda_conv_filters_dtype(const bd_cuda_convolution *c);
#endif
