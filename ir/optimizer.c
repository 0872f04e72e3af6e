#include "ir/optimizer.h"

#include <string.h>

enum { FACTOR_SUMS = 4 }; // numbers beside those of rows and columns

static const char *const names[BD_OPTIMIZER_COUNT + 1] = {
    [BD_OPTIMIZER_SGD] = "sgd",
    [BD_OPTIMIZER_ADAMW] = "adamw",
    [BD_OPTIMIZER_MOMENTUM] = "momentum",
    [BD_OPTIMIZER_ADAM] = "adam",
    [BD_OPTIMIZER_ADAFACTOR] = "adafactor",
};

static const bd_optimizer optimizers[BD_OPTIMIZER_COUNT] = {
    [BD_OPTIMIZER_SGD] = {BD_OPTIMIZER_SGD, 0, false, 0},
    [BD_OPTIMIZER_ADAMW] = {BD_OPTIMIZER_ADAMW, 2, false, 0},
    [BD_OPTIMIZER_MOMENTUM] = {BD_OPTIMIZER_MOMENTUM, 1, false, 0},
    [BD_OPTIMIZER_ADAM] = {BD_OPTIMIZER_ADAM, 2, false, 0},
    // The gradient for rows, columns, their mean and the update's size; the weight for its own.
    [BD_OPTIMIZER_ADAFACTOR] = {BD_OPTIMIZER_ADAFACTOR, 0, true, 5},
};

const bd_optimizer *bd_optimizer_find(const char *name) {
  for (int i = 0; i < BD_OPTIMIZER_COUNT; ++i)
    if (strcmp(names[i], name) == 0) return &optimizers[i];
  return NULL;
}

const char *const *bd_optimizer_names(void) {
  return names;
}

static int64_t product(const bd_type *type, int from, int to) {
  int64_t out = 1;
  for (int d = from; d < to; ++d)
    out *= type->dims[d];
  return out;
}

int bd_optimizer_factor_dim(const bd_type *type) {
  int best = type->rank;
  int64_t least = INT64_MAX;
  for (int d = 1; d < type->rank; ++d) {
    int64_t lines = product(type, 0, d) + product(type, d, type->rank);
    if (lines < least) least = lines, best = d;
  }
  return best;
}

int64_t bd_optimizer_factor_bytes(const bd_optimizer *optimizer, const bd_mesh *mesh,
                                  const bd_type *type, const bd_sharding *form) {
  if (!optimizer->factored) return 0;
  bd_type local = bd_local_type(mesh, form, type, 1);
  int dim = bd_optimizer_factor_dim(type);
  int64_t columns = dim < type->rank ? product(&local, dim, type->rank) : 0;
  return 4 * (product(&local, 0, dim) + columns + FACTOR_SUMS);
}
