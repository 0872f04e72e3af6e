// Ops that change the size of images.
#include "frontend/onnx/infer/step.h"
#include <math.h>
#include <string.h>

// One dimension of `in` times `scale`, rounded down.
static bool scaled(bd_onnx_number in, double scale, bd_onnx_number *out) {
  *out = in;
  if (scale == 1) return true;
  double size = floor((double)in.integer * scale);
  if (in.batch || !(scale > 0) || !(size <= 0x1p46)) return false;
  *out = bd_onnx_whole((int64_t)size);
  return true;
}

static bd_status fail(const bd_onnx_step *step, int d) {
  return bd_onnx_step_fail(step, BD_INVALID, "its scale or size for dimension %d is out of range",
                           d);
}

// The dimensions that scales and sizes are for: all, or those of the attribute `axes`.
static bd_status read_axes(const bd_onnx_step *step, int axes[BD_MAX_RANK], int *out_count) {
  const bd_onnx_attribute *given = bd_onnx_find(step, "axes");
  int rank = step->in[0]->rank;
  *out_count = given ? given->count : rank;
  if (*out_count > rank)
    return bd_onnx_step_fail(step, BD_INVALID, "has more axes than dimensions");
  for (int i = 0; i < *out_count; i++)
    BD_TRY(bd_onnx_axis(step, given ? given->integers[i] : i, rank, &axes[i]));
  return BD_OK;
}

static bd_status by_scales(bd_onnx_step *step, int operand, bd_onnx_number *dims) {
  int axes[BD_MAX_RANK], count = 0, scales = 0;
  BD_TRY(read_axes(step, axes, &count));
  BD_TRY(bd_onnx_elements(step, operand, &scales));
  if (scales != count)
    return bd_onnx_step_fail(step, BD_INVALID, "has %d scales for %d dimensions", scales, count);
  for (int i = 0; i < count; i++)
    if (!scaled(dims[axes[i]], bd_onnx_at(step->in[operand], i).real, &dims[axes[i]]))
      return fail(step, axes[i]);
  return BD_OK;
}

// Under `keep_aspect_ratio_policy`, one scale for all, rounded half up.
static bd_status keep_ratio(const bd_onnx_step *step, const char *policy, int count,
                            const int *axes, bd_onnx_number *dims) {
  const bd_onnx_fact *in = step->in[0];
  bool smaller = strcmp(policy, "not_larger") == 0;
  double scale = smaller ? (double)INFINITY : 0;
  for (int i = 0; i < count; i++) {
    if (in->dims[axes[i]].batch || dims[axes[i]].batch || in->dims[axes[i]].integer == 0)
      return fail(step, axes[i]);
    double own = (double)dims[axes[i]].integer / (double)in->dims[axes[i]].integer;
    scale = smaller ? fmin(scale, own) : fmax(scale, own);
  }
  for (int i = 0; i < count; i++) {
    double size = floor(scale * (double)in->dims[axes[i]].integer + 0.5);
    if (!(size >= 0 && size <= 0x1p46)) return fail(step, axes[i]);
    dims[axes[i]] = bd_onnx_whole((int64_t)size);
  }
  return BD_OK;
}

static bd_status by_sizes(bd_onnx_step *step, bd_onnx_number *dims) {
  int axes[BD_MAX_RANK], count = 0, sizes = 0;
  BD_TRY(read_axes(step, axes, &count));
  BD_TRY(bd_onnx_elements(step, 3, &sizes));
  if (sizes != count)
    return bd_onnx_step_fail(step, BD_INVALID, "has %d sizes for %d dimensions", sizes, count);
  for (int i = 0; i < count; i++)
    dims[axes[i]] = bd_onnx_at(step->in[3], i);
  const char *policy = bd_onnx_text(step, "keep_aspect_ratio_policy", "stretch");
  return strcmp(policy, "stretch") == 0 ? BD_OK : keep_ratio(step, policy, count, axes, dims);
}

static bool is_given(const bd_onnx_fact *fact) {
  return fact && !(fact->rank == 1 && bd_onnx_is(fact->dims[0], 0));
}

