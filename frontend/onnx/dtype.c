#include "frontend/onnx/model.h"

static const struct {
  const char *name;
  int bytes; // 0: not read
  bool is_float, is_integer;
} dtypes[] = {
    [BD_ONNX_UNDEFINED] = {"no type", 0, false, false},
    [BD_ONNX_FLOAT] = {"float32", 4, true, false},
    [BD_ONNX_UINT8] = {"uint8", 1, false, true},
    [BD_ONNX_INT8] = {"int8", 1, false, true},
    [BD_ONNX_UINT16] = {"uint16", 2, false, true},
    [BD_ONNX_INT16] = {"int16", 2, false, true},
    [BD_ONNX_INT32] = {"int32", 4, false, true},
    [BD_ONNX_INT64] = {"int64", 8, false, true},
    [BD_ONNX_STRING] = {"string", 0, false, false},
    [BD_ONNX_BOOL] = {"bool", 1, false, false},
    [BD_ONNX_FLOAT16] = {"float16", 2, true, false},
    [BD_ONNX_DOUBLE] = {"float64", 8, true, false},
    [BD_ONNX_UINT32] = {"uint32", 4, false, true},
    [BD_ONNX_UINT64] = {"uint64", 8, false, true},
    [14] = {"complex64", 0, false, false},
    [15] = {"complex128", 0, false, false},
    [BD_ONNX_BFLOAT16] = {"bfloat16", 2, true, false},
};

static int row_of(bd_onnx_dtype dtype) {
  return dtype >= 0 && dtype <= BD_ONNX_BFLOAT16 ? (int)dtype : -1;
}

const char *bd_onnx_dtype_name(bd_onnx_dtype dtype) {
  if (dtype == BD_ONNX_SEQUENCE) return "sequence";
  return row_of(dtype) < 0 ? "an unknown type" : dtypes[dtype].name;
}

int bd_onnx_dtype_bytes(bd_onnx_dtype dtype) {
  return row_of(dtype) < 0 ? 0 : dtypes[dtype].bytes;
}

bool bd_onnx_is_float(bd_onnx_dtype dtype) {
  return row_of(dtype) >= 0 && dtypes[dtype].is_float;
}

bool bd_onnx_is_integer(bd_onnx_dtype dtype) {
  return row_of(dtype) >= 0 && dtypes[dtype].is_integer;
}

bool bd_onnx_fits_int64(bd_onnx_dtype dtype) {
  return bd_onnx_is_integer(dtype) && dtype != BD_ONNX_UINT64;
}
