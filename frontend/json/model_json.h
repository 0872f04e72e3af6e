// Native graphs in JSON; the schema is docs/model-json.md.
#ifndef BD_FRONTEND_JSON_MODEL_JSON_H
#define BD_FRONTEND_JSON_MODEL_JSON_H
#include "ir/base/json.h"
#include "ir/module.h"

// Errors: BD_INVALID or BD_UNSUPPORTED at the place in the file.
BD_NODISCARD bd_status bd_model_json_load(bd_ctx *ctx, const char *path, bd_module **out_graph);
BD_NODISCARD bd_status bd_model_json_build(bd_ctx *ctx, const bd_json *json, bd_module **out_graph);

// The attributes of an op, from an object of them; unknown names and wrong kinds are refused.
BD_NODISCARD bd_status bd_model_json_attrs(bd_ctx *ctx, const bd_json *json, bd_attr **out_attrs,
                                           int *out_count);

// An array of extents, "B" for the batch.
BD_NODISCARD bd_status bd_model_json_dims(bd_ctx *ctx, const bd_json *object, const char *key,
                                          int *out_rank, int64_t dims[BD_MAX_RANK]);
#endif
