// Ops that make tensors of numbers: constants, ranges, and what is cut out by contents.
#include "frontend/onnx/infer/step.h"
#include <math.h>
#include <string.h>

static bd_status take_tensor(bd_onnx_step *step, const bd_onnx_tensor *tensor) {
  bd_onnx_number dims[BD_MAX_RANK];
  for (int d = 0; d < tensor->rank; d++)
    dims[d] = bd_onnx_whole(tensor->dims[d]);
  step->out[0].dtype = tensor->dtype;
  step->out[0].tensor = tensor;
  return bd_onnx_shape(step, 0, tensor->rank, dims);
}

// A list or one number, written as an attribute.
static bd_status take_numbers(bd_onnx_step *step, const bd_onnx_attribute *attribute) {
  bool list =
      attribute->kind == BD_ONNX_ATTRIBUTE_INTS || attribute->kind == BD_ONNX_ATTRIBUTE_FLOATS;
  bool real =
      attribute->kind == BD_ONNX_ATTRIBUTE_FLOAT || attribute->kind == BD_ONNX_ATTRIBUTE_FLOATS;
  bd_onnx_number count = bd_onnx_whole(list ? attribute->count : 1);
  step->out[0].dtype = real ? BD_ONNX_FLOAT : BD_ONNX_INT64;
  BD_TRY(bd_onnx_shape(step, 0, list ? 1 : 0, &count));
  if (count.integer > BD_ONNX_MOST_KNOWN)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                             "writes %lld numbers as an attribute; store them as a tensor",
                             (long long)count.integer);
  bd_onnx_number *known = bd_onnx_fold(step, 0);
  for (int64_t i = 0; i < count.integer; i++) {
    if (real)
      known[i].real = list ? (double)attribute->reals[i] : attribute->real;
    else
      known[i] = bd_onnx_whole(list ? attribute->integers[i] : attribute->integer);
  }
  return BD_OK;
}

static bd_status infer_constant(bd_onnx_step *step) {
  const bd_onnx_node *node = step->node;
  if (node->attribute_count != 1)
    return bd_onnx_step_fail(step, BD_INVALID, "has %d values, not one", node->attribute_count);
  const bd_onnx_attribute *attribute = &node->attributes[0];
  if (attribute->kind != BD_ONNX_ATTRIBUTE_TENSOR) return take_numbers(step, attribute);
  if (!attribute->tensor) return bd_onnx_step_fail(step, BD_INVALID, "its tensor is missing");
  return take_tensor(step, attribute->tensor);
}

static bd_status infer_constant_of_shape(bd_onnx_step *step) {
  const bd_onnx_attribute *value = bd_onnx_find(step, "value");
  const bd_onnx_number *shape;
  bd_onnx_number *known = BD_NEW(step->ctx->arena, bd_onnx_number);
  int rank = 0;
  step->out[0].dtype = BD_ONNX_FLOAT;
  if (value && (!value->tensor || value->tensor->elements != 1))
    return bd_onnx_step_fail(step, BD_INVALID, "its value is not one number");
  if (value) {
    step->out[0].dtype = value->tensor->dtype;
    BD_TRY(bd_onnx_tensor_elements(step->ctx, step->model, value->tensor, 0, 1, known));
  }
  BD_TRY(bd_onnx_numbers(step, NULL, 0, &rank, &shape));
  BD_TRY(bd_onnx_shape(step, 0, rank, shape));
  step->out[0].uniform = true;
  step->out[0].known = known;
  return BD_OK;
}

static bd_status infer_eye(bd_onnx_step *step) {
  int64_t dtype = bd_onnx_int(step, "dtype", step->in[0]->dtype);
  step->out[0].dtype = dtype > 0 && dtype < 128 ? (bd_onnx_dtype)dtype : BD_ONNX_UNDEFINED;
  if (step->in[0]->rank != 2 || bd_onnx_dtype_bytes(step->out[0].dtype) == 0)
    return bd_onnx_step_fail(step, BD_INVALID,
                             "its operand is no matrix, or its dtype none of ONNX");
  return bd_onnx_shape_of(step, 0, 0);
}

