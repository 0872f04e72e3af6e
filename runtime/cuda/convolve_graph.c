#include "runtime/cuda/convolve_graph.h"
#include "runtime/rank.h"

enum { FILTER_ALIGNMENT = 16 };

int bd_cuda_conv_filters_dtype(const bd_cuda_convolution *c) {
  return c->rounded ? c->s.dtype : BD_RT_F32;
}

static bd_dnn_data data_of(int dtype) {
  return dtype == BD_RT_F32 ? BD_DNN_FLOAT : dtype == BD_RT_F16 ? BD_DNN_HALF : BD_DNN_BFLOAT16;
}

// The first of the three dimensions that count: signals are images of one row.
static int first_of(const bd_rt_conv *s) {
  return s->x[0] == 1 && s->k[0] == 1 && s->y[0] == 1 && s->before[0] == 0;
}

// Blocks of channels and points in the library's order of dimensions, which the strides undo.
static bd_dnn_tensor tensor_of(const bd_rt_conv *s, int64_t blocks, int64_t channels,
                               const int64_t extents[3], int last, int dtype, int alignment) {
  const int first = first_of(s), rank = 5 - first;
  bd_dnn_tensor t = {.data = data_of(dtype), .rank = rank, .alignment = alignment};
  int64_t stride = last ? channels : 1;
  t.dims[0] = blocks, t.dims[1] = channels;
  for (int d = rank - 1; d >= 2; d--) {
    t.dims[d] = extents[d - 2 + first];
    t.strides[d] = stride;
    stride *= t.dims[d];
  }
  t.strides[1] = last ? 1 : stride;
  t.strides[0] = last ? stride : stride * channels;
  return t;
}

// Padding after the end that gives as many windows: as before it where that does.
static int64_t after_of(const bd_rt_conv *s, int d) {
  const int64_t reach = (s->k[d] - 1) * s->dilation[d] + 1;
  const int64_t even = (s->x[d] + 2 * s->before[d] - reach) / s->stride[d] + 1;
  const int64_t least = (s->y[d] - 1) * s->stride[d] + reach - s->x[d] - s->before[d];
  return even == s->y[d] ? s->before[d] : least > 0 ? least : 0;
}

static bd_dnn_item windows_of(bd_dnn_graph *g, const bd_rt_conv *s) {
  const int first = first_of(s);
  const bd_dnn_data math = BD_DNN_FLOAT;
  const int mode = BD_DNN_CROSS_CORRELATION;
  const int64_t spatial = 3 - first;
  int64_t after[3];
  for (int d = 0; d < 3; d++)
    after[d] = after_of(s, d);
  const bd_dnn_attribute list[] = {
      {BD_DNN_CONVOLUTION_COMP_TYPE, BD_DNN_TYPE_DATA_TYPE, 1, &math},
      {BD_DNN_CONVOLUTION_CONV_MODE, BD_DNN_TYPE_CONVOLUTION_MODE, 1, &mode},
      {BD_DNN_CONVOLUTION_SPATIAL_DIMS, BD_DNN_TYPE_INT64, 1, &spatial},
      {BD_DNN_CONVOLUTION_DILATIONS, BD_DNN_TYPE_INT64, spatial, s->dilation + first},
      {BD_DNN_CONVOLUTION_FILTER_STRIDES, BD_DNN_TYPE_INT64, spatial, s->stride + first},
      {BD_DNN_CONVOLUTION_PRE_PADDINGS, BD_DNN_TYPE_INT64, spatial, s->before + first},
      {BD_DNN_CONVOLUTION_POST_PADDINGS, BD_DNN_TYPE_INT64, spatial, after + first}};
  return bd_dnn_make(g, BD_DNN_CONVOLUTION_DESCRIPTOR, list, 7);
}

// Attributes of the three operations: the names of alpha, beta and the windows come one after
// another, those of the filters and of the two images lie elsewhere.
typedef struct operation {
  bd_dnn_kind kind;
  bd_dnn_name alpha, beta, windows, w, x, y;
} operation;

static const operation operations[] = {
    {BD_DNN_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, BD_DNN_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     BD_DNN_OPERATION_CONVOLUTION_FORWARD_BETA, BD_DNN_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     BD_DNN_OPERATION_CONVOLUTION_FORWARD_W, BD_DNN_OPERATION_CONVOLUTION_FORWARD_X,
     BD_DNN_OPERATION_CONVOLUTION_FORWARD_Y},
    {BD_DNN_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     BD_DNN_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, BD_DNN_OPERATION_CONVOLUTION_BWD_DATA_BETA,
     BD_DNN_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, BD_DNN_OPERATION_CONVOLUTION_BWD_DATA_W,
     BD_DNN_OPERATION_CONVOLUTION_BWD_DATA_DX, BD_DNN_OPERATION_CONVOLUTION_BWD_DATA_DY},
    {BD_DNN_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     BD_DNN_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, BD_DNN_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
     BD_DNN_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, BD_DNN_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     BD_DNN_OPERATION_CONVOLUTION_BWD_FILTER_X, BD_DNN_OPERATION_CONVOLUTION_BWD_FILTER_DY},
};

