// Images of other sizes: each dimension is multiplied by a matrix that says what every new element
// is made of. The standard's text of Resize gives the coordinates and the weights.
#include "frontend/onnx/lower/layout.h"
#include <math.h>
#include <string.h>

enum { MOST_ELEMENTS = 1 << 16, PIECE = 256 }; // of a matrix; of a constant

typedef struct resize {
  const char *mode, *coordinates, *nearest;
  double cubic, outside; // the cubic's coefficient; what stands outside of a cropped image
  bool excludes;         // taps outside of the image have no weight
  bool spreads;          // antialias: where it shrinks, over all that an element stands for
} resize;

// One dimension: from `in` elements to `out`, `scale` being what was asked for.
typedef struct axis {
  int64_t in, out;
  double scale, start, end; // of the region, for cropping, as parts of the extent
} axis;

static bool is(const char *a, const char *b) {
  return strcmp(a, b) == 0;
}

// Where element x of the result lies in the operand.
static double place_of(const resize *r, const axis *a, double x) {
  double in = (double)a->in, out = (double)a->out, exact = a->scale * in; // not rounded
  if (is(r->coordinates, "asymmetric")) return x / a->scale;
  if (is(r->coordinates, "align_corners")) return out == 1 ? 0 : x * (in - 1) / (exact - 1);
  if (is(r->coordinates, "pytorch_half_pixel")) return out > 1 ? (x + 0.5) / a->scale - 0.5 : 0;
  if (is(r->coordinates, "tf_half_pixel_for_nn")) return (x + 0.5) / a->scale;
  if (is(r->coordinates, "tf_crop_and_resize"))
    return out > 1 ? a->start * (in - 1) + x * (a->end - a->start) * (in - 1) / (out - 1)
                   : 0.5 * (a->start + a->end) * (in - 1);
  if (is(r->coordinates, "half_pixel_symmetric"))
    return in / 2 * (1 - out / exact) + (x + 0.5) / a->scale - 0.5;
  return (x + 0.5) / a->scale - 0.5;
}

static double nearest_of(const resize *r, double place) {
  if (is(r->nearest, "round_prefer_ceil")) return floor(place + 0.5);
  if (is(r->nearest, "floor")) return floor(place);
  if (is(r->nearest, "ceil")) return ceil(place);
  return ceil(place - 0.5);
}

// Keys' cubic convolution with coefficient a.
static double cubic_weight(double a, double x) {
  x = fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// What an element at the distance x of a place weighs there.
static double weight_of(const resize *r, double x) {
  return is(r->mode, "cubic") ? cubic_weight(r->cubic, x) : fmax(1 - fabs(x), 0);
}

// The row of the matrix for element x of the result; taps past an end fall on the last element.
static void fill_row(const resize *r, const axis *a, int64_t x, double *row) {
  double place = place_of(r, a, (double)x), last = (double)(a->in - 1), total = 0;
  if (is(r->coordinates, "tf_crop_and_resize") && (place < 0 || place > last)) return;
  if (is(r->mode, "nearest")) {
    row[(int64_t)fmin(fmax(nearest_of(r, place), 0), last)] = 1;
    return;
  }
  double shrinks = r->spreads ? fmin(a->scale, 1) : 1;
  double reach = (is(r->mode, "cubic") ? 2 : 1) / shrinks;
  for (double at = floor(place - reach); at <= place + reach; at++) {
    if (r->excludes && (at < 0 || at > last)) continue;
    double weight = weight_of(r, (at - place) * shrinks);
    row[(int64_t)fmin(fmax(at, 0), last)] += weight;
    total += weight;
  }
  for (int64_t i = 0; i < a->in && (r->excludes || r->spreads) && total != 0; i++)
    row[i] /= total;
}

// A matrix as constants of some rows each, one after another.
static bd_status emit_matrix(bd_onnx_lowering *l, const bd_onnx_step *step, bd_dtype dtype,
                             const axis *a, const double *values, bd_id *out) {
  int64_t rows = PIECE / a->in;
  bd_attr dim = bd_attr_int(l->ctx, "dim", 0);
  *out = BD_NO_ID;
  if (rows < 1)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "resizes a dimension of more than %d elements",
                             PIECE);
  for (int64_t x = 0; x < a->out; x += rows) {
    int64_t now = a->out - x < rows ? a->out - x : rows, dims[] = {now, a->in};
    bd_id piece;
    bd_attr attrs[] = {bd_attr_string(l->ctx, "dtype", bd_dtype_name(dtype)),
                       bd_attr_ints(l->ctx, "dims", 2, dims),
                       bd_attr_reals(l->ctx, "values", (int)(now * a->in), values + x * a->in)};
    BD_TRY(bd_onnx_emit(l, BD_OP_CONSTANT, 0, NULL, 3, attrs, &piece));
    if (*out == BD_NO_ID)
      *out = piece;
    else
      BD_TRY(bd_onnx_emit(l, BD_OP_CONCAT, 2, (bd_id[]){*out, piece}, 1, &dim, out));
  }
  return BD_OK;
}

