#include "frontend/onnx/reader.h"
#include "ir/base/text.h"
#include <string.h>

// Fields of NodeProto.
enum {
  FIELD_INPUT = 1,
  FIELD_OUTPUT = 2,
  FIELD_NAME = 3,
  FIELD_OP = 4,
  FIELD_ATTRIBUTE = 5,
  FIELD_DOMAIN = 7
};

// Whether a node of `owner` makes `name`; damage ends the search, and is met when it is read.
static bool is_made_later(bd_onnx_reader *reader, bd_onnx_bytes owner, uint32_t node_field,
                          const char *name) {
  bd_wire nodes = bd_wire_begin(owner);
  bd_wire_field node, field;
  size_t length = strlen(name);
  while (bd_wire_next(&nodes, &node)) {
    if (node.number != node_field || node.kind != BD_WIRE_BYTES) continue;
    bd_wire wire = bd_wire_begin(node.bytes);
    while (bd_wire_next(&wire, &field))
      if (field.number == FIELD_OUTPUT && field.bytes.bytes == length &&
          memcmp(field.bytes.data, name, length) == 0)
        return true;
  }
  return false;
}

typedef struct context {
  bd_onnx_reader *reader;
  bd_onnx_scope *scope;
  bd_onnx_bytes owner;
  uint32_t node_field;
} context;

static bd_status use(const context *c, const bd_onnx_node *node, const char *name, int *out) {
  *out = BD_ONNX_ABSENT;
  if (name[0] == '\0') return BD_OK;
  *out = bd_onnx_find_value(c->scope, name);
  if (*out >= 0) return BD_OK;
  bool later = is_made_later(c->reader, c->owner, c->node_field, name);
  return bd_onnx_node_fail(c->reader->ctx, c->reader->model, node, BD_INVALID,
                           later
                               ? "uses \"%s\", which is made by itself or a later node: the nodes "
                                 "are out of order, or a cycle"
                               : "uses \"%s\", which nothing makes",
                           name);
}

static int64_t version_of(const bd_onnx_opsets *opsets, const char *domain) {
  for (int i = 0; i < opsets->count; i++)
    if (strcmp(opsets->list[i].domain, domain) == 0) return opsets->list[i].version;
  return 0;
}

// Name, op and domain, which complaints about the rest name.
static bd_status read_head(const context *c, bd_onnx_bytes message, bd_onnx_node *node) {
  bd_onnx_reader *reader = c->reader;
  bd_wire wire = bd_wire_begin(message);
  bd_wire_field field;
  while (bd_wire_next(&wire, &field)) {
    if (field.number == FIELD_NAME)
      BD_TRY(bd_onnx_take_name(reader, &field, "a node's name", &node->name));
    else if (field.number == FIELD_OP)
      BD_TRY(bd_onnx_take_name(reader, &field, "a node's op_type", &node->op));
    else if (field.number == FIELD_DOMAIN)
      BD_TRY(bd_onnx_take_name(reader, &field, "a node's domain", &node->domain));
  }
  if (wire.damage) return bd_onnx_damaged(reader, &wire, "NodeProto");
  if (strcmp(node->domain, "ai.onnx") == 0) node->domain = "";
  node->version = version_of(&c->scope->opsets, node->domain);
  return BD_OK;
}

// In a function: what an attribute refers to at the call. False: the call leaves it out.
static bool resolve(const bd_onnx_scope *scope, bd_onnx_attribute *attribute) {
  if (!attribute->reference) return true;
  const bd_onnx_node *call = scope->call;
  for (int i = 0; call && i < call->attribute_count; i++) {
    if (strcmp(call->attributes[i].name, attribute->reference) != 0) continue;
    const char *name = attribute->name;
    *attribute = call->attributes[i];
    attribute->name = name;
    return true;
  }
  return false;
}

static bool has_attribute(const bd_onnx_node *node, const char *name) {
  for (int i = 0; i < node->attribute_count; i++)
    if (strcmp(node->attributes[i].name, name) == 0) return true;
  return false;
}

static bd_status add_attribute(const context *c, const bd_wire_field *field, bd_onnx_node *node) {
  bd_onnx_bytes bytes = {NULL, 0};
  bd_onnx_attribute attribute;
  BD_TRY(bd_onnx_take_bytes(c->reader, field, "an attribute", &bytes));
  BD_TRY(bd_onnx_read_attribute(c->reader, bytes, &attribute));
  if (has_attribute(node, attribute.name))
    return bd_onnx_node_fail(c->reader->ctx, c->reader->model, node, BD_INVALID,
                             "has the attribute \"%s\" twice", attribute.name);
  if (resolve(c->scope, &attribute)) node->attributes[node->attribute_count++] = attribute;
  return BD_OK;
}

static bd_status read_body(const context *c, bd_onnx_bytes message, bd_onnx_node *node,
                           const char **out_names) {
  bd_onnx_reader *reader = c->reader;
  bd_wire wire = bd_wire_begin(message);
  bd_wire_field field;
  while (bd_wire_next(&wire, &field)) {
    const char *name;
    if (field.number == FIELD_INPUT) {
      BD_TRY(bd_onnx_take_name(reader, &field, "a node's input", &name));
      BD_TRY(use(c, node, name, &node->in[node->in_count++]));
    } else if (field.number == FIELD_OUTPUT) {
      BD_TRY(bd_onnx_take_name(reader, &field, "a node's output", &out_names[node->out_count++]));
    } else if (field.number == FIELD_ATTRIBUTE) {
      BD_TRY(add_attribute(c, &field, node));
    }
  }
  return BD_OK;
}

