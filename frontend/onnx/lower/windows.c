// Convolutions and pools over any windows: laid out by `unfold`, added up by `fold`.
#include "frontend/onnx/lower/windows.h"
#include <math.h>
#include <string.h>

enum { LETTERS = 3 };

static bd_status check_window(const bd_onnx_step *step, const bd_onnx_window *window) {
  if (window->rank > LETTERS)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "slides over more than 3 dimensions");
  for (int d = 0; d < window->rank; d++)
    if (window->before[d] < 0 || window->after[d] < 0)
      return bd_onnx_step_fail(step, BD_UNSUPPORTED, "has negative padding");
  return BD_OK;
}

// Kernel, strides, dilations and pads of unfold and fold.
static int window_attrs(bd_onnx_lowering *l, const bd_onnx_window *w, bd_attr attrs[4]) {
  int64_t pads[2 * BD_MAX_RANK];
  for (int d = 0; d < w->rank; d++) {
    pads[d] = w->before[d];
    pads[w->rank + d] = w->after[d];
  }
  attrs[0] = bd_attr_ints(l->ctx, "kernel", w->rank, w->size);
  attrs[1] = bd_attr_ints(l->ctx, "strides", w->rank, w->stride);
  attrs[2] = bd_attr_ints(l->ctx, "dilations", w->rank, w->dilation);
  attrs[3] = bd_attr_ints(l->ctx, "pads", 2 * w->rank, pads);
  return 4;
}