// What stands outside of a cropped image, where a row of the matrix takes nothing.
static bd_status fill_outside(bd_onnx_lowering *l, const resize *r, const axis *a,
                              const double *values, int dim, bd_id *x) {
  bd_type type = *bd_onnx_type(l, *x);
  int64_t *missing = BD_NEW_ARRAY(l->ctx->arena, int64_t, a->out);
  bool any = false;
  for (int64_t i = 0; i < a->out; i++) {
    missing[i] = 1;
    for (int64_t k = 0; k < a->in; k++)
      if (values[i * a->in + k] != 0) missing[i] = 0;
    any = any || missing[i];
  }
  if (!any) return BD_OK;
  bd_id list, outside;
  char all[BD_MAX_RANK + 1] = {0};
  for (int d = 0; d < type.rank; d++)
    all[d] = (char)('A' + d);
  bd_attr attrs[] = {bd_attr_string(l->ctx, "dtype", "bool"),
                     bd_attr_ints(l->ctx, "dims", 1, &a->out),
                     bd_attr_ints(l->ctx, "values", (int)a->out, missing)};
  BD_TRY(bd_onnx_emit(l, BD_OP_CONSTANT, 0, NULL, 3, attrs, &list));
  bd_attr spread[] = {bd_attr_string(l->ctx, "rule", bd_intern_f(l->ctx, "%c->%s", 'A' + dim, all)),
                      bd_attr_ints(l->ctx, "dims", type.rank, type.dims)};
  BD_TRY(bd_onnx_emit(l, BD_OP_BROADCAST, 1, &list, 2, spread, &list));
  BD_TRY(bd_onnx_number_op(l, type.dtype, r->outside, &outside));
  return bd_onnx_emit(l, BD_OP_SELECT, 3, (bd_id[]){list, outside, *x}, 0, NULL, x);
}

static bd_status resize_dim(bd_onnx_lowering *l, const bd_onnx_step *step, const resize *r, int d,
                            const axis *a, bd_onnx_number extent, bd_onnx_part *part) {
  int rank = step->in[0]->rank, dim;
  char from[BD_MAX_RANK + 1] = {0}, to[BD_MAX_RANK + 1] = {0};
  if (a->in > MOST_ELEMENTS || a->out > MOST_ELEMENTS / a->in)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "resizes a dimension of %lld elements to %lld",
                             (long long)a->in, (long long)a->out);
  BD_TRY(bd_onnx_one_dim(l, step, rank, d, extent, part, &dim));
  double *values = BD_NEW_ARRAY(l->ctx->arena, double, a->in * a->out);
  for (int64_t x = 0; x < a->out; x++)
    fill_row(r, a, x, values + x * a->in);
  bd_id matrix;
  bd_type type = *bd_onnx_type(l, part->id);
  BD_TRY(emit_matrix(l, step, type.dtype, a, values, &matrix));
  for (int i = 0; i < type.rank; i++) {
    from[i] = (char)('a' + i);
    to[i] = i == dim ? 'z' : from[i];
  }
  const char *rule = bd_intern_f(l->ctx, "%s,z%c->%s", from, from[dim], to);
  BD_TRY(bd_onnx_emit_rule(l, BD_OP_CONTRACT, 2, (bd_id[]){part->id, matrix}, rule, &part->id));
  bool crops = is(r->coordinates, "tf_crop_and_resize");
  return crops ? fill_outside(l, r, a, values, dim, &part->id) : BD_OK;
}

// The place of dimension d in what is asked for, and for how many dimensions that is; -1: not.
static int asked_at(const bd_onnx_step *step, int d, int *out_count) {
  const bd_onnx_attribute *axes = bd_onnx_find(step, "axes");
  int rank = step->in[0]->rank;
  *out_count = axes ? axes->count : rank;
  for (int i = 0; axes && i < axes->count; i++)
    if ((axes->integers[i] + rank) % rank == d) return i;
  return axes ? -1 : d;
}

