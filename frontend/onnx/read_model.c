#include "frontend/onnx/reader.h"
#include <string.h>

// Fields of ModelProto.
enum { FIELD_IR_VERSION = 1, FIELD_PRODUCER = 2, FIELD_GRAPH = 7, FIELD_OPSET = 8 };

static bd_status read_head(bd_onnx_reader *reader, bd_onnx_bytes message, bd_onnx_scope *scope,
                           bd_onnx_bytes *out_graph) {
  bd_onnx_model *model = reader->model;
  bd_wire wire = bd_wire_begin(message);
  bd_wire_field field;
  while (bd_wire_next(&wire, &field)) {
    if (field.number == FIELD_IR_VERSION)
      BD_TRY(bd_onnx_take_int(reader, &field, "ir_version", &model->ir_version));
    else if (field.number == FIELD_PRODUCER)
      BD_TRY(bd_onnx_take_name(reader, &field, "producer_name", &model->producer));
    else if (field.number == FIELD_OPSET)
      BD_TRY(bd_onnx_read_opset(reader, &field, &scope->opsets));
    else if (field.number == FIELD_GRAPH)
      BD_TRY(bd_onnx_take_bytes(reader, &field, "the graph", out_graph));
  }
  return wire.damage ? bd_onnx_damaged(reader, &wire, "ModelProto") : BD_OK;
}

static bd_status read_model(bd_onnx_reader *reader, bd_onnx_bytes bytes) {
  bd_onnx_model *model = reader->model;
  bd_onnx_bytes graph = {NULL, 0};
  bd_onnx_scope *scope = BD_NEW(reader->ctx->arena, bd_onnx_scope);
  scope->prefix = "";
  scope->names = bd_name_map_init(reader->ctx->arena);
  BD_TRY(read_head(reader, bytes, scope, &graph));
  for (int i = 0; i < scope->opsets.count; i++)
    if (scope->opsets.list[i].domain[0] == '\0') model->opset = scope->opsets.list[i].version;
  if (!graph.data || scope->opsets.count == 0 || model->ir_version < 1)
    return bd_fail(reader->ctx, BD_INVALID, reader->loc,
                   "not an ONNX model: it has no graph, no ir_version or no opset_import");
  BD_TRY(bd_onnx_list_functions(reader, bytes));
  return bd_onnx_read_graph(reader, graph, scope);
}

bd_status bd_onnx_read(bd_ctx *ctx, const char *path, const char *folder, bd_onnx_bytes bytes,
                       bd_onnx_model *out_model) {
  *out_model = (bd_onnx_model){.path = bd_intern_z(ctx, path),
                               .folder = bd_intern_z(ctx, folder),
                               .name = "",
                               .producer = ""};
  bd_onnx_reader reader = {.ctx = ctx,
                           .model = out_model,
                           .base = bytes.data,
                           .loc = bd_loc_file(out_model->path),
                           .used_before = bd_arena_used_bytes(ctx->arena)};
  return read_model(&reader, bytes);
}

bd_status bd_onnx_open(bd_ctx *ctx, const char *path, bd_onnx_model *out_model) {
  *out_model = (bd_onnx_model){.path = path};
  const char *slash = strrchr(path, '/');
  const char *folder = slash ? bd_intern(ctx, path, (size_t)(slash - path) + 1) : "";
  bd_map map;
  bd_owned held;
  BD_TRY(bd_map_open(ctx, path, &map));
  bd_own(ctx, &held, bd_onnx_close, out_model);
  out_model->map = map;
  bd_onnx_bytes bytes = {map.data, map.bytes};
  bd_onnx_model read;
  bd_status status = bd_onnx_read(ctx, path, folder, bytes, &read);
  bd_disown(ctx, &held);
  *out_model = read;
  out_model->map = map;
  return status;
}

void bd_onnx_close(void *model) {
  bd_map_close(&((bd_onnx_model *)model)->map);
}

bd_status bd_onnx_read_tensor(bd_ctx *ctx, const char *path, bd_onnx_bytes bytes,
                              bd_onnx_tensor *out_tensor) {
  bd_onnx_model model = {.path = path, .folder = ""};
  bd_onnx_reader reader = {
      .ctx = ctx, .model = &model, .base = bytes.data, .loc = bd_loc_file(path)};
  return bd_onnx_read_tensor_message(&reader, bytes, out_tensor);
}