static bd_status infer_real_range(bd_onnx_step *step, const bd_onnx_number by[3]) {
  double wanted = ceil((by[1].real - by[0].real) / by[2].real);
  if (!(wanted <= 0x1p46))
    return bd_onnx_step_fail(step, BD_INVALID, "its length is not a number, or more than 2^46");
  bd_onnx_number count = bd_onnx_whole(wanted < 0 ? 0 : (int64_t)wanted);
  BD_TRY(bd_onnx_shape(step, 0, 1, &count));
  if (count.integer > BD_ONNX_MOST_KNOWN) return BD_OK;
  bd_onnx_number *known = bd_onnx_fold(step, 0);
  for (int64_t i = 0; i < count.integer; i++)
    known[i].real = bd_onnx_round(step->out[0].dtype, by[0].real + (double)i * by[2].real);
  return BD_OK;
}

static bd_status infer_range(bd_onnx_step *step) {
  bd_onnx_number by[3], length, count; // from, to, step
  for (int i = 0; i < 3; i++)
    BD_TRY(bd_onnx_one(step, i, &by[i]));
  if (bd_onnx_is_float(step->out[0].dtype)) return infer_real_range(step, by);
  int64_t step_by = by[2].integer;
  if (by[2].batch || step_by == 0 || step_by == INT64_MIN)
    return bd_onnx_step_fail(step, BD_INVALID, "counts in steps of 0, or of the batch");
  if (!bd_onnx_subtract(by[1], by[0], &length) || (length.batch && step_by != 1))
    return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                             "its length depends on the batch in a way that "
                             "cannot be followed");
  if (step_by < 0 && !bd_onnx_subtract(by[0], by[1], &length))
    return bd_onnx_step_fail(step, BD_INVALID, "its length is more than 2^46");
  int64_t size = step_by < 0 ? -step_by : step_by;
  count = length;
  if (!length.batch)
    count = bd_onnx_whole(length.integer <= 0 ? 0 : (length.integer - 1) / size + 1);
  BD_TRY(bd_onnx_shape(step, 0, 1, &count));
  if (count.batch || by[0].batch || count.integer > BD_ONNX_MOST_KNOWN) return BD_OK;
  bd_onnx_number *known = bd_onnx_fold(step, 0);
  for (int64_t i = 0; i < count.integer; i++)
    known[i] = bd_onnx_whole(by[0].integer + i * step_by);
  return BD_OK;
}

static bd_status infer_one_hot(bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0];
  bd_onnx_number depth, dims[BD_MAX_RANK + 1];
  int axis, rank = 0;
  BD_TRY(bd_onnx_one(step, 1, &depth));
  if (bd_onnx_is_float(step->in[1]->dtype)) {
    if (!(depth.real >= 0 && depth.real <= 0x1p46))
      return bd_onnx_step_fail(step, BD_INVALID, "its depth is no extent");
    depth = bd_onnx_whole((int64_t)depth.real);
  }
  BD_TRY(bd_onnx_axis(step, bd_onnx_int(step, "axis", -1), in->rank + 1, &axis));
  for (int d = 0; d < in->rank; d++) {
    if (d == axis) dims[rank++] = depth;
    dims[rank++] = in->dims[d];
  }
  if (axis == in->rank) dims[rank++] = depth;
  return bd_onnx_shape(step, 0, rank, dims);
}

static bool is_zero(const bd_onnx_fact *fact, int64_t i) {
  bd_onnx_number number = bd_onnx_at(fact, i);
  return bd_onnx_is_float(fact->dtype) ? number.real == 0 : number.integer == 0;
}

