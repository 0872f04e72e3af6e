// Weights of the graph, and numbers that operands are.
#include "frontend/onnx/lower/layout.h"
#include <math.h>

enum { SAMPLE = 4096 };

const char *bd_onnx_graph_name(bd_onnx_lowering *l, const char *name) {
  enum { MOST = 200 };
  char text[MOST + 1];
  size_t length = 0;
  for (; name[length] && length < MOST; length++)
    text[length] = bd_is_identifier_byte(name[length]) ? name[length] : '_';
  if (length == 0) text[length++] = '_';
  text[length] = '\0';
  const char *unique = bd_intern_z(l->ctx, text);
  for (int i = 1; !bd_name_map_add(&l->names, unique, 0); i++)
    unique = bd_intern_f(l->ctx, "%s.%d", text, i);
  return unique;
}

// How values like the stored ones are drawn: from their first elements.
static bd_status describe_values(bd_onnx_lowering *l, const bd_onnx_tensor *tensor,
                                 bd_weight *weight) {
  int64_t count = tensor->elements < SAMPLE ? tensor->elements : SAMPLE;
  bd_onnx_number *values = BD_NEW_ARRAY(l->ctx->arena, bd_onnx_number, count);
  BD_TRY(bd_onnx_tensor_elements(l->ctx, l->model, tensor, 0, count, values));
  bool zeros = true, ones = true;
  double squares = 0;
  for (int64_t i = 0; i < count; i++) {
    zeros = zeros && values[i].real == 0;
    ones = ones && values[i].real == 1;
    squares += values[i].real * values[i].real;
  }
  double deviation = count > 0 ? sqrt(squares / (double)count) : 0;
  weight->init = zeros ? BD_INIT_ZEROS : ones ? BD_INIT_ONES : BD_INIT_NORMAL;
  weight->init_scale = zeros || ones || !isfinite(deviation) ? 0 : deviation;
  return BD_OK;
}

bd_status bd_onnx_weight(bd_onnx_lowering *l, const bd_onnx_tensor *tensor, int value,
                         bd_onnx_part *out) {
  bd_weight weight = {.storage = {.name = tensor->name, .rank = tensor->rank, .slice_dim = -1}};
  bd_dtype dtype;
  int64_t dims[BD_MAX_RANK];
  int rank = 0;
  (void)bd_onnx_element_type(tensor->dtype, &dtype);
  for (int d = 0; d < tensor->rank; d++) {
    out->first[d] = (int8_t)rank;
    weight.storage.dims[d] = tensor->dims[d];
    if (tensor->dims[d] == 0)
      return bd_fail(l->ctx, BD_UNSUPPORTED, l->graph.loc, "tensor \"%s\" has no elements",
                     tensor->name);
    if (tensor->dims[d] != 1) dims[rank++] = tensor->dims[d];
  }
  out->first[tensor->rank] = (int8_t)rank;
  weight.type = bd_type_make(dtype, rank, dims);
  weight.wide = dtype;
  weight.decay = rank >= 2;
  weight.name = bd_onnx_graph_name(l, l->model->values[value].name);
  BD_TRY(describe_values(l, tensor, &weight));
  bd_graph_weight(&l->graph, weight);
  l->sources[l->graph.function->param_count] = value;
  out->id = bd_graph_param(&l->graph, weight.name, weight.type, true);
  return l->graph.status;
}

bd_status bd_onnx_same_number(bd_onnx_lowering *l, const bd_onnx_step *step, int i, bool *out_same,
                              bd_onnx_number *out) {
  *out_same = false;
  bd_onnx_fact *fact = step->in[i];
  if (!fact || fact->weight || !bd_onnx_is_known(fact)) return BD_OK;
  BD_TRY(bd_onnx_load(step, fact));
  int64_t count = fact->uniform ? 1 : bd_onnx_count(fact);
  bool real = bd_onnx_is_float(fact->dtype);
  if (count == 0) return BD_OK;
  *out = fact->known[0];
  for (int64_t k = 1; k < count; k++)
    if (real ? !bd_onnx_equal_reals(fact->known[k].real, out->real)
             : !bd_onnx_same(fact->known[k], *out))
      return BD_OK;
  *out_same = real || !out->batch;
  return BD_OK;
}
