#include "tests/device/fake/combine.h"

#include "tests/device/fake/device.h"
#include "tests/device/fake/half.h"

#include <stdlib.h>

size_t bd_fake_dtype_bytes(const char *call, ncclDataType_t dtype) {
  switch (dtype) {
  case ncclInt8:
  case ncclUint8:
    return 1;
  case ncclBfloat16:
  case ncclFloat16:
    return 2;
  case ncclInt32:
  case ncclFloat32:
    return 4;
  case ncclInt64:
  case ncclFloat64:
    return 8;
  default:
    bd_fake_fault(call, "data type %d", (int)dtype);
  }
}

#define COMBINE(name, type)                                                                        \
  static void name(ncclRedOp_t op, int64_t count, type *sum, const type *more) {                   \
    for (int64_t i = 0; i < count; i++)                                                            \
      sum[i] = op == ncclSum                           ? sum[i] + more[i]                          \
               : (op == ncclMax) == (more[i] > sum[i]) ? more[i]                                   \
                                                       : sum[i];                                   \
  }
COMBINE(combine_f32, float)
COMBINE(combine_f64, double)
COMBINE(combine_i32, int32_t)
COMBINE(combine_i64, int64_t)

static void combine_two(const char *call, ncclDataType_t dtype, ncclRedOp_t op, int64_t count,
                        void *sum, const void *more) {
  if (dtype == ncclFloat32)
    combine_f32(op, count, sum, more);
  else if (dtype == ncclFloat64)
    combine_f64(op, count, sum, more);
  else if (dtype == ncclInt32)
    combine_i32(op, count, sum, more);
  else if (dtype == ncclInt64)
    combine_i64(op, count, sum, more);
  else
    bd_fake_fault(call, "data type %d is not combined here", (int)dtype);
}

static void *data_of(const bd_fake_wire *wire, int rank, size_t offset, size_t bytes) {
  void *const data = malloc(bytes ? bytes : 1);
  if (!data) abort();
  bd_fake_wire_read(wire, rank, -1, offset, data, bytes);
  return data;
}

static void combine_halves(const char *call, bd_fake_half kind, const bd_fake_wire *wire,
                           ncclRedOp_t op, int64_t first, int64_t count, uint16_t *out) {
  float *const sum = malloc((size_t)count * sizeof *sum + 1);
  float *const more = malloc((size_t)count * sizeof *more + 1);
  if (!sum || !more) abort();
  for (int r = 0; r < wire->ranks; r++) {
    uint16_t *const data = data_of(wire, r, (size_t)first * 2, (size_t)count * 2);
    for (int64_t i = 0; i < count; i++)
      (r ? more : sum)[i] = bd_fake_of_half(kind, data[i]);
    if (r) combine_two(call, ncclFloat32, op, count, sum, more);
    free(data);
  }
  for (int64_t i = 0; i < count; i++)
    out[i] = bd_fake_to_half(kind, sum[i]);
  free(sum);
  free(more);
}

void bd_fake_combine(const char *call, const bd_fake_wire *wire, ncclDataType_t dtype,
                     ncclRedOp_t op, int64_t first, int64_t count, void *out) {
  const size_t unit = bd_fake_dtype_bytes(call, dtype);
  if (op != ncclSum && op != ncclMax && op != ncclMin) bd_fake_fault(call, "operation %d", (int)op);
  if (dtype == ncclBfloat16 || dtype == ncclFloat16) {
    const bd_fake_half kind = dtype == ncclBfloat16 ? bd_fake_bf16 : bd_fake_f16;
    combine_halves(call, kind, wire, op, first, count, out);
    return;
  }
  bd_fake_wire_read(wire, 0, -1, (size_t)first * unit, out, (size_t)count * unit);
  for (int r = 1; r < wire->ranks; r++) {
    void *const more = data_of(wire, r, (size_t)first * unit, (size_t)count * unit);
    combine_two(call, dtype, op, count, out, more);
    free(more);
  }
}
