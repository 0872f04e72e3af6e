// Convolutions and pools: the graph's ops of windows over one to three dimensions.
#include "frontend/onnx/lower/windows.h"
#include "ir/windows.h"
#include <math.h>
#include <string.h>

bd_status bd_onnx_exact(bd_onnx_lowering *l, const bd_onnx_step *step, int i, bd_id *out) {
  const bd_onnx_fact *in = step->in[i];
  bd_onnx_part part;
  int64_t dims[BD_MAX_RANK];
  BD_TRY(bd_onnx_operand(l, step, i, &part));
  for (int d = 0; d < in->rank; d++) {
    if (in->dims[d].batch && in->dims[d].integer != 1)
      return bd_onnx_step_fail(step, BD_UNSUPPORTED, "has a multiple of the batch as a dimension");
    dims[d] = in->dims[d].batch ? BD_DIM_BATCH : in->dims[d].integer;
  }
  return bd_onnx_emit_reshape(l, part.id, in->rank, dims, out);
}

bd_status bd_onnx_from_exact(bd_onnx_lowering *l, const bd_onnx_step *step, bd_id made,
                             bd_onnx_part *out) {
  bd_onnx_factors factors[BD_MAX_RANK] = {{0}};
  for (int d = 0; d < step->out[0].rank; d++)
    factors[d] = bd_onnx_factors_plain(l, step->out[0].dims[d]);
  out->id = made;
  return bd_onnx_refit(l, step, step->out[0].rank, factors, out);
}

static bd_status check_window(const bd_onnx_step *step, const bd_onnx_window *window) {
  if (window->rank > BD_MAX_SPATIAL)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "slides over more than %d dimensions",
                             BD_MAX_SPATIAL);
  for (int d = 0; d < window->rank; d++)
    if (window->before[d] < 0 || window->after[d] < 0)
      return bd_onnx_step_fail(step, BD_UNSUPPORTED, "has negative padding");
  return BD_OK;
}

enum { MOST_ATTRS = 5 };

// Strides, dilations and pads of an op of windows, and what one of them may have beside these.
static int window_attrs(bd_onnx_lowering *l, const bd_onnx_window *w, bd_attr attrs[MOST_ATTRS]) {
  int64_t pads[2 * BD_MAX_RANK];
  for (int d = 0; d < w->rank; d++) {
    pads[d] = w->before[d];
    pads[w->rank + d] = w->after[d];
  }
  attrs[0] = bd_attr_ints(l->ctx, "strides", w->rank, w->stride);
  attrs[1] = bd_attr_ints(l->ctx, "dilations", w->rank, w->dilation);
  attrs[2] = bd_attr_ints(l->ctx, "pads", 2 * w->rank, pads);
  return 3;
}

static int kernel_attrs(bd_onnx_lowering *l, const bd_onnx_window *w, bd_attr attrs[MOST_ATTRS]) {
  int count = window_attrs(l, w, attrs);
  attrs[count++] = bd_attr_ints(l->ctx, "kernel", w->rank, w->size);
  return count;
}

bd_status bd_onnx_unfold(bd_onnx_lowering *l, const bd_onnx_window *w, double outside, bd_id x,
                         bd_id *out) {
  bd_attr attrs[MOST_ATTRS];
  int count = kernel_attrs(l, w, attrs);
  if (outside != 0) attrs[count++] = bd_attr_real(l->ctx, "value", outside);
  return bd_onnx_emit(l, BD_OP_UNFOLD, 1, &x, count, attrs, out);
}

// An op on f32 alone: halves and small integers are of them, and what it makes becomes `dtype`.
static bd_status emit_in_f32(bd_onnx_lowering *l, bd_op_kind kind, int in_count, bd_id *in,
                             int attr_count, const bd_attr *attrs, bd_dtype dtype, bd_id *out) {
  for (int i = 0; i < in_count; i++)
    BD_TRY(bd_onnx_emit_cast(l, in[i], BD_F32, &in[i]));
  BD_TRY(bd_onnx_emit(l, kind, in_count, in, attr_count, attrs, out));
  return bd_onnx_emit_cast(l, *out, dtype, out);
}

