// Private to partition: a function in the making, and the versions that each source value has in
// it.
#ifndef BD_IR_PARTITION_VALUES_H
#define BD_IR_PARTITION_VALUES_H
#include "ir/partition.h"

typedef struct bd_version {
  bd_id id;
  int stage; // of main; 0 inside functions
  struct bd_version *next;
} bd_version;

typedef struct bd_versions {
  bd_ctx *ctx;
  const bd_module *module; // mesh
  bd_function *function;   // being built; every value of it has a sharding
  bd_version **of;         // per source value, oldest first
} bd_versions;

void bd_versions_add(bd_versions *versions, bd_id source, int stage, bd_id id);

// The version of `source` on `stage` in the sharding `to`; converts from the nearest one when there
// is none yet. The source has a version on that stage.
BD_NODISCARD bd_status bd_versions_get(bd_versions *versions, bd_id source, int stage,
                                       const bd_sharding *to, bd_loc loc, bd_id *out_id);

// The first version on `stage` (any stage: -1), or BD_NO_ID.
bd_id bd_versions_first(const bd_versions *versions, bd_id source, int stage);

// The sharding in which a sum of values with these shardings is formed: along each axis what they
// share, partial sums included, else cut as the first one is that is; the others lose no more by
// it.
bd_sharding bd_sum_sharding(const bd_module *module, const bd_type *type, int count,
                            const bd_sharding *const *shardings);

// Gives every value whose name an earlier value has a longer one.
void bd_make_names_unique(bd_ctx *ctx, bd_function *function);
#endif
