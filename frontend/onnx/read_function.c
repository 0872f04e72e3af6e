#include "frontend/onnx/reader.h"
#include <string.h>

// Fields of FunctionProto; MODEL_FUNCTIONS is the field of ModelProto that holds them.
enum {
  MODEL_FUNCTIONS = 25,
  FIELD_NAME = 1,
  FIELD_INPUT = 4,
  FIELD_OUTPUT = 5,
  FIELD_NODE = 7,
  FIELD_OPSET = 9,
  FIELD_DOMAIN = 10,
  FIELD_DEFAULT = 11
};

static bd_status add_function(bd_onnx_reader *reader, bd_onnx_bytes message) {
  bd_onnx_function *function = &reader->functions[reader->function_count];
  *function = (bd_onnx_function){.name = "", .domain = "", .bytes = message};
  bd_wire wire = bd_wire_begin(message);
  bd_wire_field field;
  while (bd_wire_next(&wire, &field)) {
    if (field.number == FIELD_NAME)
      BD_TRY(bd_onnx_take_name(reader, &field, "a function's name", &function->name));
    if (field.number == FIELD_DOMAIN)
      BD_TRY(bd_onnx_take_name(reader, &field, "a function's domain", &function->domain));
  }
  if (wire.damage) return bd_onnx_damaged(reader, &wire, "FunctionProto");
  const char *key = bd_intern_f(reader->ctx, "%s:%s", function->domain, function->name);
  if (bd_name_map_add(&reader->function_names, key, reader->function_count++)) return BD_OK;
  return bd_fail(reader->ctx, BD_INVALID, reader->loc, "the function \"%s\" is defined twice", key);
}

bd_status bd_onnx_list_functions(bd_onnx_reader *reader, bd_onnx_bytes model) {
  int64_t counts[32];
  BD_TRY(bd_onnx_count_fields(reader, model, "ModelProto", counts));
  if (counts[MODEL_FUNCTIONS] > BD_ONNX_MOST_FUNCTIONS)
    return bd_fail(reader->ctx, BD_INVALID, reader->loc, "the model has more than %d functions",
                   BD_ONNX_MOST_FUNCTIONS);
  reader->functions = BD_NEW_ARRAY(reader->ctx->arena, bd_onnx_function, counts[MODEL_FUNCTIONS]);
  reader->function_names = bd_name_map_init(reader->ctx->arena);
  bd_wire wire = bd_wire_begin(model);
  bd_wire_field field;
  while (bd_wire_next(&wire, &field)) {
    bd_onnx_bytes bytes = {NULL, 0};
    if (field.number != MODEL_FUNCTIONS) continue;
    BD_TRY(bd_onnx_take_bytes(reader, &field, "a function", &bytes));
    BD_TRY(add_function(reader, bytes));
  }
  return BD_OK;
}

// An attribute that the function gives a default, unless the call has it.
static bd_status add_default(bd_onnx_reader *reader, const bd_wire_field *field,
                             bd_onnx_node *call) {
  bd_onnx_bytes bytes = {NULL, 0};
  bd_onnx_attribute attribute;
  BD_TRY(bd_onnx_take_bytes(reader, field, "a default", &bytes));
  BD_TRY(bd_onnx_read_attribute(reader, bytes, &attribute));
  for (int i = 0; i < call->attribute_count; i++)
    if (strcmp(call->attributes[i].name, attribute.name) == 0) return BD_OK;
  if (attribute.reference || call->attribute_count >= BD_ONNX_MOST_ATTRIBUTES)
    return bd_onnx_node_fail(reader->ctx, reader->model, call, BD_INVALID,
                             "its function has a damaged default of \"%s\"", attribute.name);
  bd_onnx_attribute *more =
      bd_arena_grow(reader->ctx->arena, call->attributes, (size_t)call->attribute_count,
                    (size_t)call->attribute_count + 1, sizeof *more);
  more[call->attribute_count++] = attribute;
  call->attributes = more;
  return BD_OK;
}

