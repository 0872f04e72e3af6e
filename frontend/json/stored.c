#include "frontend/json/reader.h"
#include <stdlib.h>
#include <string.h>

typedef struct place {
  const bd_weight *weight;
  const bd_json *json;
} place;

static int by_name_and_start(const void *a, const void *b) {
  const place *left = a, *right = b;
  const bd_storage *one = &left->weight->storage, *other = &right->weight->storage;
  int order = strcmp(one->name, other->name);
  if (order) return order;
  if (one->slice_start != other->slice_start) return one->slice_start < other->slice_start ? -1 : 1;
  return left->json < right->json ? -1 : left->json > right->json;
}

// `one` does not start after `other`.
static bd_status check_pair(bd_ctx *ctx, const place *one, const place *other) {
  const bd_storage *low = &one->weight->storage, *high = &other->weight->storage;
  if (strcmp(low->name, high->name) != 0) return BD_OK;
  const place *first = one->json < other->json ? one : other;
  const place *second = first == one ? other : one;
  if (low->rank != high->rank ||
      memcmp(low->dims, high->dims, (size_t)low->rank * sizeof *low->dims) != 0)
    return bd_fail(ctx, BD_INVALID, second->json->loc,
                   "weight \"%s\" is stored in the tensor of weight \"%s\", with another shape",
                   second->weight->name, first->weight->name);
  if (low->slice_dim >= 0 && low->slice_dim == high->slice_dim &&
      low->slice_start + low->slice_size <= high->slice_start)
    return BD_OK;
  return bd_fail(ctx, BD_INVALID, second->json->loc,
                 "weight \"%s\" is stored where weight \"%s\" is", second->weight->name,
                 first->weight->name);
}

// Sorted, the weights of one tensor are neighbours, and all are apart where all neighbours are.
bd_status bd_model_json_check_stored(bd_ctx *ctx, const bd_json *list, const bd_module *module) {
  size_t count = list->count;
  if (count < 2) return BD_OK;
  place *places = BD_NEW_ARRAY(ctx->arena, place, count);
  for (size_t i = 0; i < count; ++i)
    places[i] = (place){&module->weights[i], &list->items[i]};
  qsort(places, count, sizeof *places, by_name_and_start);
  for (size_t i = 1; i < count; ++i)
    BD_TRY(check_pair(ctx, &places[i - 1], &places[i]));
  return BD_OK;
}
