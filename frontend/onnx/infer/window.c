// Convolutions and pools: windows that slide over the dimensions after batch and channels.
#include "frontend/onnx/infer/window.h"
#include <string.h>

enum { MOST_SIZE = 1 << 30 }; // of windows, strides, padding: no sum of products of them overflows

static bool within(const int64_t *list, int count, int64_t least) {
  for (int i = 0; list && i < count; i++)
    if (list[i] < least || list[i] > MOST_SIZE) return false;
  return true;
}

// SAME_UPPER and SAME_LOWER: as many results as strides fit, the padding shared out.
static void pad_same(bd_onnx_window *window, const bd_onnx_number *extents, bool upper) {
  for (int d = 0; d < window->rank; d++) {
    int64_t extent = extents[d].integer, stride = window->stride[d];
    int64_t covered = ((extent + stride - 1) / stride - 1) * stride +
                      (window->size[d] - 1) * window->dilation[d] + 1;
    int64_t padding = covered > extent ? covered - extent : 0;
    window->before[d] = upper ? padding / 2 : (padding + 1) / 2;
    window->after[d] = padding - window->before[d];
  }
}

bd_status bd_onnx_window_read(const bd_onnx_step *step, const bd_onnx_number *kernel,
                              bd_onnx_window *out_window) {
  const bd_onnx_fact *in = step->in[0];
  int rank = in->rank - 2;
  *out_window = (bd_onnx_window){.rank = rank};
  if (rank < 1)
    return bd_onnx_step_fail(step, BD_INVALID, "its operand has %d dimensions", in->rank);
  const int64_t *size, *stride, *dilation, *pads;
  BD_TRY(bd_onnx_ints(step, "kernel_shape", rank, &size));
  BD_TRY(bd_onnx_ints(step, "strides", rank, &stride));
  BD_TRY(bd_onnx_ints(step, "dilations", rank, &dilation));
  BD_TRY(bd_onnx_ints(step, "pads", 2 * rank, &pads));
  if ((!size && !kernel) || !within(size, rank, 1) || !within(stride, rank, 1) ||
      !within(dilation, rank, 1) || !within(pads, 2 * rank, -MOST_SIZE))
    return bd_onnx_step_fail(step, BD_INVALID,
                             "its kernel_shape, strides, dilations or pads are out of range");
  for (int d = 0; d < rank; d++) {
    if (in->dims[d + 2].batch ||
        (kernel && (kernel[d].batch || kernel[d].integer < 1 || kernel[d].integer > MOST_SIZE ||
                    (size && size[d] != kernel[d].integer))))
      return bd_onnx_step_fail(step, BD_INVALID, "its windows do not fit its operands");
    out_window->size[d] = kernel ? kernel[d].integer : size[d];
    out_window->stride[d] = stride ? stride[d] : 1;
    out_window->dilation[d] = dilation ? dilation[d] : 1;
    out_window->before[d] = pads ? pads[d] : 0;
    out_window->after[d] = pads ? pads[rank + d] : 0;
  }
  const char *padding = bd_onnx_text(step, "auto_pad", "NOTSET");
  out_window->same = strncmp(padding, "SAME_", 5) == 0;
  if (out_window->same) pad_same(out_window, in->dims + 2, strcmp(padding, "SAME_UPPER") == 0);
  return BD_OK;
}

static bd_status fail_large(const bd_onnx_step *step, int d) {
  return bd_onnx_step_fail(step, BD_INVALID, "its window is larger than dimension %d with padding",
                           d + 2);
}

// Extents of the result after the first two.
static bd_status slide(const bd_onnx_step *step, const bd_onnx_window *window,
                       bd_onnx_number *out) {
  bool up = bd_onnx_int(step, "ceil_mode", 0) != 0;
  for (int d = 0; d < window->rank; d++) {
    int64_t extent = step->in[0]->dims[d + 2].integer, stride = window->stride[d];
    int64_t room = extent + window->before[d] + window->after[d] -
                   (window->size[d] - 1) * window->dilation[d] - 1;
    if (room < 0) return fail_large(step, d);
    int64_t steps = (room + (up ? stride - 1 : 0)) / stride;
    // A window that would begin in the padding after the end is none.
    if (up && steps * stride >= extent + window->before[d]) steps--;
    out[d] = bd_onnx_whole(steps + 1);
  }
  return BD_OK;
}

static bd_status infer_conv(bd_onnx_step *step) {
  const bd_onnx_fact *x = step->in[0], *w = step->in[1], *bias = step->in[2];
  bd_onnx_window window;
  bd_onnx_number dims[BD_MAX_RANK], channels;
  int64_t groups = bd_onnx_int(step, "group", 1);
  if (x->rank < 3 || w->rank != x->rank)
    return bd_onnx_step_fail(step, BD_INVALID, "its operands have %d and %d dimensions", x->rank,
                             w->rank);
  BD_TRY(bd_onnx_window_read(step, w->dims + 2, &window));
  bool good = groups >= 1 && bd_onnx_multiply(w->dims[1], bd_onnx_whole(groups), &channels) &&
              bd_onnx_same(channels, x->dims[1]) && !w->dims[0].batch &&
              w->dims[0].integer % groups == 0;
  good = good && (!bias || (bias->rank == 1 && bd_onnx_same(bias->dims[0], w->dims[0])));
  if (!good)
    return bd_onnx_step_fail(step, BD_INVALID,
                             "its image %s, kernel %s and groups %lld do not agree",
                             bd_onnx_dims_text(step->ctx, x->rank, x->dims),
                             bd_onnx_dims_text(step->ctx, w->rank, w->dims), (long long)groups);
  dims[0] = x->dims[0];
  dims[1] = w->dims[0];
  BD_TRY(slide(step, &window, dims + 2));
  return bd_onnx_shape(step, 0, x->rank, dims);
}

