// The optimizers that programs train with: what each keeps of a weight between steps.
#ifndef BD_IR_OPTIMIZER_H
#define BD_IR_OPTIMIZER_H
#include "ir/mesh.h"

// Numbered as in runtime/braid_rt_abi.h.
typedef enum bd_optimizer_kind {
  BD_OPTIMIZER_SGD,
  BD_OPTIMIZER_ADAMW,
  BD_OPTIMIZER_MOMENTUM,
  BD_OPTIMIZER_ADAM,
  BD_OPTIMIZER_ADAFACTOR,
  BD_OPTIMIZER_COUNT
} bd_optimizer_kind;

typedef struct bd_optimizer {
  bd_optimizer_kind kind;
  int moments;          // f32 numbers of state per element
  bool factored;        // state per row and per column instead (bd_optimizer_factor_bytes)
  int64_t extra_passes; // numbers that the update of one element reads again
} bd_optimizer;

// NULL: there is none of the name.
const bd_optimizer *bd_optimizer_find(const char *name);
// By kind; ends with NULL.
const char *const *bd_optimizer_names(void);

// The dimensions before the returned one are the rows of the matrix that a factored optimizer sees
// in a weight, the others its columns: as few of both as can be. The rank: it is a vector.
int bd_optimizer_factor_dim(const bd_type *type);
// Bytes of state per row and column of the part `form` of a weight on a rank, not aligned; 0 for
// optimizers without.
int64_t bd_optimizer_factor_bytes(const bd_optimizer *optimizer, const bd_mesh *mesh,
                                  const bd_type *type, const bd_sharding *form);
#endif
