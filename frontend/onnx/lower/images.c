// Convolutions and pools over images; signals of one dimension are images of one row.
#include "frontend/onnx/infer/window.h"
#include "frontend/onnx/lower/layout.h"

// One dimension of the graph for each of the model's, also of extent 1, and a row for signals.
static bd_status as_image(bd_onnx_lowering *l, const bd_onnx_step *step, int i, bd_id *out) {
  const bd_onnx_fact *in = step->in[i];
  bd_onnx_part part;
  int64_t dims[4];
  int at = 0;
  if (in->rank != 3 && in->rank != 4)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                             "slides over %d dimensions; braid's graph has windows of 1 and 2",
                             in->rank - 2);
  BD_TRY(bd_onnx_operand(l, step, i, &part));
  for (int d = 0; d < in->rank; d++) {
    if (in->dims[d].batch && in->dims[d].integer != 1)
      return bd_onnx_step_fail(step, BD_UNSUPPORTED, "has a multiple of the batch as a dimension");
    if (d == 2 && in->rank == 3) dims[at++] = 1;
    dims[at++] = in->dims[d].batch ? BD_DIM_BATCH : in->dims[d].integer;
  }
  return bd_onnx_emit_reshape(l, part.id, 4, dims, out);
}

// The layout of the model's result again, without extents of 1.
static bd_status from_image(bd_onnx_lowering *l, const bd_onnx_step *step, bd_id image,
                            bd_onnx_part *out) {
  bd_onnx_factors factors[BD_MAX_RANK] = {{0}};
  for (int d = 0; d < step->out[0].rank; d++)
    factors[d] = bd_onnx_factors_plain(step->out[0].dims[d]);
  out->id = image;
  return bd_onnx_refit(l, step, step->out[0].rank, factors, out);
}

// Windows without dilation; padding that differs before and after is made by the graph's pad.
static bd_status read_window(bd_onnx_lowering *l, const bd_onnx_step *step,
                             const bd_onnx_number *kernel, bool pads_apart, bd_id *x,
                             bd_onnx_window *window) {
  BD_TRY(bd_onnx_window_read(step, kernel, window));
  for (int d = 0; d < window->rank; d++) {
    int64_t before = window->before[d], after = window->after[d];
    if ((window->dilation[d] != 1 && window->size[d] != 1) || before < 0 || after < 0 ||
        bd_onnx_int(step, "ceil_mode", 0))
      return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                               "has dilations, negative padding or ceil_mode, which the graph's "
                               "windows have not");
    if (before == after) continue;
    if (!pads_apart)
      return bd_onnx_step_fail(step, BD_UNSUPPORTED, "pads one side more than the other");
    int dim = d + 4 - window->rank;
    int64_t extent = bd_onnx_type(l, *x)->dims[dim];
    bd_attr attrs[] = {bd_attr_int(l->ctx, "dim", dim), bd_attr_int(l->ctx, "start", before),
                       bd_attr_int(l->ctx, "size", extent + before + after)};
    BD_TRY(bd_onnx_emit(l, BD_OP_PAD, 1, x, 3, attrs, x));
    window->before[d] = window->after[d] = 0;
  }
  return BD_OK;
}

// Strides and padding of rows and columns; signals have one row.
static int window_attrs(bd_onnx_lowering *l, const bd_onnx_window *window, bd_attr attrs[4]) {
  bool rows = window->rank == 2;
  int last = window->rank - 1;
  attrs[0] = bd_attr_int(l->ctx, "stride_h", rows ? window->stride[0] : 1);
  attrs[1] = bd_attr_int(l->ctx, "stride_w", window->stride[last]);
  attrs[2] = bd_attr_int(l->ctx, "pad_h", rows ? window->before[0] : 0);
  attrs[3] = bd_attr_int(l->ctx, "pad_w", window->before[last]);
  return 4;
}

// Adds an element per channel to an image.
static bd_status add_bias(bd_onnx_lowering *l, const bd_onnx_step *step, bd_onnx_part *image) {
  int ranks[] = {step->out[0].rank, step->out[0].rank};
  bd_onnx_part pair[] = {*image, {0}}, bias;
  BD_TRY(bd_onnx_operand(l, step, 2, &bias));
  for (int d = 0; d <= step->out[0].rank; d++)
    pair[1].first[d] = d < 2 ? 0 : bias.first[1];
  pair[1].id = bias.id;
  BD_TRY(bd_onnx_align(l, step, 2, ranks, pair, step->out[0].rank, image));
  return bd_onnx_emit2(l, BD_OP_ADD, pair[0].id, pair[1].id, &image->id);
}

static bd_status lower_conv(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_id in[2], image;
  bd_onnx_window window;
  bd_attr attrs[5];
  bd_onnx_part out;
  for (int i = 0; i < 2; i++)
    BD_TRY(as_image(l, step, i, &in[i]));
  BD_TRY(read_window(l, step, step->in[1]->dims + 2, true, &in[0], &window));
  int count = window_attrs(l, &window, attrs);
  attrs[count++] = bd_attr_int(l->ctx, "groups", bd_onnx_int(step, "group", 1));
  BD_TRY(bd_onnx_emit(l, BD_OP_CONV2D, 2, in, count, attrs, &image));
  BD_TRY(from_image(l, step, image, &out));
  if (step->in[2]) BD_TRY(add_bias(l, step, &out));
  bd_onnx_made(l, step, 0, out);
  return BD_OK;
}

static bd_status lower_max_pool(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_id image;
  bd_onnx_window window;
  bd_attr attrs[6];
  bd_onnx_part out;
  if (step->out_count > 1 && step->node->out[1] != BD_ONNX_ABSENT)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "gives out where its maxima are");
  BD_TRY(as_image(l, step, 0, &image));
  BD_TRY(read_window(l, step, NULL, false, &image, &window));
  int count = window_attrs(l, &window, attrs), last = window.rank - 1;
  attrs[count++] = bd_attr_int(l->ctx, "kh", window.rank == 2 ? window.size[0] : 1);
  attrs[count++] = bd_attr_int(l->ctx, "kw", window.size[last]);
  // Small integers are compared as reals, which have them all.
  bd_dtype dtype = bd_onnx_type(l, image)->dtype;
  if (!bd_dtype_is_float(dtype)) BD_TRY(bd_onnx_emit_cast(l, image, BD_F32, &image));
  BD_TRY(bd_onnx_emit(l, BD_OP_MAXPOOL2D, 1, &image, count, attrs, &image));
  BD_TRY(bd_onnx_emit_cast(l, image, dtype, &image));
  BD_TRY(from_image(l, step, image, &out));
  bd_onnx_made(l, step, 0, out);
  return BD_OK;
}

static const bd_onnx_lower_rule rules[] = {
    {"Conv", lower_conv, BD_OP_CONV2D},
    {"MaxPool", lower_max_pool, BD_OP_MAXPOOL2D},
};
const bd_onnx_lower_rules bd_onnx_lower_images = {sizeof rules / sizeof *rules, rules};