static bd_status infer_resize(bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0];
  bd_onnx_number dims[BD_MAX_RANK];
  memcpy(dims, in->dims, (size_t)in->rank * sizeof *dims);
  int scales = step->rule->since < 11 ? 1 : 2;
  bool has_scales = is_given(step->in[scales]);
  bool has_sizes = step->rule->since >= 11 && is_given(step->in[3]);
  if (has_scales == has_sizes)
    return bd_onnx_step_fail(step, BD_INVALID, "must have scales or sizes");
  BD_TRY(has_scales ? by_scales(step, scales, dims) : by_sizes(step, dims));
  return bd_onnx_shape(step, 0, in->rank, dims);
}

static bd_status infer_upsample(bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0];
  const bd_onnx_attribute *scales = bd_onnx_find(step, "scales");
  bd_onnx_number dims[BD_MAX_RANK];
  if (!scales || scales->count != in->rank)
    return bd_onnx_step_fail(step, BD_INVALID, "must have %d scales", in->rank);
  for (int d = 0; d < in->rank; d++)
    if (!scaled(in->dims[d], (double)scales->reals[d], &dims[d])) return fail(step, d);
  return bd_onnx_shape(step, 0, in->rank, dims);
}

static bd_status infer_blocks(bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0];
  bool to_space = strcmp(step->node->op, "DepthToSpace") == 0;
  int64_t size = bd_onnx_int(step, "blocksize", 0);
  bool good = in->rank == 4 && size >= 1 && size <= 1 << 20;
  bd_onnx_number dims[4], block = bd_onnx_whole(size), left;
  for (int d = 0; good && d < 4; d++) {
    dims[d] = in->dims[d];
    bool grows = (d == 1) != to_space;
    for (int times = d == 0 ? 0 : d == 1 ? 2 : 1; good && times > 0; times--)
      good = grows ? bd_onnx_multiply(dims[d], block, &dims[d])
                   : bd_onnx_remainder(dims[d], block, &left) && left.integer == 0 &&
                         bd_onnx_divide(dims[d], block, &dims[d]);
  }
  if (!good)
    return bd_onnx_step_fail(step, BD_INVALID, "cannot rearrange %s in blocks of %lld",
                             bd_onnx_dims_text(step->ctx, in->rank, in->dims), (long long)size);
  return bd_onnx_shape(step, 0, 4, dims);
}

#define COORDINATES "half_pixel,pytorch_half_pixel,align_corners,asymmetric,tf_crop_and_resize"
#define RESIZE_11(coordinates)                                                                     \
  "coordinate_transformation_mode:s{" coordinates "} cubic_coeff_a:f exclude_outside:i "           \
  "extrapolation_value:f mode:s{nearest,linear,cubic} "                                            \
  "nearest_mode:s{round_prefer_floor,round_prefer_ceil,floor,ceil}"
#define RESIZE_18 " antialias:i axes:I keep_aspect_ratio_policy:s{stretch,not_larger,not_smaller}"
#define RESIZE_KNOWN (1U << 1 | 1U << 2 | 1U << 3)
static const bd_onnx_rule rules[] = {
    {"DepthToSpace", 1, "t=t", "blocksize:i", 0, infer_blocks, NULL},
    {"DepthToSpace", 11, "t=t", "blocksize:i mode:s{DCR,CRD}", 0, infer_blocks, NULL},
    {"Resize", 10, "tf=t", "mode:s{nearest,linear}", 1U << 1, infer_resize, NULL},
    {"Resize", 11, "tg?f?l?=t", RESIZE_11(COORDINATES ",tf_half_pixel_for_nn"), RESIZE_KNOWN,
     infer_resize, NULL},
    {"Resize", 18, "tg?f?l?=t", RESIZE_11(COORDINATES) RESIZE_18, RESIZE_KNOWN, infer_resize, NULL},
    {"Resize", 19, "tg?f?l?=t", RESIZE_11(COORDINATES ",half_pixel_symmetric") RESIZE_18,
     RESIZE_KNOWN, infer_resize, NULL},
    {"SpaceToDepth", 1, "t=t", "blocksize:i", 0, infer_blocks, NULL},
    {"Upsample", 7, "t=t", "mode:s{nearest,linear} scales:F", 0, infer_upsample, NULL},
    {"Upsample", 9, "tf=t", "mode:s{nearest,linear}", 1U << 1, infer_resize, NULL},
};
const bd_onnx_rules bd_onnx_image_rules = {sizeof rules / sizeof *rules, rules};
