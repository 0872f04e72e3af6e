#include "frontend/json/reader.h"
#include <string.h>

static bd_status read_init(bd_ctx *ctx, const bd_json *json, bd_weight *weight) {
  static const struct {
    const char *name;
    bd_init_kind kind;
  } known[] = {{"zeros", BD_INIT_ZEROS},
               {"ones", BD_INIT_ONES},
               {"normal", BD_INIT_NORMAL},
               {"uniform", BD_INIT_UNIFORM}};
  const char *name = "normal";
  BD_TRY(bd_json_string(ctx, json, "init", false, &name));
  weight->init_scale = 0.02;
  BD_TRY(bd_json_real(ctx, json, "scale", false, 0, 1e6, &weight->init_scale));
  for (size_t i = 0; i < sizeof known / sizeof known[0]; ++i) {
    if (strcmp(known[i].name, name) != 0) continue;
    weight->init = known[i].kind;
    if (known[i].kind == BD_INIT_ZEROS || known[i].kind == BD_INIT_ONES) weight->init_scale = 0;
    return BD_OK;
  }
  return bd_fail(ctx, BD_INVALID, bd_json_find(json, "init")->loc,
                 "\"init\": \"%s\" is not one of zeros, ones, normal, uniform", name);
}

static bd_status read_slice(bd_ctx *ctx, const bd_json *json, bd_storage *storage) {
  static const char *const keys[] = {"dim", "start", "size", NULL};
  const bd_json *slice = NULL;
  BD_TRY(bd_json_object(ctx, json, "slice", false, &slice));
  if (!slice) return BD_OK;
  BD_TRY(bd_json_only(ctx, slice, keys));
  int64_t dim = 0;
  BD_TRY(bd_json_int(ctx, slice, "dim", true, 0, storage->rank - 1, &dim));
  int64_t extent = storage->dims[dim];
  BD_TRY(bd_json_int(ctx, slice, "start", true, 0, extent - 1, &storage->slice_start));
  BD_TRY(bd_json_int(ctx, slice, "size", true, 1, extent - storage->slice_start,
                     &storage->slice_size));
  storage->slice_dim = (int)dim;
  return BD_OK;
}

static bool count_elements(int rank, const int64_t *dims, int64_t *out_elements) {
  int64_t elements = 1;
  for (int d = 0; d < rank; ++d) {
    if (dims[d] < 1 || dims[d] > BD_MAX_ELEMENTS / elements) return false;
    elements *= dims[d];
  }
  *out_elements = elements;
  return true;
}

// What is stored, sliced, must hold as many elements as the weight.
static bd_status check_storage(bd_ctx *ctx, const bd_json *json, const bd_weight *weight) {
  const bd_storage *storage = &weight->storage;
  int64_t dims[BD_MAX_RANK], stored = 0, wanted = 0;
  memcpy(dims, storage->dims, sizeof dims);
  if (!count_elements(storage->rank, dims, &stored) ||
      !count_elements(weight->type.rank, weight->type.dims, &wanted))
    return bd_fail(ctx, BD_INVALID, json->loc, "weight \"%s\" has more than 2^46 elements",
                   weight->name);
  if (storage->transpose && storage->rank != 2)
    return bd_fail(ctx, BD_INVALID, json->loc,
                   "weight \"%s\": only a stored matrix can be transposed", weight->name);
  if (storage->slice_dim >= 0) {
    dims[storage->slice_dim] = storage->slice_size;
    (void)count_elements(storage->rank, dims, &stored);
  }
  if (stored == wanted) return BD_OK;
  return bd_fail(ctx, BD_INVALID, json->loc,
                 "weight \"%s\" has %lld elements, but %lld are stored for it", weight->name,
                 (long long)wanted, (long long)stored);
}

static bd_status read_storage(bd_ctx *ctx, const bd_json *json, bd_weight *weight) {
  bd_storage *storage = &weight->storage;
  storage->name = weight->name;
  BD_TRY(bd_json_string(ctx, json, "stored", false, &storage->name));
  BD_TRY(bd_json_bool(ctx, json, "transpose", false, &storage->transpose));
  storage->slice_dim = -1;
  storage->rank = weight->type.rank;
  memcpy(storage->dims, weight->type.dims, sizeof storage->dims);
  if (storage->transpose && storage->rank == 2) {
    storage->dims[0] = weight->type.dims[1];
    storage->dims[1] = weight->type.dims[0];
  }
  if (bd_json_find(json, "stored_dims"))
    BD_TRY(bd_model_json_dims(ctx, json, "stored_dims", &storage->rank, storage->dims));
  BD_TRY(read_slice(ctx, json, storage));
  return check_storage(ctx, json, weight);
}

bd_status bd_model_json_weight(bd_ctx *ctx, const bd_json *json, bd_weight *out_weight) {
  static const char *const keys[] = {"name",  "dims",  "stored",    "init",        "scale",
                                     "decay", "slice", "transpose", "stored_dims", NULL};
  bd_weight weight = {0};
  BD_TRY(bd_json_only(ctx, json, keys));
  BD_TRY(bd_model_json_name(ctx, json, "name", &weight.name));
  int rank = 0;
  int64_t dims[BD_MAX_RANK] = {0};
  BD_TRY(bd_model_json_dims(ctx, json, "dims", &rank, dims));
  weight.type = bd_type_make(BD_F32, rank, dims);
  if (bd_type_has_batch(&weight.type))
    return bd_fail(ctx, BD_INVALID, bd_json_find(json, "dims")->loc,
                   "weight \"%s\": a weight has no batch dimension", weight.name);
  BD_TRY(read_init(ctx, json, &weight));
  BD_TRY(read_storage(ctx, json, &weight));
  weight.decay = weight.storage.rank >= 2;
  BD_TRY(bd_json_bool(ctx, json, "decay", false, &weight.decay));
  *out_weight = weight;
  return BD_OK;
}