static int64_t span(const bd_onnx_window *w, int d) {
  return (w->size[d] - 1) * w->dilation[d] + 1;
}

// Padding after the end that makes room for the windows that there are, with `ceil_mode` more than
// is given.
static void widen(const bd_onnx_step *step, bd_onnx_window *w) {
  for (int d = 0; d < w->rank; d++) {
    int64_t windows = step->out[0].dims[d + 2].integer;
    int64_t room =
        (windows - 1) * w->stride[d] + span(w, d) - step->in[0]->dims[d + 2].integer - w->before[d];
    if (room > w->after[d]) w->after[d] = room;
  }
}

// Adds an element per channel to an image, and keeps it.
static bd_status finish(bd_onnx_lowering *l, const bd_onnx_step *step, bd_onnx_part image) {
  int rank = step->out[0].rank, ranks[] = {rank, rank};
  bd_onnx_part pair[] = {image, {0}}, bias;
  if (step->in[2]) {
    BD_TRY(bd_onnx_operand(l, step, 2, &bias));
    for (int d = 0; d <= rank; d++)
      pair[1].first[d] = d < 2 ? 0 : bias.first[1];
    pair[1].id = bias.id;
    BD_TRY(bd_onnx_align(l, step, 2, ranks, pair, rank, &image));
    BD_TRY(bd_onnx_emit2(l, BD_OP_ADD, pair[0].id, pair[1].id, &image.id));
  }
  bd_onnx_made(l, step, 0, image);
  return BD_OK;
}

// Operands 0 and 1 as they are, and the op's windows and groups.
static bd_status convolve(bd_onnx_lowering *l, const bd_onnx_step *step, bd_op_kind kind,
                          int attr_count, bd_attr attrs[MOST_ATTRS]) {
  bd_onnx_part out;
  bd_id in[2], image;
  int64_t groups = bd_onnx_int(step, "group", 1);
  for (int i = 0; i < 2; i++)
    BD_TRY(bd_onnx_exact(l, step, i, &in[i]));
  bd_dtype dtype = bd_onnx_type(l, in[0])->dtype;
  if (dtype == BD_F64)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                             "convolves float64; braid convolves float32 and halves");
  if (groups > 1) attrs[attr_count++] = bd_attr_int(l->ctx, "groups", groups);
  BD_TRY(emit_in_f32(l, kind, 2, in, attr_count, attrs, dtype, &image));
  BD_TRY(bd_onnx_from_exact(l, step, image, &out));
  return finish(l, step, out);
}

static bd_status lower_conv(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_onnx_window w;
  bd_attr attrs[MOST_ATTRS];
  BD_TRY(bd_onnx_window_read(step, step->in[1]->dims + 2, &w));
  BD_TRY(check_window(step, &w));
  return convolve(l, step, BD_OP_CONV, window_attrs(l, &w, attrs), attrs);
}

// Where the result begins and ends: what is asked for takes from the padding, of which the smaller
// half is after (auto_pad SAME_UPPER: before).
static void settle_transposed(const bd_onnx_step *step, bd_onnx_window *w) {
  bool asked = bd_onnx_find(step, "output_shape") || w->same;
  bool upper = strcmp(bd_onnx_text(step, "auto_pad", "NOTSET"), "SAME_UPPER") == 0;
  const bd_onnx_attribute *more = bd_onnx_find(step, "output_padding");
  for (int d = 0; d < w->rank; d++) {
    int64_t covered = (step->in[0]->dims[d + 2].integer - 1) * w->stride[d] + span(w, d);
    int64_t made = step->out[0].dims[d + 2].integer;
    if (asked) {
      int64_t all = covered + (more ? more->integers[d] : 0) - made;
      if (all < 0) all = 0;
      w->before[d] = upper ? all / 2 : all - all / 2;
    }
    int64_t after = covered - w->before[d] - made;
    w->after[d] = after > 0 ? after : 0;
  }
}