// The scale that sizes make of dimension d: under a policy the least or greatest of all that are
// asked for.
static bd_status read_sizes(const bd_onnx_step *step, int d, double *out_scale) {
  const char *policy = bd_onnx_text(step, "keep_aspect_ratio_policy", "stretch");
  const bd_onnx_fact *in = step->in[0];
  bool keeps = !is(policy, "stretch") && step->in[3];
  int count = 0, at;
  *out_scale = (double)step->out[0].dims[d].integer / (double)in->dims[d].integer;
  if (keeps) BD_TRY(bd_onnx_elements(step, 3, &count));
  for (int i = 0, first = 1; keeps && i < in->rank; i++) {
    if ((at = asked_at(step, i, &count)) < 0) continue;
    double scale = (double)bd_onnx_at(step->in[3], at).integer / (double)in->dims[i].integer;
    *out_scale = first                      ? scale
                 : is(policy, "not_larger") ? fmin(*out_scale, scale)
                                            : fmax(*out_scale, scale);
    first = 0;
  }
  return BD_OK;
}

// What was asked for dimension d: a scale, or what the sizes make. Cropping has a region.
static bd_status read_axis(const bd_onnx_step *step, int d, int scales, axis *out) {
  const bd_onnx_fact *in = step->in[0];
  const bd_onnx_attribute *attribute = bd_onnx_find(step, "scales");
  bd_onnx_fact *given = scales < step->in_count ? step->in[scales] : NULL;
  int asked, count = 0, at = asked_at(step, d, &asked);
  *out = (axis){.in = in->dims[d].integer, .out = step->out[0].dims[d].integer, .scale = 1};
  out->end = 1;
  if (at < 0) return BD_OK;
  if (attribute) {
    out->scale = attribute->reals[d];
  } else if (given && !(given->rank == 1 && bd_onnx_is(given->dims[0], 0))) {
    BD_TRY(bd_onnx_elements(step, scales, &count));
    out->scale = bd_onnx_at(given, at).real;
  } else {
    BD_TRY(read_sizes(step, d, &out->scale));
  }
  if (scales != 2 || !step->in[1] ||
      !is(bd_onnx_text(step, "coordinate_transformation_mode", "half_pixel"), "tf_crop_and_resize"))
    return BD_OK;
  BD_TRY(bd_onnx_elements(step, 1, &count));
  if (count != 2 * asked)
    return bd_onnx_step_fail(step, BD_INVALID, "has a region of %d numbers", count);
  out->start = bd_onnx_at(step->in[1], at).real;
  out->end = bd_onnx_at(step->in[1], asked + at).real;
  return BD_OK;
}

static bd_status lower_resize(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bool old = step->rule->since < 11 || step->node->op[0] == 'U';
  const resize r = {
      .mode = bd_onnx_text(step, "mode", "nearest"),
      .coordinates =
          bd_onnx_text(step, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel"),
      .nearest = bd_onnx_text(step, "nearest_mode", old ? "floor" : "round_prefer_floor"),
      .cubic = bd_onnx_real(step, "cubic_coeff_a", -0.75),
      .outside = bd_onnx_real(step, "extrapolation_value", 0),
      .excludes = bd_onnx_int(step, "exclude_outside", 0) != 0,
      .spreads = bd_onnx_int(step, "antialias", 0) != 0};
  bool crops = is(r.coordinates, "tf_crop_and_resize");
  bd_onnx_part part;
  BD_TRY(bd_onnx_operand(l, step, 0, &part));
  bd_dtype dtype = bd_onnx_type(l, part.id)->dtype;
  if (!bd_dtype_is_float(dtype)) BD_TRY(bd_onnx_emit_cast(l, part.id, BD_F32, &part.id));
  for (int d = 0; d < step->in[0]->rank; d++) {
    axis a;
    if (step->in[0]->dims[d].batch) continue; // inferred to stay as it is
    BD_TRY(read_axis(step, d, old ? 1 : 2, &a));
    if (a.in == a.out && a.scale == 1 && (!crops || (a.start == 0 && a.end == 1))) continue;
    BD_TRY(resize_dim(l, step, &r, d, &a, step->in[0]->dims[d], &part));
  }
  BD_TRY(bd_onnx_emit_cast(l, part.id, dtype, &part.id));
  BD_TRY(bd_onnx_regroup(l, step, step->out[0].rank, step->out[0].dims, &part));
  bd_onnx_made(l, step, 0, part);
  return BD_OK;
}

static const bd_onnx_lower_rule rules[] = {
    {"Resize", lower_resize, BD_OP_CONTRACT},
    {"Upsample", lower_resize, BD_OP_CONTRACT},
};
const bd_onnx_lower_rules bd_onnx_lower_resizes = {sizeof rules / sizeof *rules, rules};