bd_status bd_onnx_unfold(bd_onnx_lowering *l, const bd_onnx_window *w, double outside, bd_id x,
                         bd_id *out) {
  bd_attr attrs[5];
  int count = window_attrs(l, w, attrs);
  if (outside != 0) attrs[count++] = bd_attr_real(l->ctx, "value", outside);
  return bd_onnx_emit(l, BD_OP_UNFOLD, 1, &x, count, attrs, out);
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

// A list of extents in place of one dimension, or one extent in place of several.
static bd_status reshape(bd_onnx_lowering *l, bd_id x, int from, int gone, int count,
                         const int64_t *extents, bd_id *out) {
  int64_t dims[2 * BD_MAX_RANK];
  bd_type type = *bd_onnx_type(l, x);
  int rank = 0;
  for (int d = 0; d < type.rank; d++) {
    for (int i = 0; d == from && i < count; i++)
      dims[rank++] = extents[i];
    if (d < from || d >= from + gone) dims[rank++] = type.dims[d];
  }
  return bd_onnx_emit_reshape(l, x, rank, dims, out);
}

// The product of elements under windows u [n, c, k, windows..] and a filter [o, c / groups, k..].
static bd_status multiply(bd_onnx_lowering *l, int spatial, int64_t groups, bd_id u, bd_id filter,
                          bd_id *out) {
  const char *windows = &"pqr"[LETTERS - spatial];
  int64_t channels = bd_onnx_type(l, u)->dims[1], made = bd_onnx_type(l, filter)->dims[0];
  int64_t size = bd_onnx_type(l, u)->dims[2];
  BD_TRY(reshape(l, filter, 2, spatial, 1, &size, &filter));
  if (groups == 1) {
    const char *rule = bd_intern_f(l->ctx, "nck%s,ock->no%s", windows, windows);
    return bd_onnx_emit_rule(l, BD_OP_CONTRACT, 2, (bd_id[]){u, filter}, rule, out);
  }
  int64_t split_in[] = {groups, channels / groups}, split_out[] = {groups, made / groups};
  BD_TRY(reshape(l, u, 1, 1, 2, split_in, &u));
  BD_TRY(reshape(l, filter, 0, 1, 2, split_out, &filter));
  const char *rule = bd_intern_f(l->ctx, "ngck%s,gock->ngo%s", windows, windows);
  BD_TRY(bd_onnx_emit_rule(l, BD_OP_CONTRACT, 2, (bd_id[]){u, filter}, rule, out));
  return reshape(l, *out, 1, 2, 1, &made, out);
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

static bd_status lower_conv(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_onnx_window w;
  bd_onnx_part out;
  bd_id x, filter;
  BD_TRY(bd_onnx_window_read(step, step->in[1]->dims + 2, &w));
  if (bd_onnx_is_native(step, &w)) {
    BD_TRY(bd_onnx_native_conv(l, step, &w, &out));
    return finish(l, step, out);
  }
  BD_TRY(check_window(step, &w));
  BD_TRY(bd_onnx_exact(l, step, 0, false, &x));
  BD_TRY(bd_onnx_exact(l, step, 1, false, &filter));
  BD_TRY(bd_onnx_unfold(l, &w, 0, x, &x));
  BD_TRY(multiply(l, w.rank, bd_onnx_int(step, "group", 1), x, filter, &x));
  BD_TRY(bd_onnx_from_exact(l, step, x, &out));
  return finish(l, step, out);
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

static bd_status lower_conv_transpose(bd_onnx_lowering *l, const bd_onnx_step *step) {
  int64_t groups = bd_onnx_int(step, "group", 1), dims[BD_MAX_RANK], size = 1;
  bd_onnx_window w;
  bd_onnx_part out;
  bd_attr attrs[5];
  bd_id x, filter;
  BD_TRY(bd_onnx_window_read(step, step->in[1]->dims + 2, &w));
  settle_transposed(step, &w);
  BD_TRY(check_window(step, &w));
  BD_TRY(bd_onnx_exact(l, step, 0, false, &x));
  BD_TRY(bd_onnx_exact(l, step, 1, false, &filter));
  for (int d = 0; d < w.rank; d++) {
    size *= w.size[d];
    dims[d] = step->out[0].dims[d + 2].integer;
  }
  int64_t channels = bd_onnx_type(l, x)->dims[1], made = bd_onnx_type(l, filter)->dims[1] * groups;
  const int64_t split[] = {groups, channels / groups};
  const char *windows = &"pqr"[LETTERS - w.rank];
  BD_TRY(reshape(l, filter, 2, w.rank, 1, &size, &filter));
  BD_TRY(reshape(l, filter, 0, 1, 2, split, &filter));
  BD_TRY(reshape(l, x, 1, 1, 2, split, &x));
  const char *rule = bd_intern_f(l->ctx, "ngc%s,gcok->ngok%s", windows, windows);
  BD_TRY(bd_onnx_emit_rule(l, BD_OP_CONTRACT, 2, (bd_id[]){x, filter}, rule, &x));
  BD_TRY(reshape(l, x, 1, 2, 1, &made, &x));
  int count = window_attrs(l, &w, attrs);
  attrs[count++] = bd_attr_ints(l->ctx, "dims", w.rank, dims);
  BD_TRY(bd_onnx_emit(l, BD_OP_FOLD, 1, &x, count, attrs, &x));
  BD_TRY(bd_onnx_from_exact(l, step, x, &out));
  return finish(l, step, out);
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
  bd_id x;
  bool places = step->out_count > 1 && step->node->out[1] != BD_ONNX_ABSENT;
  BD_TRY(bd_onnx_window_read(step, NULL, &w));
  if (!places && bd_onnx_is_native(step, &w)) {
    BD_TRY(bd_onnx_native_pool(l, step, &w, &out));
    bd_onnx_made(l, step, 0, out);
    return BD_OK;
  }
  BD_TRY(check_window(step, &w));
  widen(step, &w);
  if (places) return bd_onnx_argmax_pool(l, step, &w, -INFINITY);
  BD_TRY(bd_onnx_exact(l, step, 0, false, &x));
  bd_dtype dtype = bd_onnx_type(l, x)->dtype;
  if (!bd_dtype_is_float(dtype)) BD_TRY(bd_onnx_emit_cast(l, x, BD_F32, &x));
  BD_TRY(bd_onnx_unfold(l, &w, -INFINITY, x, &x));
  BD_TRY(reduce_windows(l, BD_OP_REDUCE_MAX, 2, x, &x));
  BD_TRY(bd_onnx_emit_cast(l, x, dtype, &x));
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

static bd_status lower_average_pool(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_onnx_window given, wide;
  bd_onnx_part out;
  bd_id x, counts;
  BD_TRY(bd_onnx_window_read(step, NULL, &given));
  BD_TRY(check_window(step, &given));
  wide = given;
  widen(step, &wide);
  BD_TRY(bd_onnx_exact(l, step, 0, false, &x));
  BD_TRY(count_elements(l, step, &given, wide, bd_onnx_type(l, x)->dtype, &counts));
  BD_TRY(bd_onnx_unfold(l, &wide, 0, x, &x));
  BD_TRY(reduce_windows(l, BD_OP_REDUCE_SUM, 2, x, &x));
  BD_TRY(bd_onnx_emit2(l, BD_OP_DIV, x, counts, &x));
  BD_TRY(bd_onnx_from_exact(l, step, x, &out));
  bd_onnx_made(l, step, 0, out);
  return BD_OK;
}

static const bd_onnx_lower_rule rules[] = {
    {"AveragePool", lower_average_pool, BD_OP_UNFOLD},
    {"Conv", lower_conv, BD_OP_CONV2D},
    {"ConvTranspose", lower_conv_transpose, BD_OP_FOLD},
    {"MaxPool", lower_max_pool, BD_OP_MAXPOOL2D},
};
const bd_onnx_lower_rules bd_onnx_lower_windows = {sizeof rules / sizeof *rules, rules};