// Names of operands, operator sets and defaults: all that the nodes of the body rest on.
static bd_status read_head(bd_onnx_reader *reader, const bd_onnx_function *function,
                           bd_onnx_scope *scope, bd_onnx_node *call) {
  int taken = 0;
  const char *name;
  bd_wire wire = bd_wire_begin(function->bytes);
  bd_wire_field field;
  while (bd_wire_next(&wire, &field)) {
    if (field.number == FIELD_INPUT) {
      BD_TRY(bd_onnx_take_name(reader, &field, "a function's input", &name));
      int value = taken < call->in_count ? call->in[taken] : BD_ONNX_ABSENT;
      taken++;
      BD_TRY(bd_onnx_name(reader, scope, name, value));
    } else if (field.number == FIELD_OPSET) {
      BD_TRY(bd_onnx_read_opset(reader, &field, &scope->opsets));
    } else if (field.number == FIELD_DEFAULT) {
      BD_TRY(add_default(reader, &field, call));
    }
  }
  if (taken >= call->in_count) return BD_OK;
  return bd_onnx_node_fail(reader->ctx, reader->model, call, BD_INVALID,
                           "has %d operands, but its function takes %d", call->in_count, taken);
}

static bd_status take_results(bd_onnx_reader *reader, const bd_onnx_function *function,
                              const bd_onnx_scope *scope, bd_onnx_node *call) {
  int made = 0;
  const char *name;
  bd_wire wire = bd_wire_begin(function->bytes);
  bd_wire_field field;
  while (bd_wire_next(&wire, &field)) {
    if (field.number != FIELD_OUTPUT) continue;
    BD_TRY(bd_onnx_take_name(reader, &field, "a function's output", &name));
    int value = bd_name_map_find(&scope->names, name);
    if (made < call->out_count) call->out[made++] = value;
    if (value < 0)
      return bd_onnx_node_fail(reader->ctx, reader->model, call, BD_INVALID,
                               "its function does not make its output \"%s\"", name);
  }
  if (made == call->out_count) return BD_OK;
  return bd_onnx_node_fail(reader->ctx, reader->model, call, BD_INVALID,
                           "has %d results, but its function makes %d", call->out_count, made);
}

bd_status bd_onnx_expand(bd_onnx_reader *reader, const bd_onnx_scope *caller, bd_onnx_node *call,
                         const bd_onnx_function *function) {
  if (caller->depth == BD_ONNX_MOST_DEPTH)
    return bd_onnx_node_fail(reader->ctx, reader->model, call, BD_INVALID,
                             "functions call functions more than %d deep; one calls itself?",
                             BD_ONNX_MOST_DEPTH);
  if (reader->expansions++ == BD_ONNX_MOST_EXPANSIONS)
    return bd_onnx_node_fail(reader->ctx, reader->model, call, BD_INVALID,
                             "functions are called more than %d times", BD_ONNX_MOST_EXPANSIONS);
  const char *name = call->name[0] ? call->name
                                   : bd_intern_f(reader->ctx, "%s%s%d", caller->prefix, call->op,
                                                 reader->model->value_count);
  bd_onnx_scope *scope = BD_NEW(reader->ctx->arena, bd_onnx_scope);
  *scope = (bd_onnx_scope){.call = call, .depth = caller->depth + 1, .guard = caller->guard};
  scope->prefix = bd_intern_f(reader->ctx, "%s/", name);
  scope->names = bd_name_map_init(reader->ctx->arena);
  BD_TRY(read_head(reader, function, scope, call));
  bd_wire wire = bd_wire_begin(function->bytes);
  bd_wire_field field;
  while (bd_wire_next(&wire, &field)) {
    bd_onnx_bytes bytes = {NULL, 0};
    if (field.number != FIELD_NODE) continue;
    BD_TRY(bd_onnx_take_bytes(reader, &field, "a node", &bytes));
    BD_TRY(bd_onnx_read_node(reader, scope, bytes, function->bytes, FIELD_NODE));
  }
  return take_results(reader, function, scope, call);
}
