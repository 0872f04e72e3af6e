// Tensor types: logical shapes, with the micro-batch as the one symbolic extent.
#ifndef BD_IR_TYPE_H
#define BD_IR_TYPE_H
#include "ir/base/context.h"

#define BD_MAX_RANK 8
#define BD_MAX_ELEMENTS ((int64_t)1 << 46)

// BD_F8 is a precision only and the type of no value: bf16 whose products are computed in 8 bits.
typedef enum bd_dtype {
  BD_F32,
  BD_BF16,
  BD_F16,
  BD_F64,
  BD_I32,
  BD_I64,
  BD_BOOL, // a byte in memory: 0 or 1
  BD_U8,
  BD_I8,
  BD_I16,
  BD_U16,
  BD_U32,
  BD_U64,
  BD_DTYPE_COUNT,
  BD_F8 = BD_DTYPE_COUNT
} bd_dtype;

// The symbolic extent `B`: samples of one micro-batch, over all ranks. Bound by the plan.
#define BD_DIM_BATCH ((int64_t)-1)

typedef struct bd_type {
  bd_dtype dtype;
  int rank;
  int64_t dims[BD_MAX_RANK]; // >= 1 or BD_DIM_BATCH
} bd_type;

// Of an element type; sets of them are sums.
typedef enum bd_dtype_class { BD_FLOATS = 1, BD_INTEGERS = 2, BD_BOOLS = 4 } bd_dtype_class;

const char *bd_dtype_name(bd_dtype dtype); // "f32"
bool bd_dtype_parse(const char *name, bd_dtype *out_dtype);
// f32, bf16, f16 or f8.
bool bd_precision_parse(const char *name, bd_dtype *out_precision);
int64_t bd_dtype_bytes(bd_dtype dtype);
bd_dtype_class bd_dtype_class_of(bd_dtype dtype);
bool bd_dtype_is_float(bd_dtype dtype);
bool bd_dtype_is_unsigned(bd_dtype dtype); // an integer without sign

// What sums and statistics of halves are held in: f32; of any other type the type itself.
bd_dtype bd_dtype_wide(bd_dtype dtype);
// The nearest number that the type has, ties to even; beyond the greatest, an infinity. Integers by
// truncation: beyond i32 (of u32 and i64: i64, of u64: u64) the last one there, of which the type
// keeps the low bits; what is no number becomes 0. Bools: whether it is not 0.
double bd_dtype_round(bd_dtype dtype, double value);
// The integer of the type that has the low bits of a whole number. Bools: whether it is not 0.
double bd_dtype_wrap(bd_dtype dtype, double whole);

bool bd_type_equal(const bd_type *a, const bd_type *b);
bd_type bd_type_make(bd_dtype dtype, int rank, const int64_t *dims);

// Extent of a dimension when a micro-batch holds `batch` samples.
static inline int64_t bd_extent(int64_t dim, int64_t batch) {
  return dim == BD_DIM_BATCH ? batch : dim;
}
// Product of all extents at `batch`. The verifier has bounded it by BD_MAX_ELEMENTS.
int64_t bd_type_elements(const bd_type *type, int64_t batch);
bool bd_type_has_batch(const bd_type *type);
#endif