static void add_convolution(bd_dnn_graph *g, const bd_cuda_convolution *c, bd_dnn_item x,
                            bd_dnn_item w, bd_dnn_item y) {
  const operation *const o = &operations[c->kind];
  const bd_dnn_item windows = windows_of(g, &c->s);
  const float alpha = 1, beta = 0;
  const bd_dnn_attribute list[] = {{o->alpha, BD_DNN_TYPE_FLOAT, 1, &alpha},
                                   {o->beta, BD_DNN_TYPE_FLOAT, 1, &beta},
                                   {o->windows, BD_DNN_TYPE_BACKEND_DESCRIPTOR, 1, &windows},
                                   {o->w, BD_DNN_TYPE_BACKEND_DESCRIPTOR, 1, &w},
                                   {o->x, BD_DNN_TYPE_BACKEND_DESCRIPTOR, 1, &x},
                                   {o->y, BD_DNN_TYPE_BACKEND_DESCRIPTOR, 1, &y}};
  bd_dnn_operation(g, o->kind, list, 6);
}

// The library adds up halves into f32 and gives f32 only as what a further operation makes.
static bd_dnn_item filters_of(bd_dnn_graph *g, const bd_cuda_convolution *c) {
  const bd_rt_conv *const s = &c->s;
  const bd_dnn_tensor made = tensor_of(s, s->o, s->c / s->groups, s->k, 1,
                                       bd_cuda_conv_filters_dtype(c), FILTER_ALIGNMENT);
  const bd_dnn_item out = bd_dnn_buffer(g, &made);
  if (made.data == data_of(s->dtype)) return out;
  const bd_dnn_item sums = bd_dnn_inner(g, &made);
  bd_dnn_add_pointwise(
      g, &(bd_dnn_pointwise){.mode = BD_DNN_IDENTITY, .math = BD_DNN_FLOAT, .x = sums, .y = out});
  return sums;
}

// Engines that round otherwise than products of f32 sums do are not asked.
static unsigned avoided(const bd_cuda_convolution *c) {
  unsigned notes = 1u << BD_DNN_NOTE_REDUCED_PRECISION_REDUCTION | 1u << BD_DNN_NOTE_FFT |
                   1u << BD_DNN_NOTE_WINOGRAD;
  if (c->s.dtype == BD_RT_F32 && !c->tf32)
    notes |= 1u << BD_DNN_NOTE_TENSOR_CORE | 1u << BD_DNN_NOTE_DOWN_CONVERT_INPUTS;
  return notes;
}

void bd_cuda_conv_graph(bd_dnn_graph *g, const bd_cuda_convolution *c) {
  const bd_rt_conv *const s = &c->s;
  const int last = s->channels_last != 0;
  const bd_dnn_tensor xs = tensor_of(s, s->n, s->c, s->x, last, s->dtype, c->alignment),
                      ys = tensor_of(s, s->n, s->o, s->y, last, s->dtype, c->alignment),
                      ws =
                          tensor_of(s, s->o, s->c / s->groups, s->k, 0, s->dtype, FILTER_ALIGNMENT);
  bd_dnn_avoid(g, avoided(c));
  if (c->tensor_cores) bd_dnn_want(g, 1u << BD_DNN_NOTE_TENSOR_CORE);
  if (c->kind == BD_CUDA_CONV_FORWARD) {
    const bd_dnn_item x = bd_dnn_buffer(g, &xs), w = bd_dnn_buffer(g, &ws);
    add_convolution(g, c, x, w, bd_dnn_buffer(g, &ys));
  } else if (c->kind == BD_CUDA_CONV_DX) {
    const bd_dnn_item y = bd_dnn_buffer(g, &ys), w = bd_dnn_buffer(g, &ws);
    add_convolution(g, c, bd_dnn_buffer(g, &xs), w, y);
  } else {
    const bd_dnn_item x = bd_dnn_buffer(g, &xs), y = bd_dnn_buffer(g, &ys);
    add_convolution(g, c, x, filters_of(g, c), y);
  }
}
