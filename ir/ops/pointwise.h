// Evaluation of pointwise ops: floats as they are, integers exactly in 64 bits, of which the result
// keeps the low ones.
#ifndef BD_IR_OPS_POINTWISE_H
#define BD_IR_OPS_POINTWISE_H
#include "ir/ops/ops.h"

// The bits of a whole number, in two's complement.
static inline uint64_t bd_whole_bits(double whole) {
  if (whole < 0) return (uint64_t)(int64_t)whole;
  return whole < 0x1p64 ? (uint64_t)whole : UINT64_MAX;
}

// The integer of the type that has the low bits of `bits`.
static inline double bd_whole_of(bd_dtype dtype, uint64_t bits) {
  int above = 64 - 8 * (int)bd_dtype_bytes(dtype);
  if (bd_dtype_is_unsigned(dtype)) return (double)(bits << above >> above);
  return (double)((int64_t)(bits << above) >> above);
}

// `expression` of x, or of a and b, in double; lower ranks repeat over leading dimensions.
#define BD_UNARY_EVAL(spelling, expression)                                                        \
  BD_EVAL(spelling) {                                                                              \
    BD_IGNORE(op, key, scratch);                                                                   \
    int64_t count = bd_tensor_elements(out);                                                       \
    for (int64_t i = 0; i < count; i++) {                                                          \
      double x = in[0].data[i];                                                                    \
      out->data[i] = (expression);                                                                 \
    }                                                                                              \
  }

#define BD_BINARY_EVAL(spelling, expression)                                                       \
  BD_EVAL(spelling) {                                                                              \
    BD_IGNORE(op, key, scratch);                                                                   \
    int64_t count = bd_tensor_elements(out);                                                       \
    int64_t count0 = bd_tensor_elements(&in[0]), count1 = bd_tensor_elements(&in[1]);              \
    for (int64_t i = 0; i < count; i++) {                                                          \
      double a = in[0].data[i % count0], b = in[1].data[i % count1];                               \
      out->data[i] = (expression);                                                                 \
    }                                                                                              \
  }

// `whole(op, dtype, x, y)` of the bits of integers, whose low bits are the result's; operand 1 may
// be absent.
typedef uint64_t (*bd_whole_function)(const bd_op *op, bd_dtype dtype, uint64_t x, uint64_t y);
static inline void bd_eval_whole(const bd_op *op, const bd_tensor *in, bd_tensor *out,
                                 bd_whole_function whole) {
  int64_t count = bd_tensor_elements(out);
  for (int64_t i = 0; i < count; i++) {
    uint64_t bits[2] = {0, 0};
    for (int k = 0; k < op->in_count; k++)
      bits[k] = bd_whole_bits(in[k].data[i % bd_tensor_elements(&in[k])]);
    out->data[i] = bd_whole_of(out->type.dtype, whole(op, out->type.dtype, bits[0], bits[1]));
  }
}

// An op on floats by `real`, on integers by the function `whole`.
#define BD_NUMBER_EVAL(KIND, spelling, real, whole)                                                \
  static KIND(spelling##_of_floats, real) BD_EVAL(spelling) {                                      \
    if (bd_dtype_is_float(out->type.dtype))                                                        \
      bd_eval_##spelling##_of_floats(op, in, out, key, scratch);                                   \
    else                                                                                           \
      bd_eval_whole(op, in, out, whole);                                                           \
  }
#endif
