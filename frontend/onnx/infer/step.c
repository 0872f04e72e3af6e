#include "frontend/onnx/infer/step.h"
#include "ir/base/text.h"
#include <string.h>

bd_status bd_onnx_step_fail(const bd_onnx_step *step, bd_status status, const char *format, ...) {
  bd_text text = bd_text_init(step->ctx->arena);
  va_list arguments;
  va_start(arguments, format);
  bd_text_addv(&text, format, arguments);
  va_end(arguments);
  return bd_onnx_node_fail(step->ctx, step->model, step->node, status, "%s", text.data);
}

const bd_onnx_attribute *bd_onnx_find(const bd_onnx_step *step, const char *name) {
  for (int i = 0; i < step->node->attribute_count; i++)
    if (strcmp(step->node->attributes[i].name, name) == 0) return &step->node->attributes[i];
  return NULL;
}

int64_t bd_onnx_int(const bd_onnx_step *step, const char *name, int64_t absent) {
  const bd_onnx_attribute *attribute = bd_onnx_find(step, name);
  return attribute ? attribute->integer : absent;
}

double bd_onnx_real(const bd_onnx_step *step, const char *name, double absent) {
  const bd_onnx_attribute *attribute = bd_onnx_find(step, name);
  return attribute ? attribute->real : absent;
}

const char *bd_onnx_text(const bd_onnx_step *step, const char *name, const char *absent) {
  const bd_onnx_attribute *attribute = bd_onnx_find(step, name);
  return attribute ? attribute->string : absent;
}

bd_status bd_onnx_ints(const bd_onnx_step *step, const char *name, int count, const int64_t **out) {
  const bd_onnx_attribute *attribute = bd_onnx_find(step, name);
  *out = attribute ? attribute->integers : NULL;
  if (!attribute || attribute->count == count) return BD_OK;
  return bd_onnx_step_fail(step, BD_INVALID, "its attribute \"%s\" has %d members, not %d", name,
                           attribute->count, count);
}

bool bd_onnx_is_known(const bd_onnx_fact *fact) {
  return fact->known || (fact->tensor && fact->tensor->elements <= BD_ONNX_MOST_KNOWN);
}

bd_status bd_onnx_load(const bd_onnx_step *step, bd_onnx_fact *fact) {
  if (fact->known) return BD_OK;
  int64_t count = fact->tensor->elements;
  bd_onnx_number *known = BD_NEW_ARRAY(step->ctx->arena, bd_onnx_number, count);
  BD_TRY(bd_onnx_tensor_elements(step->ctx, step->model, fact->tensor, 0, count, known));
  fact->known = known;
  return BD_OK;
}

bd_status bd_onnx_elements(const bd_onnx_step *step, int i, int *out_count) {
  bd_onnx_fact *fact = step->in[i];
  const char *name = step->model->values[step->node->in[i]].name;
  if (!bd_onnx_is_known(fact))
    return bd_onnx_step_fail(
        step, BD_UNSUPPORTED,
        "its operand %d, \"%s\", decides a shape and depends on the contents of "
        "the model's inputs; shapes must follow from the model and its extents",
        i, name);
  if (fact->rank > 1 || !bd_onnx_plain(fact))
    return bd_onnx_step_fail(step, BD_INVALID, "its operand %d, \"%s\", must be a list, not %s", i,
                             name, bd_onnx_dims_text(step->ctx, fact->rank, fact->dims));
  BD_TRY(bd_onnx_load(step, fact));
  int64_t count = bd_onnx_count(fact);
  if (count > BD_ONNX_MOST_KNOWN)
    return bd_onnx_step_fail(step, BD_INVALID, "its operand %d, \"%s\", has %lld elements", i, name,
                             (long long)count);
  *out_count = (int)count;
  return BD_OK;
}

bd_status bd_onnx_one(const bd_onnx_step *step, int i, bd_onnx_number *out) {
  int count = 0;
  BD_TRY(bd_onnx_elements(step, i, &count));
  if (count != 1)
    return bd_onnx_step_fail(step, BD_INVALID, "its operand %d must be one number, not %d", i,
                             count);
  *out = step->in[i]->known[0];
  return BD_OK;
}

