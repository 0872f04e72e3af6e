// Gemma 2 and 3.
#include "frontend/hf/llama_config.h"
#include "frontend/hf/rope_config.h"
#include <math.h>

// Of so many layers one has no window; of Gemma 3 where the configuration does not say.
enum { GEMMA2_PATTERN = 2, GEMMA3_PATTERN = 6 };

const char *const bd_hf_gemma2_keys[] = {"head_dim",
                                         "hidden_activation",
                                         "attention_bias",
                                         "use_bidirectional_attention",
                                         "query_pre_attn_scalar",
                                         "sliding_window",
                                         "sliding_window_size",
                                         "layer_types",
                                         "final_logit_softcapping",
                                         "attn_logit_softcapping",
                                         NULL};

const char *const bd_hf_gemma3_keys[] = {"head_dim",
                                         "hidden_activation",
                                         "attention_bias",
                                         "use_bidirectional_attention",
                                         "query_pre_attn_scalar",
                                         "sliding_window",
                                         "sliding_window_pattern",
                                         "layer_types",
                                         "rope_local_base_freq",
                                         "final_logit_softcapping",
                                         "attn_logit_softcapping",
                                         NULL};

// transformers computes with `hidden_activation`, and passes `hidden_act` over.
static bd_status read_activation(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  bd_op_kind other = c->activation;
  const bd_json *said = bd_json_given(json, "hidden_act");
  c->activation = BD_OP_GELU;
  BD_TRY(bd_hf_activation(ctx, json, "hidden_activation", &c->activation));
  if (!said || other == c->activation) return BD_OK;
  const bd_json *counts = bd_json_given(json, "hidden_activation");
  return bd_fail(ctx, BD_INVALID, said->loc,
                 "\"hidden_act\" is %s, but \"hidden_activation\", with which transformers "
                 "computes, is %s: leave \"hidden_act\" out, or say in \"hidden_activation\" what "
                 "is meant",
                 bd_json_describe(ctx, said),
                 counts ? bd_json_describe(ctx, counts) : "left out and so \"gelu_pytorch_tanh\"");
}

// What Gemma 2 and 3 have in common: norms before and behind both halves of a layer.
static bd_status read_sandwiched(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  static const bd_llama_norms norms = {.attention_in = "input_layernorm",
                                       .attention_out = "post_attention_layernorm",
                                       .perceptron_in = "pre_feedforward_layernorm",
                                       .perceptron_out = "post_feedforward_layernorm"};
  double scalar = 256;
  c->norms = &norms;
  c->gains_beside_one = true;
  c->embedding_scale = sqrt((double)c->width);
  BD_TRY(bd_hf_refuse_true(ctx, json, "use_bidirectional_attention"));
  BD_TRY(read_activation(ctx, json, c));
  BD_TRY(bd_json_bool(ctx, json, "attention_bias", false, &c->query_bias));
  c->output_bias = c->query_bias;
  BD_TRY(bd_json_real(ctx, json, "query_pre_attn_scalar", false, 1e-6, 1e12, &scalar));
  c->attention_scale = 1 / sqrt(scalar);
  return bd_hf_cap(ctx, json, "final_logit_softcapping", &c->logit_cap);
}

// Older folders call the window `sliding_window_size`.
bd_status bd_hf_read_gemma2(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  c->score_cap = 50;
  c->logit_cap = 30;
  BD_TRY(bd_hf_agree_keys(ctx, json, "sliding_window", "sliding_window_size"));
  BD_TRY(read_sandwiched(ctx, json, c));
  BD_TRY(bd_hf_cap(ctx, json, "attn_logit_softcapping", &c->score_cap));
  return bd_hf_window_of_most(ctx, json, GEMMA2_PATTERN, c);
}

// transformers reads `attn_logit_softcapping` and computes without it.
static bd_status refuse_unread(bd_ctx *ctx, const bd_json *json) {
  const bd_json *cap = bd_json_given(json, "attn_logit_softcapping");
  if (!cap) return BD_OK;
  return bd_fail(ctx, BD_UNSUPPORTED, cap->loc,
                 "\"attn_logit_softcapping\" is not supported of a gemma3_text model: "
                 "transformers computes without it; make it null to train that");
}

// Layers with a window have positions of their own.
static bd_status read_window_rotary(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  const bd_hf_rotary_family family = {.theta = "rope_local_base_freq",
                                      .layers = "sliding_attention",
                                      .apart = true,
                                      .share = "partial_rotary_factor",
                                      .usual_share = 1,
                                      .whole = true,
                                      .positions = c->positions};
  bd_rotary *rotary = BD_NEW(ctx->arena, bd_rotary);
  rotary->theta = 10000;
  c->window_rotary = rotary;
  return bd_hf_rotary_read(ctx, json, &family, c->head_width, rotary);
}

bd_status bd_hf_read_gemma3(bd_ctx *ctx, const bd_json *json, bd_llama_config *c) {
  c->normed_heads = true;
  BD_TRY(refuse_unread(ctx, json));
  BD_TRY(read_sandwiched(ctx, json, c));
  BD_TRY(read_window_rotary(ctx, json, c));
  return bd_hf_window_of_most(ctx, json, GEMMA3_PATTERN, c);
}
