// Index rules of ops that make values from attributes.
#include "ir/index_rule.h"
#include <math.h>

// Bytes of a constant that is written out; larger ones are weights.
enum { MOST_BYTES = 1024 };

// The result's shape from `dims`, every loop parallel.
static bd_status take_dims(bd_inference *inference) {
  const bd_attr *dims = bd_op_find_attr(inference->op, "dims");
  if (dims->count > BD_MAX_RANK)
    return bd_inference_fail(inference, "dims has %d extents, more than %d", dims->count,
                             BD_MAX_RANK);
  inference->out[0] = bd_type_make(BD_F32, dims->count, dims->ints);
  for (int d = 0; d < dims->count; ++d) {
    if (dims->ints[d] < 1 && dims->ints[d] != BD_DIM_BATCH)
      return bd_inference_fail(inference, "dims holds %lld: extents are positive, or -1 for B",
                               (long long)dims->ints[d]);
    bd_inference_add_loop(inference, (char)('A' + d), BD_LOOP_PARALLEL, dims->ints[d]);
    inference->map->out[0][d] = (int8_t)d;
  }
  return BD_OK;
}

static bool integer_fits(bd_dtype dtype, int64_t value) {
  if (dtype == BD_BOOL) return value == 0 || value == 1;
  if (dtype == BD_U64) return value >= 0;
  return dtype == BD_I64 || bd_dtype_wrap(dtype, (double)value) == (double)value;
}

// A number that a list or an attribute gives as a real.
static bd_status check_real(const bd_inference *inference, bd_dtype dtype, double value) {
  if (bd_dtype_is_float(dtype)) return BD_OK;
  if (fabs(value) < 0x1p53 && value == trunc(value) && integer_fits(dtype, (int64_t)value))
    return BD_OK;
  return bd_inference_fail(inference, "a value of %s must be an integer that it has, not %g",
                           bd_dtype_name(dtype), value);
}

static bd_status check_integers(const bd_inference *inference, bd_dtype dtype, int count,
                                const int64_t *values) {
  for (int i = 0; i < count && bd_dtype_class_of(dtype) != BD_FLOATS; ++i)
    if (!integer_fits(dtype, values[i]))
      return bd_inference_fail(inference, "%lld is no %s", (long long)values[i],
                               bd_dtype_name(dtype));
  return BD_OK;
}

bd_status bd_inference_check_fill(const bd_inference *inference) {
  const bd_attr *value = bd_op_find_attr(inference->op, "value");
  if (!value) return BD_OK;
  bd_dtype dtype = inference->in[0]->dtype;
  if (value->kind == BD_ATTR_REAL) return check_real(inference, dtype, value->real);
  return check_integers(inference, dtype, 1, &value->integer);
}

static bd_status check_values(const bd_inference *inference, bd_dtype dtype,
                              const bd_attr *values) {
  const bd_type *type = &inference->out[0];
  if (values->kind != BD_ATTR_INTS && values->kind != BD_ATTR_REALS)
    return bd_inference_fail(inference, "attribute values must be a list of numbers");
  if (bd_type_has_batch(type))
    return bd_inference_fail(inference, "a list of values has no batch: use value");
  if (bd_type_elements(type, 1) != values->count)
    return bd_inference_fail(inference, "%d values are given for %lld elements", values->count,
                             (long long)bd_type_elements(type, 1));
  if (values->count * bd_dtype_bytes(dtype) > MOST_BYTES)
    return bd_inference_fail(inference, "%d values of %s are more than %d bytes: use a weight",
                             values->count, bd_dtype_name(dtype), MOST_BYTES);
  if (values->kind == BD_ATTR_INTS)
    return check_integers(inference, dtype, values->count, values->ints);
  for (int i = 0; i < values->count; ++i)
    BD_TRY(check_real(inference, dtype, values->reals[i]));
  return BD_OK;
}

bd_status bd_infer_constant(bd_inference *inference) {
  const bd_attr *value = bd_op_find_attr(inference->op, "value");
  const bd_attr *values = bd_op_find_attr(inference->op, "values");
  bd_dtype dtype = BD_F32;
  (void)bd_dtype_parse(bd_op_string(inference->op, "dtype"), &dtype);
  BD_TRY(take_dims(inference));
  if (!value == !values)
    return bd_inference_fail(inference, "needs either value or values, not both");
  if (values) return check_values(inference, dtype, values);
  if (value->kind != BD_ATTR_INT && value->kind != BD_ATTR_REAL)
    return bd_inference_fail(inference, "attribute value must be a number");
  if (value->kind == BD_ATTR_INT) return check_integers(inference, dtype, 1, &value->integer);
  return check_real(inference, dtype, value->real);
}

// Indices of the batch would count a micro-batch's samples, which the plan chooses.
bd_status bd_infer_iota(bd_inference *inference) {
  BD_TRY(take_dims(inference));
  int64_t dim = bd_op_int(inference->op, "dim", 0);
  const bd_type *type = &inference->out[0];
  if (dim >= type->rank || type->dims[dim] == BD_DIM_BATCH)
    return bd_inference_fail(inference, "dim is %lld, which is not a dimension of fixed extent",
                             (long long)dim);
  bd_dtype dtype = BD_F32;
  (void)bd_dtype_parse(bd_op_string(inference->op, "dtype"), &dtype);
  if (dtype == BD_BOOL) return bd_inference_fail(inference, "indices are no bools");
  return BD_OK;
}
