#include "frontend/onnx/infer/view.h"

void bd_onnx_strides(const bd_onnx_fact *fact, int64_t out_strides[BD_MAX_RANK]) {
  int64_t stride = 1;
  for (int d = fact->rank - 1; d >= 0; d--) {
    out_strides[d] = stride;
    stride *= fact->dims[d].integer;
  }
}

void bd_onnx_fold_view(bd_onnx_step *step, int i, const bd_onnx_view *view) {
  const bd_onnx_fact *in = step->in[0], *out = &step->out[i];
  int64_t at[BD_MAX_RANK] = {0}, count = bd_onnx_count(out);
  bd_onnx_number *known = bd_onnx_fold(step, i);
  for (int64_t k = 0; k < count; k++) {
    int64_t source = view->start;
    for (int d = 0; d < out->rank; d++)
      source += at[d] % view->period[d] * view->step[d];
    known[k] = in->known[source];
    for (int d = out->rank - 1; d >= 0 && ++at[d] == out->dims[d].integer; d--)
      at[d] = 0;
  }
}

bd_status bd_onnx_can_move(bd_onnx_step *step, int results, bool *out) {
  const bd_onnx_fact *in = step->in[0];
  *out = false;
  if (in->uniform && in->known) {
    for (int i = 0; i < results; i++) {
      step->out[i].uniform = true;
      step->out[i].known = in->known;
    }
    return BD_OK;
  }
  BD_TRY(bd_onnx_can_fold(step, 1, out));
  for (int i = 0; i < results; i++)
    if (!bd_onnx_plain(&step->out[i]) || bd_onnx_count(&step->out[i]) > BD_ONNX_MOST_KNOWN)
      *out = false;
  return BD_OK;
}
