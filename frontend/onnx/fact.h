// What is known of a value before the model runs: its type, its extents, and, where they follow
// from the model alone, its elements. Extents and integers are c or c * B, B being the batch (at
// least 1), exactly, or c * the number of places that a mask selects: what is none of these is not
// known.
#ifndef BD_FRONTEND_ONNX_FACT_H
#define BD_FRONTEND_ONNX_FACT_H
#include "frontend/onnx/model.h"

typedef struct bd_onnx_number {
  union {
    int64_t integer; // extents, integers and bools (0, 1)
    double real;     // elements of floating-point types
  };
  bool batch; // times B; never of a real
  // With `batch`, above 0: not times B but times the number of elements of value `selection` - 1 of
  // the model that are not zero.
  int selection;
} bd_onnx_number;

// Elements are followed through tensors of at most so many; uniform ones of any size.
#define BD_ONNX_MOST_KNOWN 4096
// And matrices that are alike along diagonals, through as many of these.
#define BD_ONNX_MOST_DIAGONALS 16384

typedef struct bd_onnx_fact bd_onnx_fact;

// One tensor of a sequence: a value of the model, or elements `start` .. `start + size` of
// dimension `axis` of one.
typedef struct bd_onnx_member {
  int value;
  bd_onnx_fact *source; // of the value
  int axis;             // -1: all of it
  int64_t start, size;
  int rank;                   // the value's, or one less: without the axis
  const bd_onnx_number *dims; // of the member
} bd_onnx_member;

// Sequences are followed through so many members each. What puts a member in or takes one out makes
// the others anew, and what joins them makes an op of each: a small file may ask for very many.
enum {
  BD_ONNX_MOST_MEMBERS = 1024,
  BD_ONNX_MOST_MADE = 1 << 20,   // of all sequences of a model
  BD_ONNX_MOST_JOINED = 1 << 16, // in all ConcatFromSequence of a model
};

typedef struct bd_onnx_sequence {
  bd_onnx_dtype dtype; // of all members
  int count;
  const bd_onnx_member *members;
} bd_onnx_sequence;

struct bd_onnx_fact {
  bd_onnx_dtype dtype; // BD_ONNX_UNDEFINED: the value has not been reached
  int rank;
  bool weight;  // a trained tensor: its elements are there, but nothing is folded from them
  bool uniform; // `known` is one number, which every element is
  const bd_onnx_number *dims;
  const bd_onnx_tensor *tensor; // where the model stores it, else NULL
  const bd_onnx_number *known;  // elements in row-major order; NULL: not known, or not read yet
  // Of matrices too large for `known`, extents before them being 1, whose elements depend on their
  // diagonal alone: element (r, c) is number c - r + rows - 1 of rows + columns - 1. NULL: it is
  // none, or not known to be.
  const bd_onnx_number *diagonals;
  const bd_onnx_sequence *sequence; // of BD_ONNX_SEQUENCE, which has no more; else NULL
};

static inline bd_onnx_number bd_onnx_whole(int64_t integer) {
  return (bd_onnx_number){.integer = integer};
}
static inline bool bd_onnx_is(bd_onnx_number number, int64_t integer) {
  return !number.batch && number.integer == integer;
}
static inline bool bd_onnx_same(bd_onnx_number a, bd_onnx_number b) {
  return a.integer == b.integer &&
         ((a.batch == b.batch && a.selection == b.selection) || a.integer == 0);
}

// Arithmetic on extents and integers. False: the result is of none of their forms, does not fit in
// 64 bits, or is a division by zero.
bool bd_onnx_add(bd_onnx_number a, bd_onnx_number b, bd_onnx_number *out);
bool bd_onnx_subtract(bd_onnx_number a, bd_onnx_number b, bd_onnx_number *out);
bool bd_onnx_multiply(bd_onnx_number a, bd_onnx_number b, bd_onnx_number *out);
// The quotient truncated toward zero, and the remainder with the sign of `a`.
bool bd_onnx_divide(bd_onnx_number a, bd_onnx_number b, bd_onnx_number *out);
bool bd_onnx_remainder(bd_onnx_number a, bd_onnx_number b, bd_onnx_number *out);
// The order of a and b, where it is the same for every B >= 1, and every selection: -1, 0 or 1.
bool bd_onnx_compare(bd_onnx_number a, bd_onnx_number b, int *out_sign);

// The product of `count` extents. False: not of the form, or more than 2^46 (of c).
bool bd_onnx_product(const bd_onnx_number *dims, int count, bd_onnx_number *out);

// The nearest value of a floating-point type; an integer wrapped to the bits of its type (false: it
// does not fit in an int64, or is a multiple of B that might wrap).
double bd_onnx_round(bd_onnx_dtype dtype, double value);
bool bd_onnx_wrap(bd_onnx_dtype dtype, bd_onnx_number *number);

// Element i of a fact whose elements are known.
static inline bd_onnx_number bd_onnx_at(const bd_onnx_fact *fact, int64_t i) {
  return fact->known[fact->uniform ? 0 : i];
}

// Whether it is a plain matrix, extents before it being 1, of at least two rows and columns and no
// more diagonals than are followed.
bool bd_onnx_is_matrix(const bd_onnx_fact *fact, int64_t *out_rows, int64_t *out_columns);

// How a graph makes diagonals again. All before `first` are as it is, all behind `last` as that is.
typedef enum bd_onnx_diagonals_kind {
  BD_ONNX_DIAGONALS_NONE,  // they are computed when the model runs
  BD_ONNX_DIAGONALS_RUNS,  // equal ones side by side, a few times
  BD_ONNX_DIAGONALS_COUNT, // whole numbers that grow by the same from one to the next
  BD_ONNX_DIAGONALS_TABLE, // looked up by number
} bd_onnx_diagonals_kind;
enum { BD_ONNX_MOST_RUNS = 4, BD_ONNX_MOST_PLACES = 1024 };

typedef struct bd_onnx_diagonals_form {
  bd_onnx_diagonals_kind kind;
  int64_t first, last;
  int runs;
  int64_t starts[BD_ONNX_MOST_RUNS]; // of runs
} bd_onnx_diagonals_form;

bd_onnx_diagonals_form bd_onnx_form_of(const bd_onnx_fact *fact);

// Reads `count` elements of a stored tensor from `first`, wherever they lie. A number of an
// unsigned 64-bit type past 2^63 wraps. Errors: BD_EXTERNAL when another file cannot be read.
BD_NODISCARD bd_status bd_onnx_tensor_elements(bd_ctx *ctx, const bd_onnx_model *model,
                                               const bd_onnx_tensor *tensor, int64_t first,
                                               int64_t count, bd_onnx_number *out);

// The dimension that is as long as a mask selects places, the first of them, or -1.
static inline int bd_onnx_selected_dim(const bd_onnx_fact *fact) {
  for (int d = 0; d < fact->rank; d++)
    if (fact->dims[d].selection > 0) return d;
  return -1;
}

// `[2, 3*B, 768]`, a selected extent being S; in ctx->arena.
const char *bd_onnx_dims_text(bd_ctx *ctx, int rank, const bd_onnx_number *dims);
#endif
