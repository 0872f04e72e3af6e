#include "frontend/json/reader.h"
#include <string.h>

enum { MOST_MEMBERS = 100000, MOST_CALLS = 20000, MOST_FUNCTIONS = 1000 };

static bd_status read_list(bd_ctx *ctx, const bd_json *json, const char *key, size_t most,
                           const bd_json **out_list) {
  BD_TRY(bd_json_array(ctx, json, key, true, out_list));
  if ((*out_list)->count <= most) return BD_OK;
  return bd_fail(ctx, BD_INVALID, (*out_list)->loc, "\"%s\" has more than %zu members", key, most);
}

static bd_status define(bd_json_reader *reader, const char *name, bd_id id, bd_loc loc) {
  if (bd_name_map_add(&reader->main, name, id)) return BD_OK;
  return bd_fail(reader->graph.ctx, BD_INVALID, loc, "\"%s\" is defined twice", name);
}

// The reals of a sample are one tensor in the data file.
static bd_status check_single_reals(bd_ctx *ctx, const bd_module *module, const bd_json *json) {
  for (int i = 0; i < module->input_count; ++i) {
    if (module->inputs[i] != BD_INPUT_REALS) continue;
    return bd_fail(ctx, BD_INVALID, bd_json_find(json, "kind")->loc,
                   "\"kind\": a model has at most one input of reals");
  }
  return BD_OK;
}

static bd_status read_input(bd_json_reader *reader, const bd_json *json) {
  static const char *const keys[] = {"name", "kind", "dims", NULL};
  static const struct {
    const char *name;
    bd_input_kind kind;
    bd_dtype dtype;
  } known[] = {{"tokens", BD_INPUT_TOKENS, BD_I32},
               {"targets", BD_INPUT_TARGETS, BD_I32},
               {"reals", BD_INPUT_REALS, BD_F32},
               {"ids", BD_INPUT_IDS, BD_I32}};
  bd_ctx *ctx = reader->graph.ctx;
  const char *name = NULL, *kind = NULL;
  BD_TRY(bd_json_only(ctx, json, keys));
  BD_TRY(bd_model_json_name(ctx, json, "name", &name));
  BD_TRY(bd_json_string(ctx, json, "kind", true, &kind));
  int rank = 0;
  int64_t dims[BD_MAX_RANK] = {0};
  BD_TRY(bd_model_json_dims(ctx, json, "dims", &rank, dims));
  if (rank < 1 || dims[0] != BD_DIM_BATCH)
    return bd_fail(ctx, BD_INVALID, bd_json_find(json, "dims")->loc,
                   "input \"%s\": the first dimension must be \"B\", the batch", name);
  for (size_t i = 0; i < sizeof known / sizeof known[0]; ++i) {
    if (strcmp(known[i].name, kind) != 0) continue;
    if (known[i].kind == BD_INPUT_REALS)
      BD_TRY(check_single_reals(ctx, reader->graph.module, json));
    reader->graph.loc = json->loc;
    bd_id id = bd_graph_input(&reader->graph, name, known[i].kind,
                              bd_type_make(known[i].dtype, rank, dims));
    BD_TRY(reader->graph.status);
    return define(reader, name, id, json->loc);
  }
  return bd_fail(ctx, BD_INVALID, bd_json_find(json, "kind")->loc,
                 "\"kind\": \"%s\" is not one of tokens, targets, reals, ids", kind);
}

static bd_status read_weight(bd_json_reader *reader, const bd_json *json) {
  bd_weight weight;
  BD_TRY(bd_model_json_weight(reader->graph.ctx, json, &weight));
  reader->graph.loc = json->loc;
  bd_id id = bd_graph_weight(&reader->graph, weight);
  BD_TRY(reader->graph.status);
  return define(reader, weight.name, id, json->loc);
}

static bd_status read_parts(bd_json_reader *reader, const bd_json *json) {
  bd_ctx *ctx = reader->graph.ctx;
  const bd_json *inputs = NULL, *weights = NULL, *functions = NULL, *calls = NULL;
  BD_TRY(read_list(ctx, json, "inputs", MOST_FUNCTIONS, &inputs));
  BD_TRY(read_list(ctx, json, "weights", MOST_MEMBERS, &weights));
  BD_TRY(read_list(ctx, json, "functions", MOST_FUNCTIONS, &functions));
  BD_TRY(read_list(ctx, json, "main", MOST_CALLS, &calls));
  for (size_t i = 0; i < inputs->count; ++i)
    BD_TRY(read_input(reader, &inputs->items[i]));
  for (size_t i = 0; i < weights->count; ++i)
    BD_TRY(read_weight(reader, &weights->items[i]));
  BD_TRY(bd_model_json_check_stored(ctx, weights, reader->graph.module));
  for (size_t i = 0; i < functions->count; ++i)
    BD_TRY(bd_model_json_function(reader, &functions->items[i]));
  for (size_t i = 0; i < calls->count; ++i)
    BD_TRY(bd_model_json_call(reader, &calls->items[i]));
  return BD_OK;
}

static bd_status read_loss(bd_json_reader *reader, const bd_json *json, bd_id *out_loss) {
  bd_ctx *ctx = reader->graph.ctx;
  const char *name = NULL;
  BD_TRY(bd_model_json_name(ctx, json, "loss", &name));
  bd_loc loc = bd_json_find(json, "loss")->loc;
  bd_id loss = bd_name_map_find(&reader->main, name);
  if (loss < 0) return bd_fail(ctx, BD_INVALID, loc, "\"loss\": no value \"%s\"", name);
  const bd_type *type = &reader->graph.module->main->values[loss].type;
  if (type->dtype != BD_F32 || type->rank != 0)
    return bd_fail(ctx, BD_INVALID, loc,
                   "\"loss\": \"%s\" is not a single f32; a loss is the sum over targets", name);
  *out_loss = loss;
  return BD_OK;
}

bd_status bd_model_json_build(bd_ctx *ctx, const bd_json *json, bd_module **out_graph) {
  static const char *const keys[] = {"braid_model", "name", "inputs", "weights",
                                     "functions",   "main", "loss",   NULL};
  if (json->kind == BD_JSON_OBJECT && bd_json_find(json, "model_type"))
    return bd_fail(ctx, BD_INVALID, json->loc,
                   "a Hugging Face configuration: name its folder instead");
  BD_TRY(bd_json_only(ctx, json, keys));
  int64_t version = 0;
  BD_TRY(bd_json_int(ctx, json, "braid_model", true, 1, 1, &version));
  const char *name = "model";
  BD_TRY(bd_json_string(ctx, json, "name", false, &name));
  bd_json_reader reader = {.graph = bd_graph_begin(ctx, name, json->loc),
                           .functions = bd_name_map_init(ctx->arena),
                           .main = bd_name_map_init(ctx->arena)};
  BD_TRY(read_parts(&reader, json));
  bd_id loss = BD_NO_ID;
  BD_TRY(read_loss(&reader, json, &loss));
  return bd_graph_finish(&reader.graph, loss, out_graph);
}

bd_status bd_model_json_load(bd_ctx *ctx, const char *path, bd_module **out_graph) {
  const bd_json *json = NULL;
  BD_TRY(bd_json_read(ctx, path, &json));
  return bd_model_json_build(ctx, json, out_graph);
}
