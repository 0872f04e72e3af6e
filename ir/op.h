// The op table: kinds, traits, attributes. `ir/ops.def` is the only list of ops.
#ifndef BD_IR_OP_H
#define BD_IR_OP_H
#include "ir/mesh.h"

typedef enum bd_op_kind {
#define BD_OP(NAME, spelling, in, out, level, rule, traits) BD_OP_##NAME,
#include "ir/ops.def"
#undef BD_OP
  BD_OP_KIND_COUNT
} bd_op_kind;

// Where an op may stand.
typedef enum bd_op_level {
  BD_LOGICAL,    // computes; in every stage
  BD_COLLECTIVE, // moves data between ranks; spmd and exec
  BD_CONTROL,    // call and the instructions of a schedule; main
} bd_op_level;

enum {
  BD_PURE = 1,      // no effect; CSE and DCE apply
  BD_POINTWISE = 2, // one result element per loop point, fusible; same shape or trailing broadcast
  BD_RANDOM = 4,    // draws from the counter-based generator at its `site`; never merged
  BD_NO_GRADIENT = 8,  // gradients stop here
  BD_INPLACE_0 = 16,   // the result may take the storage of operand 0
  BD_CHEAP = 32,       // little arithmetic per byte: a candidate for recomputation
  BD_LIBRARY = 64,     // runs as one call of the runtime, not a generated kernel
  BD_DERIVED = 128,    // what gradients are made of; models do not have it
  BD_GRADIENT_0 = 256, // operand 0 alone has a gradient: it counts the ways by the others
};

#define BD_VARIADIC (-1)
#define BD_MOST_BIASES 1024 // places of a head's biases by relative position

typedef struct bd_op_info {
  const char *name; // its spelling in text
  int in, out;      // BD_VARIADIC where any number goes
  bd_op_level level;
  const char *rule; // index rule; see ir/index.h
  unsigned traits;
} bd_op_info;

const bd_op_info *bd_op_get_info(bd_op_kind kind);
bool bd_op_find(const char *name, bd_op_kind *out_kind);
// A matrix product, of rows in groups or of all.
bool bd_op_is_product(bd_op_kind kind);
bool bd_op_is_grouped(bd_op_kind kind); // of rows in groups
// Attention, with sinks, with biases by relative position or plain; its gradient, of any.
bool bd_op_is_attention(bd_op_kind kind);
bool bd_op_is_attention_grad(bd_op_kind kind);
bool bd_op_attends(bd_op_kind kind); // either
enum { BD_ATTENTION_GRAD_LSE = 5 };  // the operand of a gradient that is the rows' log-sum-exps

typedef enum bd_attr_kind {
  BD_ATTR_INT,
  BD_ATTR_REAL,
  BD_ATTR_STRING,
  BD_ATTR_INTS,
  BD_ATTR_REALS
} bd_attr_kind;

typedef struct bd_attr {
  const char *name; // interned
  bd_attr_kind kind;
  int64_t integer;
  double real;
  const char *string;
  const int64_t *ints;
  const double *reals;
  int count; // of ints or reals
} bd_attr;
#endif