// How many elements differ from zero is data, unless the elements are known.
static bd_status infer_non_zero(bd_onnx_step *step) {
  bd_onnx_fact *in = step->in[0];
  if (in->weight || !bd_onnx_is_known(in) || !bd_onnx_plain(in) ||
      bd_onnx_count(in) > BD_ONNX_MOST_KNOWN) {
    bd_onnx_number selected = {.integer = 1, .batch = true, .selection = step->node->in[0] + 1};
    return bd_onnx_shape(step, 0, 2, (bd_onnx_number[]){bd_onnx_whole(in->rank), selected});
  }
  BD_TRY(bd_onnx_load(step, in));
  int64_t count = bd_onnx_count(in), found = 0, strides = 1;
  for (int64_t i = 0; i < count; i++)
    found += !is_zero(in, i);
  int rank = in->rank ? in->rank : 1;
  bd_onnx_number dims[] = {bd_onnx_whole(rank), bd_onnx_whole(found)};
  BD_TRY(bd_onnx_shape(step, 0, 2, dims));
  if (rank * found > BD_ONNX_MOST_KNOWN) return BD_OK;
  bd_onnx_number *known = bd_onnx_fold(step, 0);
  for (int d = rank - 1; d >= 0; d--) {
    int64_t extent = in->rank ? in->dims[d].integer : 1, at = 0;
    for (int64_t i = 0; i < count; i++)
      if (!is_zero(in, i)) known[d * found + at++] = bd_onnx_whole(i / strides % extent);
    strides *= extent;
  }
  return BD_OK;
}

static bd_status infer_random(bd_onnx_step *step) {
  const bd_onnx_attribute *dtype = bd_onnx_find(step, "dtype");
  step->out[0].dtype = step->in[0]->dtype;
  if (dtype)
    step->out[0].dtype = dtype->integer == BD_ONNX_FLOAT     ? BD_ONNX_FLOAT
                         : dtype->integer == BD_ONNX_FLOAT16 ? BD_ONNX_FLOAT16
                         : dtype->integer == BD_ONNX_DOUBLE  ? BD_ONNX_DOUBLE
                                                             : BD_ONNX_UNDEFINED;
  if (!bd_onnx_is_float(step->out[0].dtype))
    return bd_onnx_step_fail(step, BD_INVALID, "draws numbers of no floating-point type");
  return bd_onnx_shape_of(step, 0, 0);
}

// Of probabilities, zeros and ones.
static bd_status infer_bernoulli(bd_onnx_step *step) {
  int64_t dtype = bd_onnx_int(step, "dtype", step->in[0]->dtype);
  step->out[0].dtype = dtype >= 0 && dtype < 128 ? (bd_onnx_dtype)dtype : BD_ONNX_UNDEFINED;
  if (bd_onnx_dtype_bytes(step->out[0].dtype) == 0)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "makes %s (%lld), which braid does not have",
                             bd_onnx_dtype_name(step->out[0].dtype), (long long)dtype);
  return bd_onnx_shape_of(step, 0, 0);
}

static const bd_onnx_rule rules[] = {
    {"Bernoulli", 15, "f=x", "dtype:i seed:f", 0, infer_bernoulli, NULL},
    {"Constant", 1, "=x", "value:t", 0, infer_constant, NULL},
    {"Constant", 12, "=x", "value:t value_float:f value_floats:F value_int:i value_ints:I", 0,
     infer_constant, NULL},
    {"ConstantOfShape", 9, "l=x", "value:t", 1U << 0, infer_constant_of_shape, NULL},
    {"EyeLike", 9, "t=x", "dtype:i k:i", 0, infer_eye, NULL},
    {"NonZero", 9, "t=l", "", 1U << 0, infer_non_zero, NULL},
    {"OneHot", 9, "nmt=t", "axis:i", 1U << 1, infer_one_hot, NULL},
    {"RandomUniformLike", 1, "t=x", "dtype:i high:f low:f seed:f", 0, infer_random, NULL},
    {"Range", 11, "nnn=n", "", 1U << 0 | 1U << 1 | 1U << 2, infer_range, NULL},
};
const bd_onnx_rules bd_onnx_create_rules = {sizeof rules / sizeof *rules, rules};
