#include "frontend/onnx/reader.h"
#include <string.h>

// One branch: `name` of the node, in a scope of its own that sees the names around it.
static bd_status read_branch(bd_onnx_reader *reader, const bd_onnx_scope *outer,
                             const bd_onnx_node *node, const char *name, bool taken_if,
                             int *values) {
  bd_onnx_bytes graph = {NULL, 0};
  for (int i = 0; i < node->attribute_count; i++)
    if (strcmp(node->attributes[i].name, name) == 0) graph = node->attributes[i].graph;
  if (!graph.data)
    return bd_onnx_node_fail(reader->ctx, reader->model, node, BD_INVALID, "has no %s", name);
  bd_onnx_guard *guard = BD_NEW(reader->ctx->arena, bd_onnx_guard);
  *guard = (bd_onnx_guard){node->in[0], taken_if, outer->guard};
  bd_onnx_scope *scope = BD_NEW(reader->ctx->arena, bd_onnx_scope);
  *scope = *outer;
  const char *own = node->name[0] ? node->name : bd_intern_f(reader->ctx, "%sIf", outer->prefix);
  scope->prefix = bd_intern_f(reader->ctx, "%s%d/%s/", own, reader->model->value_count, name);
  scope->names = bd_name_map_init(reader->ctx->arena);
  scope->outer = outer;
  scope->guard = guard;
  scope->depth++;
  return bd_onnx_read_branch(reader, graph, scope, node->out_count, values);
}

bd_status bd_onnx_read_branches(bd_onnx_reader *reader, const bd_onnx_scope *outer,
                                bd_onnx_node *node) {
  if (outer->depth == BD_ONNX_MOST_DEPTH)
    return bd_onnx_node_fail(reader->ctx, reader->model, node, BD_INVALID,
                             "branches and functions are more than %d deep", BD_ONNX_MOST_DEPTH);
  if (reader->expansions++ == BD_ONNX_MOST_EXPANSIONS)
    return bd_onnx_node_fail(reader->ctx, reader->model, node, BD_INVALID,
                             "functions are called and branches taken more than %d times",
                             BD_ONNX_MOST_EXPANSIONS);
  if (node->in_count != 1 || node->in[0] == BD_ONNX_ABSENT)
    return bd_onnx_node_fail(reader->ctx, reader->model, node, BD_INVALID,
                             "has %d operands, not one condition", node->in_count);
  int *in = BD_NEW_ARRAY(reader->ctx->arena, int, 1 + 2 * node->out_count);
  in[0] = node->in[0];
  BD_TRY(read_branch(reader, outer, node, "then_branch", true, in + 1));
  BD_TRY(read_branch(reader, outer, node, "else_branch", false, in + 1 + node->out_count));
  node->in = in;
  node->in_count = 1 + 2 * node->out_count;
  return BD_OK;
}
