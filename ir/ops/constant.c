// constant: the number `value` everywhere, or the list `values`; iota: the index along `dim`.
#include "ir/ops/ops.h"

BD_EVAL(constant) {
  (void)in, (void)key, (void)scratch;
  const bd_attr *values = bd_op_find_attr(op, "values");
  int64_t count = bd_tensor_elements(out);
  for (int64_t i = 0; i < count; i++) {
    double value = !values                         ? bd_op_real(op, "value", 0)
                   : values->kind == BD_ATTR_REALS ? values->reals[i]
                                                   : (double)values->ints[i];
    out->data[i] =
        bd_dtype_is_float(out->type.dtype) ? bd_dtype_round(out->type.dtype, value) : value;
  }
}

BD_EVAL(iota) {
  (void)in, (void)key, (void)scratch;
  int dim = (int)bd_op_int(op, "dim", 0);
  int64_t inner = 1, count = bd_tensor_elements(out);
  for (int d = dim + 1; d < out->type.rank; d++)
    inner *= out->type.dims[d];
  for (int64_t i = 0; i < count; i++) {
    double index = (double)(i / inner % out->type.dims[dim]);
    out->data[i] =
        bd_dtype_is_float(out->type.dtype) ? index : bd_dtype_wrap(out->type.dtype, index);
  }
}
