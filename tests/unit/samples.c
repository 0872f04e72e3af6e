#include "tests/unit/samples.h"

#include <string.h>

static int64_t elements_of_sample(const bd_tensor *tensor) {
  int64_t elements = 1;
  for (int d = 1; d < tensor->type.rank; ++d)
    elements *= tensor->type.dims[d];
  return elements;
}

bd_tensor samples_take(bd_ctx *ctx, const bd_tensor *whole, int64_t first, int64_t count) {
  int64_t each = elements_of_sample(whole);
  bd_tensor part = {whole->type, BD_NEW_ARRAY(ctx->arena, double, count * each)};
  part.type.dims[0] = count;
  memcpy(part.data, whole->data + first * each, (size_t)(count * each) * sizeof *part.data);
  return part;
}

void samples_put(bd_tensor *whole, int64_t first, const bd_tensor *part) {
  int64_t each = elements_of_sample(whole);
  memcpy(whole->data + first * each, part->data,
         (size_t)(part->type.dims[0] * each) * sizeof *part->data);
}