// What the gradient of a convolution by the same filter makes of x.
static bd_status lower_conv_transpose(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_onnx_window w;
  bd_attr attrs[MOST_ATTRS];
  int64_t dims[BD_MAX_RANK];
  BD_TRY(bd_onnx_window_read(step, step->in[1]->dims + 2, &w));
  settle_transposed(step, &w);
  BD_TRY(check_window(step, &w));
  for (int d = 0; d < w.rank; d++)
    dims[d] = step->out[0].dims[d + 2].integer;
  int count = window_attrs(l, &w, attrs);
  attrs[count++] = bd_attr_ints(l->ctx, "dims", w.rank, dims);
  return convolve(l, step, BD_OP_CONV_DX, count, attrs);
}

// Reduces the elements of each window; `lead` dimensions stand before them.
static bd_status reduce_windows(bd_onnx_lowering *l, bd_op_kind kind, int lead, bd_id u,
                                bd_id *out) {
  char all[BD_MAX_RANK + 1] = {0};
  int rank = bd_onnx_type(l, u)->rank;
  for (int d = 0; d < rank; d++)
    all[d] = (char)('A' + d);
  const char *rule = bd_intern_f(l->ctx, "%s->%.*s%s", all, lead, all, all + lead + 1);
  return bd_onnx_emit_rule(l, kind, 1, &u, rule, out);
}

static bd_status lower_max_pool(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_onnx_window w;
  bd_onnx_part out;
  bd_attr attrs[MOST_ATTRS];
  bd_id x;
  BD_TRY(bd_onnx_window_read(step, NULL, &w));
  BD_TRY(check_window(step, &w));
  widen(step, &w);
  if (step->out_count > 1 && step->node->out[1] != BD_ONNX_ABSENT)
    return bd_onnx_argmax_pool(l, step, &w, -INFINITY);
  BD_TRY(bd_onnx_exact(l, step, 0, &x));
  bd_dtype dtype = bd_onnx_type(l, x)->dtype;
  if (dtype == BD_F64) {
    BD_TRY(bd_onnx_unfold(l, &w, -INFINITY, x, &x));
    BD_TRY(reduce_windows(l, BD_OP_REDUCE_MAX, 2, x, &x));
  } else {
    int count = kernel_attrs(l, &w, attrs);
    BD_TRY(emit_in_f32(l, BD_OP_MAXPOOL, 1, &x, count, attrs, dtype, &x));
  }
  BD_TRY(bd_onnx_from_exact(l, step, x, &out));
  bd_onnx_made(l, step, 0, out);
  return BD_OK;
}

// How many elements each window counts: those inside, with `count_include_pad` also the padding
// that is given, but none that `ceil_mode` adds.
static bd_status count_elements(bd_onnx_lowering *l, const bd_onnx_step *step,
                                const bd_onnx_window *given, bd_onnx_window wide, bd_dtype dtype,
                                bd_id *out) {
  bool pads = bd_onnx_int(step, "count_include_pad", 0) != 0;
  int64_t dims[BD_MAX_RANK];
  for (int d = 0; d < wide.rank; d++) {
    dims[d] = step->in[0]->dims[d + 2].integer;
    if (!pads) continue;
    dims[d] += given->before[d] + given->after[d];
    wide.before[d] = 0;
    wide.after[d] -= given->after[d];
  }
  bd_attr attrs[] = {bd_attr_string(l->ctx, "dtype", bd_dtype_name(dtype)),
                     bd_attr_ints(l->ctx, "dims", wide.rank, dims),
                     bd_attr_real(l->ctx, "value", 1)};
  BD_TRY(bd_onnx_emit(l, BD_OP_CONSTANT, 0, NULL, 3, attrs, out));
  BD_TRY(bd_onnx_unfold(l, &wide, 0, *out, out));
  return reduce_windows(l, BD_OP_REDUCE_SUM, 0, *out, out);
}

