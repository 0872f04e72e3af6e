// Names that differ in one number only, such as those of a model's layers.
#ifndef BD_CODEGEN_NUMBERED_NAME_H
#define BD_CODEGEN_NUMBERED_NAME_H
#include "ir/base/context.h"

// Layer i's name: the first name's `prefix_bytes`, then number + i * step in decimal, then `rest`.
typedef struct bd_numbered_name {
  size_t prefix_bytes;
  int64_t number, step;
  const char *rest; // NULL: every layer has the first's name, `prefix_bytes` long
} bd_numbered_name;

// How `second`, the name of the second layer, follows from `first`; false when it does not.
bool bd_numbered_name_find(const char *first, const char *second, bd_numbered_name *out);
// Whether `name` is layer `layer`'s; `first` is the first's.
bool bd_numbered_name_matches(const bd_numbered_name *pattern, const char *first, int layer,
                              const char *name);
#endif