static bd_status make_room(const context *c, bd_onnx_bytes message, bd_onnx_node *node,
                           const char ***out_names) {
  bd_arena *arena = c->reader->ctx->arena;
  int64_t counts[32];
  BD_TRY(bd_onnx_count_fields(c->reader, message, "NodeProto", counts));
  if (counts[FIELD_INPUT] > BD_ONNX_MOST_OPERANDS || counts[FIELD_OUTPUT] > BD_ONNX_MOST_OPERANDS ||
      counts[FIELD_ATTRIBUTE] > BD_ONNX_MOST_ATTRIBUTES)
    return bd_onnx_node_fail(c->reader->ctx, c->reader->model, node, BD_INVALID,
                             "has more than %d operands or results, or more than %d attributes",
                             BD_ONNX_MOST_OPERANDS, BD_ONNX_MOST_ATTRIBUTES);
  node->in = BD_NEW_ARRAY(arena, int, counts[FIELD_INPUT]);
  node->out = BD_NEW_ARRAY(arena, int, counts[FIELD_OUTPUT]);
  node->attributes = BD_NEW_ARRAY(arena, bd_onnx_attribute, counts[FIELD_ATTRIBUTE]);
  *out_names = BD_NEW_ARRAY(arena, const char *, counts[FIELD_OUTPUT]);
  return BD_OK;
}

static bd_status append(const context *c, const bd_onnx_node *node) {
  bd_onnx_reader *reader = c->reader;
  bd_onnx_model *model = reader->model;
  if (model->node_count == BD_ONNX_MOST_NODES)
    return bd_fail(reader->ctx, BD_INVALID, reader->loc, "the model has more than %d nodes",
                   BD_ONNX_MOST_NODES);
  if (model->node_count == reader->node_capacity) {
    int room = reader->node_capacity ? 2 * reader->node_capacity : 64;
    model->nodes = bd_arena_grow(reader->ctx->arena, model->nodes, (size_t)model->node_count,
                                 (size_t)room, sizeof *model->nodes);
    reader->node_capacity = room;
  }
  model->nodes[model->node_count] = *node;
  model->nodes[model->node_count].number = model->node_count;
  model->node_count++;
  return BD_OK;
}

static const bd_onnx_function *find_function(bd_onnx_reader *reader, const bd_onnx_node *node) {
  if (reader->function_count == 0) return NULL;
  int number = bd_name_map_find(&reader->function_names,
                                bd_intern_f(reader->ctx, "%s:%s", node->domain, node->op));
  return number < 0 ? NULL : &reader->functions[number];
}

bd_status bd_onnx_read_node(bd_onnx_reader *reader, bd_onnx_scope *scope, bd_onnx_bytes message,
                            bd_onnx_bytes owner, uint32_t node_field) {
  const context c = {reader, scope, owner, node_field};
  if (bd_arena_used_bytes(reader->ctx->arena) - reader->used_before > BD_ONNX_MOST_BYTES)
    return bd_fail(reader->ctx, BD_INVALID, reader->loc,
                   "the model's nodes, with its functions expanded, take more than %d MiB",
                   BD_ONNX_MOST_BYTES >> 20);
  bd_onnx_node node = {.name = "", .op = "", .domain = "", .guard = scope->guard};
  node.number = reader->model->node_count;
  const char **names = NULL;
  BD_TRY(read_head(&c, message, &node));
  BD_TRY(make_room(&c, message, &node, &names));
  BD_TRY(read_body(&c, message, &node, names));
  if (scope->prefix[0]) node.name = bd_intern_f(reader->ctx, "%s%s", scope->prefix, node.name);
  const bd_onnx_function *function = find_function(reader, &node);
  if (function) BD_TRY(bd_onnx_expand(reader, scope, &node, function));
  if (bd_onnx_is_if(&node)) BD_TRY(bd_onnx_read_branches(reader, scope, &node));
  for (int i = 0; i < node.out_count; i++) {
    int *value = &node.out[i];
    if (!names[i][0])
      *value = BD_ONNX_ABSENT;
    else if (function)
      BD_TRY(bd_onnx_name(reader, scope, names[i], *value));
    else
      BD_TRY(bd_onnx_define(reader, scope, names[i], reader->model->node_count, value));
  }
  return function ? BD_OK : append(&c, &node);
}

const char *bd_onnx_node_text(bd_ctx *ctx, const bd_onnx_model *model, const bd_onnx_node *node) {
  bd_text text = bd_text_init(ctx->arena);
  bd_text_add(&text, "node ");
  bd_text_addf(&text, "%d ", node->number);
  if (node->name[0]) bd_text_addf(&text, "\"%s\" ", node->name);
  bd_text_addf(&text, "(%s%s%s)", node->domain, node->domain[0] ? "." : "", node->op);
  return text.data;
}

bd_status bd_onnx_node_fail(bd_ctx *ctx, const bd_onnx_model *model, const bd_onnx_node *node,
                            bd_status status, const char *format, ...) {
  bd_text text = bd_text_init(ctx->arena);
  va_list arguments;
  va_start(arguments, format);
  bd_text_addv(&text, format, arguments);
  va_end(arguments);
  return bd_fail(ctx, status, bd_loc_file(model->path), "%s: %s",
                 bd_onnx_node_text(ctx, model, node), text.data);
}
