#include "ir/type.h"
#include <assert.h>
#include <math.h>
#include <string.h>

typedef struct dtype_info {
  const char *name;
  int64_t bytes;
  bd_dtype_class class;
  bool is_unsigned;
} dtype_info;

static const dtype_info dtypes[BD_F8 + 1] = {
    [BD_F32] = {"f32", 4, BD_FLOATS, false},   [BD_BF16] = {"bf16", 2, BD_FLOATS, false},
    [BD_F16] = {"f16", 2, BD_FLOATS, false},   [BD_F64] = {"f64", 8, BD_FLOATS, false},
    [BD_I32] = {"i32", 4, BD_INTEGERS, false}, [BD_I64] = {"i64", 8, BD_INTEGERS, false},
    [BD_BOOL] = {"bool", 1, BD_BOOLS, false},  [BD_U8] = {"u8", 1, BD_INTEGERS, true},
    [BD_I8] = {"i8", 1, BD_INTEGERS, false},   [BD_I16] = {"i16", 2, BD_INTEGERS, false},
    [BD_U16] = {"u16", 2, BD_INTEGERS, true},  [BD_U32] = {"u32", 4, BD_INTEGERS, true},
    [BD_U64] = {"u64", 8, BD_INTEGERS, true},  [BD_F8] = {"f8", 1, BD_FLOATS, false},
};

const char *bd_dtype_name(bd_dtype dtype) {
  assert(dtype <= BD_F8);
  return dtypes[dtype].name;
}

bool bd_dtype_parse(const char *name, bd_dtype *out_dtype) {
  for (int i = 0; i < BD_DTYPE_COUNT; ++i) {
    if (strcmp(dtypes[i].name, name) == 0) {
      *out_dtype = (bd_dtype)i;
      return true;
    }
  }
  return false;
}

bool bd_precision_parse(const char *name, bd_dtype *out_precision) {
  static const bd_dtype precisions[] = {BD_F32, BD_BF16, BD_F16, BD_F8};
  for (int i = 0; i < 4; ++i)
    if (strcmp(dtypes[precisions[i]].name, name) == 0) {
      *out_precision = precisions[i];
      return true;
    }
  return false;
}

int64_t bd_dtype_bytes(bd_dtype dtype) {
  assert(dtype < BD_DTYPE_COUNT);
  return dtypes[dtype].bytes;
}

bd_dtype_class bd_dtype_class_of(bd_dtype dtype) {
  assert(dtype < BD_DTYPE_COUNT);
  return dtypes[dtype].class;
}

bool bd_dtype_is_float(bd_dtype dtype) {
  return bd_dtype_class_of(dtype) == BD_FLOATS;
}

bool bd_dtype_is_unsigned(bd_dtype dtype) {
  assert(dtype < BD_DTYPE_COUNT);
  return dtypes[dtype].is_unsigned;
}

bd_dtype bd_dtype_wide(bd_dtype dtype) {
  return dtype == BD_BF16 || dtype == BD_F16 ? BD_F32 : dtype;
}

// To `digits` binary digits and no finer than the subnormals' step.
static double round_digits(double value, int digits, int least_exponent, double most) {
  int exponent;
  if (!isfinite(value) || value == 0) return value;
  (void)frexp(value, &exponent);
  int step = exponent - digits > least_exponent ? exponent - digits : least_exponent;
  double rounded = ldexp(nearbyint(ldexp(value, -step)), step);
  return fabs(rounded) > most ? copysign(INFINITY, value) : rounded;
}

double bd_dtype_wrap(bd_dtype dtype, double whole) {
  if (dtype == BD_BOOL) return whole != 0;
  int bits = 8 * (int)dtypes[dtype].bytes;
  double numbers = ldexp(1, bits), low = fmod(whole, numbers);
  if (low < 0) low += numbers;
  return dtypes[dtype].is_unsigned || low < numbers / 2 ? low : low - numbers;
}

static double clamp(double value, double least, double most) {
  return value < least ? least : value > most ? most : value;
}

// 2^63 - 1 and 2^64 - 1 are no doubles; 2^63 and 2^64 stand for them.
static double truncate(bd_dtype dtype, double value) {
  if (isnan(value)) return 0;
  value = trunc(value);
  switch (dtype) {
  case BD_I64:
    return clamp(value, -0x1p63, 0x1p63);
  case BD_U64:
    return clamp(value, 0, 0x1p64);
  case BD_U32:
    value = clamp(value, -0x1p63, 0x1p63);
    return bd_dtype_wrap(BD_U32, value == 0x1p63 ? -1 : value);
  default:
    return bd_dtype_wrap(dtype, clamp(value, INT32_MIN, INT32_MAX));
  }
}

double bd_dtype_round(bd_dtype dtype, double value) {
  switch (dtype) {
  case BD_F64:
    return value;
  case BD_F32:
    return (float)value;
  case BD_BF16:
    return round_digits(value, 8, -133, 0x1.fep127);
  case BD_F16:
    return round_digits(value, 11, -24, 65504);
  case BD_BOOL:
    return value != 0;
  default:
    return truncate(dtype, value);
  }
}

bool bd_type_equal(const bd_type *a, const bd_type *b) {
  if (a->dtype != b->dtype || a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; ++i)
    if (a->dims[i] != b->dims[i]) return false;
  return true;
}

bd_type bd_type_make(bd_dtype dtype, int rank, const int64_t *dims) {
  assert(rank >= 0 && rank <= BD_MAX_RANK);
  bd_type type = {.dtype = dtype, .rank = rank};
  for (int i = 0; i < rank; ++i)
    type.dims[i] = dims[i];
  return type;
}

int64_t bd_type_elements(const bd_type *type, int64_t batch) {
  int64_t elements = 1;
  for (int i = 0; i < type->rank; ++i)
    if (__builtin_mul_overflow(elements, bd_extent(type->dims[i], batch), &elements))
      return INT64_MAX;
  return elements;
}

bool bd_type_has_batch(const bd_type *type) {
  for (int i = 0; i < type->rank; ++i)
    if (type->dims[i] == BD_DIM_BATCH) return true;
  return false;
}