static bd_status infer_conv_transpose(bd_onnx_step *step) {
  const bd_onnx_fact *x = step->in[0], *w = step->in[1];
  bd_onnx_window window;
  bd_onnx_number dims[BD_MAX_RANK];
  const int64_t *more, *asked;
  int64_t groups = bd_onnx_int(step, "group", 1);
  if (x->rank < 3 || w->rank != x->rank || !bd_onnx_same(x->dims[1], w->dims[0]) || groups < 1 ||
      !bd_onnx_multiply(w->dims[1], bd_onnx_whole(groups), &dims[1]))
    return bd_onnx_step_fail(step, BD_INVALID,
                             "its image %s, kernel %s and groups %lld do not agree",
                             bd_onnx_dims_text(step->ctx, x->rank, x->dims),
                             bd_onnx_dims_text(step->ctx, w->rank, w->dims), (long long)groups);
  BD_TRY(bd_onnx_window_read(step, w->dims + 2, &window));
  BD_TRY(bd_onnx_ints(step, "output_padding", window.rank, &more));
  BD_TRY(bd_onnx_ints(step, "output_shape", window.rank, &asked));
  if (!within(more, window.rank, 0) || !within(asked, window.rank, 0))
    return bd_onnx_step_fail(step, BD_INVALID,
                             "its output_padding or output_shape is out of range");
  dims[0] = x->dims[0];
  for (int d = 0; d < window.rank; d++) {
    int64_t extent = x->dims[d + 2].integer, stride = window.stride[d];
    if (extent > MOST_SIZE) return fail_large(step, d);
    int64_t made = stride * (extent - 1) + (window.size[d] - 1) * window.dilation[d] + 1 +
                   (more ? more[d] : 0) - window.before[d] - window.after[d];
    if (window.same) made = extent * stride;
    dims[d + 2] = bd_onnx_whole(asked ? asked[d] : made);
  }
  return bd_onnx_shape(step, 0, x->rank, dims);
}

static bd_status infer_pool(bd_onnx_step *step) {
  const bd_onnx_fact *x = step->in[0];
  bd_onnx_window window;
  bd_onnx_number dims[BD_MAX_RANK];
  BD_TRY(bd_onnx_window_read(step, NULL, &window));
  dims[0] = x->dims[0];
  dims[1] = x->dims[1];
  BD_TRY(slide(step, &window, dims + 2));
  BD_TRY(bd_onnx_shape(step, 0, x->rank, dims));
  return step->out_count < 2 ? BD_OK : bd_onnx_shape(step, 1, x->rank, dims);
}

static bd_status infer_global_pool(bd_onnx_step *step) {
  const bd_onnx_fact *x = step->in[0];
  bd_onnx_number dims[BD_MAX_RANK];
  if (x->rank < 3)
    return bd_onnx_step_fail(step, BD_INVALID, "its operand has %d dimensions", x->rank);
  for (int d = 0; d < x->rank; d++)
    dims[d] = d < 2 ? x->dims[d] : bd_onnx_whole(1);
  return bd_onnx_shape(step, 0, x->rank, dims);
}

#define WINDOW "auto_pad:s{NOTSET,SAME_UPPER,SAME_LOWER,VALID} kernel_shape:I pads:I strides:I"
static const bd_onnx_rule rules[] = {
    {"AveragePool", 1, "f=f", WINDOW, 0, infer_pool, NULL},
    {"AveragePool", 7, "f=f", WINDOW " count_include_pad:i", 0, infer_pool, NULL},
    {"AveragePool", 10, "f=f", WINDOW " count_include_pad:i ceil_mode:i", 0, infer_pool, NULL},
    {"AveragePool", 19, "f=f", WINDOW " count_include_pad:i ceil_mode:i dilations:I", 0, infer_pool,
     NULL},
    {"Conv", 1, "fff?=f", WINDOW " dilations:I group:i", 0, infer_conv, NULL},
    {"ConvTranspose", 1, "fff?=f", WINDOW " dilations:I group:i output_padding:I output_shape:I", 0,
     infer_conv_transpose, NULL},
    {"GlobalAveragePool", 1, "f=f", "", 0, infer_global_pool, NULL},
    {"GlobalMaxPool", 1, "f=f", "", 0, infer_global_pool, NULL},
    {"MaxPool", 1, "f=f", WINDOW, 0, infer_pool, NULL},
    {"MaxPool", 8, "f=fl?", WINDOW " storage_order:i", 0, infer_pool, NULL},
    {"MaxPool", 10, "n=nl?", WINDOW " storage_order:i ceil_mode:i dilations:I", 0, infer_pool,
     NULL},
};
const bd_onnx_rules bd_onnx_window_rules = {sizeof rules / sizeof *rules, rules};
