#include "frontend/onnx/infer/step.h"

bd_status bd_onnx_can_fold(const bd_onnx_step *step, int operands, bool *out) {
  *out = false;
  const bd_onnx_fact *result = &step->out[0];
  bool uniform = true;
  for (int i = 0; i < operands; i++) {
    const bd_onnx_fact *in = step->in[i];
    if (!in) continue;
    if (in->weight || !bd_onnx_is_known(in)) return BD_OK;
    uniform = uniform && in->uniform;
  }
  if (!uniform && (!bd_onnx_plain(result) || bd_onnx_count(result) > BD_ONNX_MOST_KNOWN))
    return BD_OK;
  for (int i = 0; i < operands; i++)
    if (step->in[i]) BD_TRY(bd_onnx_load(step, step->in[i]));
  *out = true;
  return BD_OK;
}

bd_onnx_number *bd_onnx_fold(bd_onnx_step *step, int i) {
  bd_onnx_fact *fact = &step->out[i];
  int64_t count = fact->uniform ? 1 : bd_onnx_count(fact);
  bd_onnx_number *known = BD_NEW_ARRAY(step->ctx->arena, bd_onnx_number, count);
  fact->known = known;
  return known;
}

bd_status bd_onnx_fold_same(bd_onnx_step *step, int i) {
  const bd_onnx_fact *in = step->in[0];
  bd_onnx_fact *out = &step->out[i];
  if (in->weight) return BD_OK;
  out->tensor = in->tensor;
  out->known = in->known;
  out->uniform = in->uniform;
  bd_onnx_keep_diagonals(step, i);
  return BD_OK;
}

int64_t bd_onnx_source(const bd_onnx_fact *in, const bd_onnx_fact *out, const int64_t *at) {
  int64_t source = 0;
  for (int d = 0; d < in->rank; d++) {
    int64_t extent = in->dims[d].integer;
    source = source * extent + (extent == 1 ? 0 : at[d + out->rank - in->rank]);
  }
  return source;
}

bool bd_onnx_fold_element(const bd_onnx_step *step, const bd_onnx_number *in, bd_onnx_number *out) {
  bd_onnx_dtype dtype = step->out[0].dtype;
  if (!step->rule->scalar(step, in, out)) return false;
  if (!bd_onnx_is_float(dtype)) return bd_onnx_wrap(dtype, out);
  out->real = bd_onnx_round(dtype, out->real);
  return true;
}

// Steps through the elements of a shape in row-major order.
static void advance(const bd_onnx_fact *fact, int64_t *at) {
  for (int d = fact->rank - 1; d >= 0; d--) {
    if (++at[d] < fact->dims[d].integer) return;
    at[d] = 0;
  }
}

static bd_status fold(bd_onnx_step *step) {
  bd_onnx_fact *out = &step->out[0];
  bool uniform = true;
  for (int i = 0; i < step->in_count; i++)
    uniform = uniform && (!step->in[i] || step->in[i]->uniform);
  out->uniform = uniform;
  int64_t at[BD_MAX_RANK] = {0}, count = uniform ? 1 : bd_onnx_count(out);
  bd_onnx_number *known = bd_onnx_fold(step, 0);
  bd_onnx_number *in = BD_NEW_ARRAY(step->ctx->arena, bd_onnx_number, step->in_count);
  bool good = true;
  for (int64_t k = 0; k < count && good; k++, advance(out, at)) {
    for (int i = 0; i < step->in_count; i++) {
      const bd_onnx_fact *fact = step->in[i];
      if (fact) in[i] = bd_onnx_at(fact, fact->uniform ? 0 : bd_onnx_source(fact, out, at));
    }
    good = bd_onnx_fold_element(step, in, &known[k]);
  }
  if (!good) out->known = NULL, out->uniform = false;
  return BD_OK;
}

bd_status bd_onnx_infer_pointwise(bd_onnx_step *step) {
  int rank = 0;
  bd_onnx_number dims[BD_MAX_RANK];
  bool foldable = false;
  BD_TRY(bd_onnx_broadcast(step, 0, step->in_count, &rank, dims));
  BD_TRY(bd_onnx_shape(step, 0, rank, dims));
  if (!step->rule->scalar) return BD_OK;
  BD_TRY(bd_onnx_can_fold(step, step->in_count, &foldable));
  return foldable ? fold(step) : bd_onnx_fold_diagonals(step);
}