bd_status bd_onnx_numbers(const bd_onnx_step *step, const char *name, int i, int *out_count,
                          const bd_onnx_number **out) {
  const bd_onnx_attribute *attribute = name ? bd_onnx_find(step, name) : NULL;
  *out = NULL;
  *out_count = 0;
  if (!attribute && (i < 0 || !step->in[i])) return BD_OK;
  if (!attribute)
    BD_TRY(bd_onnx_elements(step, i, out_count));
  else
    *out_count = attribute->count;
  bd_onnx_number *numbers = BD_NEW_ARRAY(step->ctx->arena, bd_onnx_number, *out_count);
  for (int k = 0; k < *out_count; k++)
    numbers[k] = attribute ? bd_onnx_whole(attribute->integers[k]) : bd_onnx_at(step->in[i], k);
  *out = numbers;
  return BD_OK;
}

bd_status bd_onnx_axis(const bd_onnx_step *step, int64_t axis, int rank, int *out) {
  if (axis < -rank || axis >= rank)
    return bd_onnx_step_fail(step, BD_INVALID, "axis %lld is outside of %d dimensions",
                             (long long)axis, rank);
  *out = (int)(axis < 0 ? axis + rank : axis);
  return BD_OK;
}

bd_status bd_onnx_axes(const bd_onnx_step *step, int i, int rank, int *out_count,
                       unsigned *out_axes) {
  const bd_onnx_number *numbers;
  *out_axes = 0;
  BD_TRY(bd_onnx_numbers(step, "axes", i, out_count, &numbers));
  for (int k = 0; k < *out_count; k++) {
    int axis = 0;
    BD_TRY(bd_onnx_axis(step, numbers[k].batch ? INT64_MAX : numbers[k].integer, rank, &axis));
    if (*out_axes >> axis & 1)
      return bd_onnx_step_fail(step, BD_INVALID, "axis %d is given twice", axis);
    *out_axes |= 1U << axis;
  }
  return BD_OK;
}

bd_status bd_onnx_shape(bd_onnx_step *step, int i, int rank, const bd_onnx_number *dims) {
  if (rank > BD_MAX_RANK)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "its result has %d dimensions; at most %d", rank,
                             BD_MAX_RANK);
  int batches = 0;
  for (int d = 0; d < rank; d++) {
    if (dims[d].integer < 0)
      return bd_onnx_step_fail(step, BD_INVALID, "its result has an extent of %lld",
                               (long long)dims[d].integer);
    batches += dims[d].batch;
  }
  if (batches > 1)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                             "the batch B occurs twice in its result, %s; samples must be apart",
                             bd_onnx_dims_text(step->ctx, rank, dims));
  bd_onnx_number elements;
  if (!bd_onnx_product(dims, rank, &elements))
    return bd_onnx_step_fail(step, BD_INVALID, "its result, %s, has more than 2^46 elements",
                             bd_onnx_dims_text(step->ctx, rank, dims));
  step->out[i].rank = rank;
  step->out[i].dims = bd_arena_copy(step->ctx->arena, dims, rank, sizeof *dims);
  return BD_OK;
}

bd_status bd_onnx_shape_of(bd_onnx_step *step, int i, int from) {
  step->out[i].rank = step->in[from]->rank;
  step->out[i].dims = step->in[from]->dims;
  return BD_OK;
}

bd_status bd_onnx_infer_same(bd_onnx_step *step) {
  return bd_onnx_shape_of(step, 0, 0);
}

bd_status bd_onnx_broadcast(const bd_onnx_step *step, int first, int count, int *out_rank,
                            bd_onnx_number out_dims[BD_MAX_RANK]) {
  int rank = 0;
  for (int i = first; i < first + count; i++)
    if (step->in[i] && step->in[i]->rank > rank) rank = step->in[i]->rank;
  for (int d = 0; d < rank; d++) {
    out_dims[d] = bd_onnx_whole(1);
    for (int i = first; i < first + count; i++) {
      const bd_onnx_fact *in = step->in[i];
      if (!in || d < rank - in->rank) continue;
      bd_onnx_number extent = in->dims[d - (rank - in->rank)];
      if (bd_onnx_is(out_dims[d], 1))
        out_dims[d] = extent;
      else if (!bd_onnx_is(extent, 1) && !bd_onnx_same(extent, out_dims[d]))
        return bd_onnx_step_fail(
            step, BD_INVALID, "its operands' shapes do not agree: %s and %s",
            bd_onnx_dims_text(step->ctx, step->in[first]->rank, step->in[first]->dims),
            bd_onnx_dims_text(step->ctx, in->rank, in->dims));
    }
  }
  *out_rank = rank;
  return BD_OK;
}