// The sums of windows times `factor`: each channel convolved by it.
static bd_status sum_windows(bd_onnx_lowering *l, const bd_onnx_window *w, double factor, bd_id x,
                             bd_id *out) {
  bd_dtype dtype = bd_onnx_type(l, x)->dtype;
  int64_t channels = bd_onnx_type(l, x)->dims[1], dims[BD_MAX_RANK] = {channels, 1};
  bd_attr value = bd_attr_real(l->ctx, "value", factor), attrs[MOST_ATTRS];
  if (dtype == BD_F64) {
    BD_TRY(bd_onnx_unfold(l, w, 0, x, out));
    BD_TRY(reduce_windows(l, BD_OP_REDUCE_SUM, 2, *out, out));
    return bd_onnx_emit(l, BD_OP_SCALE, 1, out, 1, &value, out);
  }
  memcpy(dims + 2, w->size, (size_t)w->rank * sizeof *dims);
  bd_attr filter[] = {bd_attr_string(l->ctx, "dtype", "f32"),
                      bd_attr_ints(l->ctx, "dims", w->rank + 2, dims), value};
  bd_id in[2] = {x, BD_NO_ID};
  BD_TRY(bd_onnx_emit(l, BD_OP_CONSTANT, 0, NULL, 3, filter, &in[1]));
  int count = window_attrs(l, w, attrs);
  attrs[count++] = bd_attr_int(l->ctx, "groups", channels);
  return emit_in_f32(l, BD_OP_CONV, 2, in, count, attrs, dtype, out);
}

// Whether every window counts all its elements; *out_factor: 1 over how many these are.
static bool count_alike(const bd_onnx_step *step, const bd_onnx_window *given,
                        const bd_onnx_window *wide, double *out_factor) {
  bool pads = bd_onnx_int(step, "count_include_pad", 0) != 0, alike = true;
  *out_factor = 1;
  for (int d = 0; d < wide->rank; d++) {
    int64_t outside = pads ? wide->after[d] - given->after[d] : wide->before[d] + wide->after[d];
    alike = alike && outside == 0;
    *out_factor /= (double)wide->size[d];
  }
  return alike;
}

static bd_status lower_average_pool(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_onnx_window given, wide;
  bd_onnx_part out;
  bd_id x, counts;
  double factor;
  BD_TRY(bd_onnx_window_read(step, NULL, &given));
  BD_TRY(check_window(step, &given));
  wide = given;
  widen(step, &wide);
  BD_TRY(bd_onnx_exact(l, step, 0, &x));
  if (count_alike(step, &given, &wide, &factor)) {
    BD_TRY(sum_windows(l, &wide, factor, x, &x));
  } else {
    BD_TRY(count_elements(l, step, &given, wide, bd_onnx_type(l, x)->dtype, &counts));
    BD_TRY(sum_windows(l, &wide, 1, x, &x));
    BD_TRY(bd_onnx_emit2(l, BD_OP_DIV, x, counts, &x));
  }
  BD_TRY(bd_onnx_from_exact(l, step, x, &out));
  bd_onnx_made(l, step, 0, out);
  return BD_OK;
}

static const bd_onnx_lower_rule rules[] = {
    {"AveragePool", lower_average_pool, BD_OP_CONV},
    {"Conv", lower_conv, BD_OP_CONV},
    {"ConvTranspose", lower_conv_transpose, BD_OP_CONV_DX},
    {"MaxPool", lower_max_pool, BD_OP_MAXPOOL},
};
const bd_onnx_lower_rules bd_onnx_lower_windows = {sizeof rules / sizeof *rules, rules};
