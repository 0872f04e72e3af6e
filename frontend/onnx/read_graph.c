#include "frontend/onnx/reader.h"
#include <string.h>

// Fields of GraphProto.
enum {
  FIELD_NODE = 1,
  FIELD_NAME = 2,
  FIELD_INITIALIZER = 5,
  FIELD_INPUT = 11,
  FIELD_OUTPUT = 12,
  FIELD_SPARSE = 15
};

static bd_status add_initializer(bd_onnx_reader *reader, bd_onnx_scope *scope,
                                 bd_onnx_bytes message, bd_onnx_bytes graph) {
  int value;
  bd_onnx_tensor *tensor = BD_NEW(reader->ctx->arena, bd_onnx_tensor);
  BD_TRY(bd_onnx_read_tensor_message(reader, message, tensor));
  if (tensor->name[0] == '\0')
    return bd_fail(reader->ctx, BD_INVALID, reader->loc, "an initializer has no name");
  BD_TRY(bd_onnx_define(reader, scope, tensor->name, -1, &value));
  reader->model->values[value].initializer = tensor;
  return BD_OK;
}

// An input's or output's name, what is declared of it, and the value that has the name; -1: none.
typedef struct port {
  const char *name;
  const bd_onnx_declared *declared;
  int value;
} port;

static bd_status read_port(bd_onnx_reader *reader, const bd_onnx_scope *scope,
                           bd_onnx_bytes message, port *out) {
  BD_TRY(bd_onnx_read_value_info(reader, message, &out->name, &out->declared));
  out->value = bd_name_map_find(&scope->names, out->name);
  return BD_OK;
}

// Old files list initializers as inputs too: those are no inputs.
static bd_status add_input(bd_onnx_reader *reader, bd_onnx_scope *scope, bd_onnx_bytes message,
                           bd_onnx_bytes graph) {
  bd_onnx_model *model = reader->model;
  port in;
  BD_TRY(read_port(reader, scope, message, &in));
  if (in.value >= 0 && model->values[in.value].initializer) return BD_OK;
  if (in.name[0] == '\0')
    return bd_fail(reader->ctx, BD_INVALID, reader->loc, "an input of the model has no name");
  BD_TRY(bd_onnx_define(reader, scope, in.name, -1, &in.value));
  model->values[in.value].declared = in.declared;
  model->inputs[model->input_count++] = in.value;
  return BD_OK;
}

static bd_status add_output(bd_onnx_reader *reader, bd_onnx_scope *scope, bd_onnx_bytes message,
                            bd_onnx_bytes graph) {
  bd_onnx_model *model = reader->model;
  port out;
  BD_TRY(read_port(reader, scope, message, &out));
  if (out.value < 0)
    return bd_fail(reader->ctx, BD_INVALID, reader->loc,
                   "no node makes \"%s\", an output of the model", out.name);
  if (!model->values[out.value].declared) model->values[out.value].declared = out.declared;
  model->outputs[model->output_count++] = out.value;
  return BD_OK;
}

static bd_status add_node(bd_onnx_reader *reader, bd_onnx_scope *scope, bd_onnx_bytes message,
                          bd_onnx_bytes graph) {
  return bd_onnx_read_node(reader, scope, message, graph, FIELD_NODE);
}

typedef bd_status (*read_part)(bd_onnx_reader *reader, bd_onnx_scope *scope, bd_onnx_bytes part,
                               bd_onnx_bytes graph);

static bd_status read_all(bd_onnx_reader *reader, bd_onnx_bytes message, bd_onnx_scope *scope,
                          uint32_t number, const char *what, read_part read) {
  bd_wire wire = bd_wire_begin(message);
  bd_wire_field field;
  while (bd_wire_next(&wire, &field)) {
    bd_onnx_bytes part = {NULL, 0};
    if (field.number != number) continue;
    BD_TRY(bd_onnx_take_bytes(reader, &field, what, &part));
    BD_TRY(read(reader, scope, part, message));
  }
  return BD_OK;
}

static bd_status read_name(bd_onnx_reader *reader, bd_onnx_bytes message) {
  bd_wire wire = bd_wire_begin(message);
  bd_wire_field field;
  while (bd_wire_next(&wire, &field))
    if (field.number == FIELD_NAME)
      BD_TRY(bd_onnx_take_name(reader, &field, "the graph's name", &reader->model->name));
  return BD_OK;
}

static bd_status count_parts(bd_onnx_reader *reader, bd_onnx_bytes message, int64_t counts[32]) {
  BD_TRY(bd_onnx_count_fields(reader, message, "GraphProto", counts));
  if (counts[FIELD_SPARSE] == 0) return BD_OK;
  return bd_fail(reader->ctx, BD_UNSUPPORTED, reader->loc,
                 "the model has sparse initializers, which braid does not read; store them dense");
}

bd_status bd_onnx_read_branch(bd_onnx_reader *reader, bd_onnx_bytes message, bd_onnx_scope *scope,
                              int count, int *values) {
  int64_t counts[32];
  BD_TRY(count_parts(reader, message, counts));
  if (counts[FIELD_INPUT] > 0 || counts[FIELD_OUTPUT] != count)
    return bd_fail(reader->ctx, BD_INVALID, reader->loc,
                   "a branch of an If has %lld inputs and %lld outputs, not 0 and %d",
                   (long long)counts[FIELD_INPUT], (long long)counts[FIELD_OUTPUT], count);
  BD_TRY(read_all(reader, message, scope, FIELD_INITIALIZER, "an initializer", add_initializer));
  BD_TRY(read_all(reader, message, scope, FIELD_NODE, "a node", add_node));
  bd_wire wire = bd_wire_begin(message);
  bd_wire_field field;
  while (bd_wire_next(&wire, &field)) {
    bd_onnx_bytes part = {NULL, 0};
    const char *name;
    const bd_onnx_declared *declared;
    if (field.number != FIELD_OUTPUT) continue;
    BD_TRY(bd_onnx_take_bytes(reader, &field, "an output", &part));
    BD_TRY(bd_onnx_read_value_info(reader, part, &name, &declared));
    *values = bd_onnx_find_value(scope, name);
    if (*values++ < 0)
      return bd_fail(reader->ctx, BD_INVALID, reader->loc,
                     "no node makes \"%s\", an output of a branch of an If", name);
  }
  return BD_OK;
}

bd_status bd_onnx_read_graph(bd_onnx_reader *reader, bd_onnx_bytes message, bd_onnx_scope *scope) {
  bd_onnx_model *model = reader->model;
  int64_t counts[32];
  BD_TRY(count_parts(reader, message, counts));
  if (counts[FIELD_INPUT] > BD_ONNX_MOST_OPERANDS || counts[FIELD_OUTPUT] > BD_ONNX_MOST_OPERANDS)
    return bd_fail(reader->ctx, BD_INVALID, reader->loc,
                   "the model has more than %d inputs or outputs", BD_ONNX_MOST_OPERANDS);
  model->inputs = BD_NEW_ARRAY(reader->ctx->arena, int, counts[FIELD_INPUT]);
  model->outputs = BD_NEW_ARRAY(reader->ctx->arena, int, counts[FIELD_OUTPUT]);
  BD_TRY(read_name(reader, message));
  BD_TRY(read_all(reader, message, scope, FIELD_INITIALIZER, "an initializer", add_initializer));
  BD_TRY(read_all(reader, message, scope, FIELD_INPUT, "an input", add_input));
  BD_TRY(read_all(reader, message, scope, FIELD_NODE, "a node", add_node));
  return read_all(reader, message, scope, FIELD_OUTPUT, "an output", add_output);
}
