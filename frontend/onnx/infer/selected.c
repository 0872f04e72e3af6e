// What may be done to values with a row for each place that a mask selects. Lowering gives them a
// row for every place, so rows must stay apart until they are put back where they are from.
#include "frontend/onnx/infer/step.h"
#include <string.h>

static bool is_among(const char *op, const char *const *ops) {
  for (; *ops; ops++)
    if (strcmp(op, *ops) == 0) return true;
  return false;
}

// A reshape may part or join what is in a row, and no rows.
static bool keeps_rows(const bd_onnx_fact *in, const bd_onnx_fact *out) {
  bd_onnx_number before, after;
  int from = bd_onnx_selected_dim(in), to = bd_onnx_selected_dim(out);
  return from >= 0 && bd_onnx_product(in->dims, from, &before) &&
         bd_onnx_product(out->dims, to, &after) && bd_onnx_same(before, after);
}

// Rows are looked up by the places, or looked into by other indices.
static bool looks_up(const bd_onnx_step *step) {
  return bd_onnx_selected_dim(step->in[0]) < 0 || bd_onnx_selected_dim(step->in[1]) < 0;
}

static bool is_by_row(const bd_onnx_step *step) {
  static const char *const any[] = {
      "Transpose", "Squeeze",    "Unsqueeze",       "Expand", "Identity", "Dropout",   "Split",
      "Slice",     "Concat",     "MatMul",          "Gemm",   "NonZero",  "ReduceSum", "ReduceMax",
      "ReduceMin", "ReduceMean", "ConstantOfShape", NULL};
  static const char *const shapes[] = {"Reshape", "Flatten", NULL};
  static const char *const tables[] = {"Gather", "GatherND", NULL};
  static const char *const returns[] = {"ScatterND", "ScatterElements", NULL};
  const char *op = step->node->op;
  const bd_onnx_fact *out = &step->out[0];
  if (is_among(op, returns))
    return bd_onnx_selected_dim(step->in[0]) < 0 && bd_onnx_selected_dim(step->in[1]) >= 0;
  if (strcmp(op, "Shape") == 0 || strcmp(op, "Size") == 0) return true;
  int rows = bd_onnx_selected_dim(out);
  if (rows < 0 || out->dims[rows].integer != 1) return false;
  if (is_among(op, shapes)) return keeps_rows(step->in[0], out);
  if (is_among(op, tables)) return looks_up(step);
  return step->rule->infer == bd_onnx_infer_pointwise || step->rule->scalar || is_among(op, any);
}

bd_status bd_onnx_check_selected(const bd_onnx_step *step) {
  int selection = 0;
  for (int i = 0; i < step->in_count; i++) {
    int rows = step->in[i] ? bd_onnx_selected_dim(step->in[i]) : -1;
    if (rows >= 0) selection = step->in[i]->dims[rows].selection;
  }
  for (int i = 0; i < step->out_count; i++) {
    int rows = bd_onnx_selected_dim(&step->out[i]);
    if (rows >= 0) selection = step->out[i].dims[rows].selection;
  }
  if (selection == 0 || is_by_row(step)) return BD_OK;
  return bd_onnx_step_fail(
      step, BD_UNSUPPORTED,
      "the shape of its operands or result depends on the contents of \"%s\", and it is none of "
      "the ops that keep the places which that selects apart; export the model so that shapes "
      "follow from shapes (a mask instead of indices)",
      step->model->values[selection - 1].name);
}
