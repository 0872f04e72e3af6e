#include "frontend/onnx/lower/lowering.h"
#include <string.h>

static const bd_onnx_lower_rules *const families[] = {
    &bd_onnx_lower_pointwise, &bd_onnx_lower_activations, &bd_onnx_lower_shapes,
    &bd_onnx_lower_products,  &bd_onnx_lower_windows,     &bd_onnx_lower_losses,
    &bd_onnx_lower_extremes,  &bd_onnx_lower_masks,       &bd_onnx_lower_indexing,
    &bd_onnx_lower_norms,     &bd_onnx_lower_repeats,     &bd_onnx_lower_resizes,
    &bd_onnx_lower_einsums,   &bd_onnx_lower_sequences};

static const bd_onnx_lower_rule *find_rule(const char *op) {
  for (size_t f = 0; f < sizeof families / sizeof *families; f++)
    for (int i = 0; i < families[f]->count; i++)
      if (strcmp(families[f]->rules[i].op, op) == 0) return &families[f]->rules[i];
  return NULL;
}

bd_status bd_onnx_lower_node(bd_onnx_lowering *l, const bd_onnx_step *step) {
  const bd_onnx_lower_rule *rule = find_rule(step->node->op);
  if (rule) return rule->lower(l, step);
  return bd_onnx_step_fail(
      step, BD_UNSUPPORTED,
      "its types and shapes are known, but braid's graph has no form for the op "
      "yet; a row in a table of frontend/onnx/lower gives it one (docs/onnx.md)");
}

bd_op_kind bd_onnx_lower_kind(const bd_onnx_step *step) {
  return find_rule(step->node->op)->kind;
}

bd_status bd_onnx_indices(bd_onnx_lowering *l, const bd_onnx_step *step, int i, bd_onnx_part *out) {
  int value = step->node->in[i];
  const bd_onnx_fact *fact = step->in[i];
  const bd_onnx_tensor *tensor = l->model->values[value].initializer;
  *out = l->parts[value];
  if (out->id != BD_NO_ID) return BD_OK;
  if (fact->weight && tensor) {
    BD_TRY(bd_onnx_weight(l, tensor, value, out));
    l->parts[value] = *out;
    return BD_OK;
  }
  // Made anew for each use: layers then have nothing in common but what flows through them.
  if (fact->known || fact->tensor || fact->diagonals) return bd_onnx_constant(l, step, value, out);
  return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                           "uses \"%s\", %s %s, which braid's graph has no form for",
                           l->model->values[value].name, bd_onnx_dtype_name(fact->dtype),
                           bd_onnx_dims_text(l->ctx, fact->rank, fact->dims));
}

bd_status bd_onnx_operand(bd_onnx_lowering *l, const bd_onnx_step *step, int i, bd_onnx_part *out) {
  bd_dtype dtype;
  BD_TRY(bd_onnx_indices(l, step, i, out));
  if (!bd_onnx_element_type(step->in[i]->dtype, &dtype))
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "uses elements of %s",
                             bd_onnx_dtype_name(step->in[i]->dtype));
  return bd_onnx_emit_cast(l, out->id, dtype, &out->id);
}

void bd_onnx_made(bd_onnx_lowering *l, const bd_onnx_step *step, int i, bd_onnx_part part) {
  if (i < step->node->out_count && step->node->out[i] != BD_ONNX_ABSENT)
    l->parts[step->node->out[i]] = part;
}
