#include "frontend/onnx/reader.h"
#include <string.h>

bd_status bd_onnx_damaged(bd_onnx_reader *reader, const bd_wire *wire, const char *message) {
  return bd_fail(reader->ctx, BD_INVALID, reader->loc,
                 "not an ONNX model, or damaged: %s, in %s at byte %zu", wire->damage, message,
                 (size_t)(wire->at - reader->base));
}

static bd_status fail_kind(bd_onnx_reader *reader, const bd_wire_field *field, const char *what) {
  return bd_fail(reader->ctx, BD_INVALID, reader->loc,
                 "not an ONNX model, or damaged: %s has the wrong wire type %d, at byte %zu", what,
                 (int)field->kind, (size_t)(field->bytes.data - reader->base));
}

bd_status bd_onnx_take_bytes(bd_onnx_reader *reader, const bd_wire_field *field, const char *what,
                             bd_onnx_bytes *out) {
  if (field->kind != BD_WIRE_BYTES) return fail_kind(reader, field, what);
  *out = field->bytes;
  return BD_OK;
}

bd_status bd_onnx_take_int(bd_onnx_reader *reader, const bd_wire_field *field, const char *what,
                           int64_t *out) {
  if (field->kind != BD_WIRE_VARINT) return fail_kind(reader, field, what);
  *out = (int64_t)field->bits;
  return BD_OK;
}

bd_status bd_onnx_take_name(bd_onnx_reader *reader, const bd_wire_field *field, const char *what,
                            const char **out) {
  bd_onnx_bytes bytes = {NULL, 0};
  BD_TRY(bd_onnx_take_bytes(reader, field, what, &bytes));
  if (bytes.bytes > BD_ONNX_MOST_NAME_BYTES)
    return bd_fail(reader->ctx, BD_INVALID, reader->loc, "%s has more than %d bytes", what,
                   BD_ONNX_MOST_NAME_BYTES);
  if (memchr(bytes.data, 0, bytes.bytes))
    return bd_fail(reader->ctx, BD_INVALID, reader->loc, "%s has a NUL byte in it", what);
  *out = bd_intern(reader->ctx, (const char *)bytes.data, bytes.bytes);
  return BD_OK;
}

bd_status bd_onnx_count_fields(bd_onnx_reader *reader, bd_onnx_bytes message, const char *what,
                               int64_t out_counts[32]) {
  bd_wire wire = bd_wire_begin(message);
  bd_wire_field field;
  memset(out_counts, 0, 32 * sizeof *out_counts);
  while (bd_wire_next(&wire, &field))
    if (field.number < 32) out_counts[field.number]++;
  return wire.damage ? bd_onnx_damaged(reader, &wire, what) : BD_OK;
}

bd_status bd_onnx_read_opset(bd_onnx_reader *reader, const bd_wire_field *holder,
                             bd_onnx_opsets *opsets) {
  bd_onnx_bytes message = {NULL, 0};
  bd_onnx_opset opset = {.domain = ""};
  BD_TRY(bd_onnx_take_bytes(reader, holder, "an opset_import", &message));
  bd_wire wire = bd_wire_begin(message);
  bd_wire_field field;
  while (bd_wire_next(&wire, &field)) {
    if (field.number == 1)
      BD_TRY(bd_onnx_take_name(reader, &field, "an operator set's domain", &opset.domain));
    if (field.number == 2)
      BD_TRY(bd_onnx_take_int(reader, &field, "an operator set's version", &opset.version));
  }
  if (wire.damage) return bd_onnx_damaged(reader, &wire, "OperatorSetIdProto");
  if (strcmp(opset.domain, "ai.onnx") == 0) opset.domain = "";
  if (opset.version < 1)
    return bd_fail(reader->ctx, BD_INVALID, reader->loc,
                   "the operator set \"%s\" is imported in version %lld", opset.domain,
                   (long long)opset.version);
  if (opsets->count == BD_ONNX_MOST_DOMAINS)
    return bd_fail(reader->ctx, BD_INVALID, reader->loc, "more than %d operator sets are imported",
                   BD_ONNX_MOST_DOMAINS);
  opsets->list[opsets->count++] = opset;
  return BD_OK;
}

int bd_onnx_find_value(const bd_onnx_scope *scope, const char *name) {
  int found = -1;
  for (; scope && found < 0; scope = scope->outer)
    found = bd_name_map_find(&scope->names, name);
  return found;
}

bd_status bd_onnx_name(bd_onnx_reader *reader, bd_onnx_scope *scope, const char *name, int value) {
  if (bd_name_map_add(&scope->names, name, value)) return BD_OK;
  return bd_fail(reader->ctx, BD_INVALID, reader->loc, "the value \"%s\" is defined twice", name);
}

bd_status bd_onnx_define(bd_onnx_reader *reader, bd_onnx_scope *scope, const char *name,
                         int producer, int *out_value) {
  bd_onnx_model *model = reader->model;
  if (model->value_count == BD_ONNX_MOST_VALUES)
    return bd_fail(reader->ctx, BD_INVALID, reader->loc, "the model has more than %d values",
                   BD_ONNX_MOST_VALUES);
  BD_TRY(bd_onnx_name(reader, scope, name, model->value_count));
  if (model->value_count == reader->value_capacity) {
    int room = reader->value_capacity ? 2 * reader->value_capacity : 256;
    model->values = bd_arena_grow(reader->ctx->arena, model->values, (size_t)model->value_count,
                                  (size_t)room, sizeof *model->values);
    reader->value_capacity = room;
  }
  bd_onnx_value *value = &model->values[model->value_count];
  *value = (bd_onnx_value){.name = name, .producer = producer};
  if (scope->prefix[0]) value->name = bd_intern_f(reader->ctx, "%s%s", scope->prefix, name);
  *out_value = model->value_count++;
  return BD_OK;
}
