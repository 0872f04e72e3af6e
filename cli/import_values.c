#include "cli/import_values.h"
#include "ir/init.h"
#include "ir/name_map.h"

enum { PIECE = 4096 };

static bd_status read_weight(bd_ctx *ctx, const bd_onnx_model *model, const bd_onnx_tensor *tensor,
                             double *out) {
  bd_onnx_number *piece = BD_NEW_ARRAY(ctx->arena, bd_onnx_number, PIECE);
  bool is_real = bd_onnx_is_float(tensor->dtype);
  for (int64_t done = 0; done < tensor->elements; done += PIECE) {
    int64_t now = tensor->elements - done < PIECE ? tensor->elements - done : PIECE;
    BD_TRY(bd_onnx_tensor_elements(ctx, model, tensor, done, now, piece));
    for (int64_t i = 0; i < now; i++)
      out[done + i] = is_real ? piece[i].real : (double)piece[i].integer;
  }
  return BD_OK;
}

// The dimension of operand 0 that operand 1 of an op indexes; -1: none.
static int indexed_dim(const bd_function *function, const bd_op *op) {
  switch (op->kind) {
  case BD_OP_EMBED:
    return 0;
  case BD_OP_GATHER:
  case BD_OP_SCATTER:
    return (int)bd_op_int(op, "dim", 0);
  case BD_OP_XENT:
    return function->values[op->in[0]].type.rank - 1;
  default:
    return -1;
  }
}

static bool is_integer(const bd_function *function, bd_id id) {
  return bd_dtype_class_of(function->values[id].type.dtype) == BD_INTEGERS;
}

// What all integers of a parameter are to lie below: the least extent that they, or integers made
// of them, index.
static int64_t bound_of(bd_ctx *ctx, const bd_function *function, bd_id param) {
  bool *made_of_it = BD_NEW_ARRAY(ctx->arena, bool, function->value_count);
  int64_t bound = 0;
  made_of_it[param] = true;
  for (int i = 0; i < function->op_count; i++) {
    const bd_op *op = &function->ops[i];
    int dim = indexed_dim(function, op);
    if (dim >= 0 && made_of_it[op->in[1]]) {
      int64_t extent = function->values[op->in[0]].type.dims[dim];
      if (extent > 0 && (bound == 0 || extent < bound)) bound = extent;
    }
    bool any = false;
    for (int k = 0; k < op->in_count; k++)
      any |= made_of_it[op->in[k]];
    for (int k = 0; k < op->out_count; k++)
      made_of_it[op->out[k]] = any && is_integer(function, op->out[k]);
  }
  return bound ? bound : 2;
}

static void draw(bd_ctx *ctx, const bd_function *function, int index, bd_tensor *tensor) {
  bd_id param = function->params[index];
  int64_t count = bd_type_elements(&tensor->type, 1);
  double bound = is_integer(function, param) ? (double)bound_of(ctx, function, param) : 2;
  bool is_real = bd_dtype_is_float(tensor->type.dtype);
  for (int64_t i = 0; i < count; i++) {
    double uniform = bd_random_uniform(1, 0, (uint32_t)index, 0, 0, (uint64_t)i);
    tensor->data[i] = bd_dtype_round(
        tensor->type.dtype, is_real ? 2 * uniform - 1 : (double)(int64_t)(uniform * bound));
  }
}

static bd_tensor make_tensor(bd_ctx *ctx, const bd_function *function, int index, int64_t batch) {
  bd_type type = function->values[function->params[index]].type;
  for (int d = 0; d < type.rank; d++)
    type.dims[d] = bd_extent(type.dims[d], batch);
  return (bd_tensor){type, BD_NEW_ARRAY(ctx->arena, double, bd_type_elements(&type, 1))};
}

bd_status bd_import_values(bd_ctx *ctx, const bd_onnx_model *model, const bd_onnx_program *program,
                           int64_t batch, bd_tensor **out_values) {
  const bd_function *function = program->function;
  bd_tensor *values = BD_NEW_ARRAY(ctx->arena, bd_tensor, function->param_count);
  for (int i = 0; i < function->param_count; i++) {
    const bd_onnx_tensor *weight = model->values[program->params[i]].initializer;
    values[i] = make_tensor(ctx, function, i, batch);
    if (weight)
      BD_TRY(read_weight(ctx, model, weight, values[i].data));
    else
      draw(ctx, function, i, &values[i]);
  }
  *out_values = values;
  return BD_OK;
}

// The part of a stored tensor that a weight is, in the weight's order.
static bd_status read_stored(bd_ctx *ctx, const bd_onnx_model *model, const bd_onnx_tensor *tensor,
                             const bd_storage *storage, double *out) {
  double *stored = BD_NEW_ARRAY(ctx->arena, double, tensor->elements);
  BD_TRY(read_weight(ctx, model, tensor, stored));
  for (int64_t i = 0; i < tensor->elements; i++) {
    int64_t at = bd_storage_to_logical(storage, i);
    if (at >= 0) out[at] = stored[i];
  }
  return BD_OK;
}

bd_status bd_import_graph_values(bd_ctx *ctx, const bd_onnx_model *model, const bd_module *graph,
                                 const bd_function *flat, int64_t batch, const bd_tensor *inputs,
                                 bd_tensor **out_values) {
  bd_tensor *values = BD_NEW_ARRAY(ctx->arena, bd_tensor, flat->param_count);
  bd_name_map names = bd_name_map_init(ctx->arena);
  for (int i = 0; i < model->value_count; i++)
    if (model->values[i].initializer)
      bd_name_map_add(&names, model->values[i].initializer->name, i);
  for (int i = 0; i < graph->input_count; i++) {
    values[i] = inputs ? inputs[i] : make_tensor(ctx, flat, i, batch);
    if (!inputs) draw(ctx, flat, i, &values[i]);
  }
  for (int i = 0; i < graph->weight_count; i++) {
    const bd_storage *storage = &graph->weights[i].storage;
    bd_tensor *value = &values[graph->input_count + i];
    *value = make_tensor(ctx, flat, graph->input_count + i, batch);
    int64_t count = bd_storage_count(storage);
    int64_t each = bd_type_elements(&graph->weights[i].type, 1) / count;
    for (int64_t number = 0; number < count; number++) {
      const char *name = bd_storage_name(ctx, storage, number);
      const bd_onnx_value *source = &model->values[bd_name_map_find(&names, name)];
      BD_TRY(read_stored(ctx, model, source->initializer, storage, value->data + number * each));
    }
  }
  *out_values = values;
  return BD_OK;
}
