// Folders whose weights are in fewer bits than programs train in.
#include "frontend/hf/hf.h"
#include <string.h>

static bd_status is_stored(bd_ctx *ctx, const char *folder, const char *rest, bool *out_stored) {
  BD_TRY(bd_hf_is_stored(ctx, folder, bd_intern_f(ctx, "model.layers.0.%s", rest), out_stored));
  if (*out_stored) return BD_OK;
  return bd_hf_is_stored(ctx, folder, bd_intern_f(ctx, "layers.0.%s", rest), out_stored);
}

// gpt-oss is published in mxfp4. What transformers makes of it in bf16 may keep the member.
static bd_status check_mxfp4(bd_ctx *ctx, const char *folder, const bd_json *json,
                             const bd_json *quantization) {
  bool plain = false, blocks = false;
  BD_TRY(is_stored(ctx, folder, "mlp.experts.gate_up_proj", &plain));
  BD_TRY(is_stored(ctx, folder, "mlp.experts.gate_up_proj_blocks", &blocks));
  if (plain && !blocks) {
    if (quantization)
      bd_warn(ctx, quantization->loc,
              "\"quantization_config\" is passed over, as the weights are not quantized");
    return BD_OK;
  }
  if (!quantization && !blocks) return BD_OK;
  return bd_fail(ctx, BD_UNSUPPORTED, quantization ? quantization->loc : json->loc,
                 "the weights are quantized, and cannot be trained so; make them bf16 (in "
                 "transformers from_pretrained with Mxfp4Config(dequantize=True), then "
                 "save_pretrained), and leave out \"quantization_config\"");
}

bd_status bd_hf_check_quantized(bd_ctx *ctx, const char *folder, const bd_json *json,
                                const char *model_type) {
  const bd_json *quantization = bd_json_given(json, "quantization_config");
  if (strcmp(model_type, "gpt_oss") == 0) return check_mxfp4(ctx, folder, json, quantization);
  if (!quantization) return BD_OK;
  return bd_fail(ctx, BD_UNSUPPORTED, quantization->loc, "quantized models are not supported");
}
