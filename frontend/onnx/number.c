#include "frontend/onnx/fact.h"
#include "ir/base/text.h"

// Zero times B is zero.
static bool settle(int64_t integer, bd_onnx_number unit, bd_onnx_number *out) {
  bool some = integer != 0;
  *out = (bd_onnx_number){
      .integer = integer, .batch = unit.batch && some, .selection = some ? unit.selection : 0};
  return true;
}

static bool same_unit(bd_onnx_number a, bd_onnx_number b) {
  return a.batch == b.batch && a.selection == b.selection;
}

// Whether the sum has a unit; zero has that of the other.
static bool share_unit(bd_onnx_number a, bd_onnx_number b, bd_onnx_number *out) {
  *out = a.batch ? a : b;
  return same_unit(a, b) || a.integer == 0 || b.integer == 0;
}

bool bd_onnx_add(bd_onnx_number a, bd_onnx_number b, bd_onnx_number *out) {
  int64_t sum;
  bd_onnx_number unit;
  if (!share_unit(a, b, &unit) || __builtin_add_overflow(a.integer, b.integer, &sum)) return false;
  return settle(sum, unit, out);
}

bool bd_onnx_subtract(bd_onnx_number a, bd_onnx_number b, bd_onnx_number *out) {
  int64_t difference;
  bd_onnx_number unit;
  if (!share_unit(a, b, &unit) || __builtin_sub_overflow(a.integer, b.integer, &difference))
    return false;
  return settle(difference, unit, out);
}

bool bd_onnx_multiply(bd_onnx_number a, bd_onnx_number b, bd_onnx_number *out) {
  int64_t product;
  if (a.batch && b.batch) return false;
  if (__builtin_mul_overflow(a.integer, b.integer, &product)) return false;
  return settle(product, a.batch ? a : b, out);
}

bool bd_onnx_divide(bd_onnx_number a, bd_onnx_number b, bd_onnx_number *out) {
  if (b.integer == 0 || (b.integer == -1 && a.integer == INT64_MIN)) return false;
  if (a.integer == 0 || same_unit(a, b))
    return settle(a.integer / b.integer, bd_onnx_whole(0), out);
  if (b.batch || a.integer % b.integer != 0) return false;
  return settle(a.integer / b.integer, a, out);
}

bool bd_onnx_remainder(bd_onnx_number a, bd_onnx_number b, bd_onnx_number *out) {
  if (b.integer == 0) return false;
  if (b.integer == -1 || a.integer == 0) return settle(0, a, out);
  if (same_unit(a, b)) return settle(a.integer % b.integer, a, out);
  return !b.batch && a.integer % b.integer == 0 && settle(0, a, out);
}

bool bd_onnx_compare(bd_onnx_number a, bd_onnx_number b, int *out_sign) {
  if (same_unit(a, b) || a.integer == 0 || b.integer == 0) {
    *out_sign = (a.integer > b.integer) - (a.integer < b.integer);
    return a.selection == 0 && b.selection == 0;
  }
  if (a.selection > 0 || b.selection > 0) return false; // a mask may select nothing
  if (b.batch) {
    bool known = bd_onnx_compare(b, a, out_sign);
    *out_sign = -*out_sign;
    return known;
  }
  // c * B goes from c away from zero: c > 0 past b is always past it, c < 0 below b likewise.
  *out_sign = a.integer > 0 ? 1 : -1;
  return a.integer > 0 ? a.integer > b.integer : a.integer < b.integer;
}

bool bd_onnx_product(const bd_onnx_number *dims, int count, bd_onnx_number *out) {
  bd_onnx_number product = bd_onnx_whole(1);
  for (int i = 0; i < count; i++)
    if (!bd_onnx_multiply(product, dims[i], &product) || product.integer > BD_MAX_ELEMENTS)
      return false;
  *out = product;
  return true;
}

double bd_onnx_round(bd_onnx_dtype dtype, double value) {
  switch (dtype) {
  case BD_ONNX_FLOAT:
    return bd_dtype_round(BD_F32, value);
  case BD_ONNX_FLOAT16:
    return bd_dtype_round(BD_F16, value);
  case BD_ONNX_BFLOAT16:
    return bd_dtype_round(BD_BF16, value);
  default:
    return value;
  }
}

bool bd_onnx_wrap(bd_onnx_dtype dtype, bd_onnx_number *number) {
  int64_t value = number->integer;
  int64_t wrapped = value;
  if (dtype == BD_ONNX_INT64) return true;
  if (dtype == BD_ONNX_UINT64) return value >= 0;
  if (dtype == BD_ONNX_INT32) wrapped = (int32_t)value;
  if (dtype == BD_ONNX_UINT32) wrapped = (uint32_t)value;
  if (dtype == BD_ONNX_INT16) wrapped = (int16_t)value;
  if (dtype == BD_ONNX_UINT16) wrapped = (uint16_t)value;
  if (dtype == BD_ONNX_INT8) wrapped = (int8_t)value;
  if (dtype == BD_ONNX_UINT8) wrapped = (uint8_t)value;
  if (dtype == BD_ONNX_BOOL) wrapped = value != 0;
  number->integer = wrapped;
  return !number->batch || wrapped == value;
}

const char *bd_onnx_dims_text(bd_ctx *ctx, int rank, const bd_onnx_number *dims) {
  bd_text text = bd_text_init(ctx->arena);
  bd_text_add(&text, "[");
  for (int i = 0; i < rank; i++) {
    bd_text_add(&text, i > 0 ? ", " : "");
    if (!dims[i].batch || dims[i].integer != 1)
      bd_text_addf(&text, "%lld%s", (long long)dims[i].integer, dims[i].batch ? "*" : "");
    if (dims[i].batch) bd_text_add(&text, dims[i].selection > 0 ? "S" : "B");
  }
  bd_text_add(&text, "]");
  return text.data;
}
