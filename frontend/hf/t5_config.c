#include "frontend/hf/hf.h"
#include "frontend/relative.h"
#include <string.h>

static const char *const keys[] = {"vocab_size",
                                   "d_model",
                                   "d_kv",
                                   "d_ff",
                                   "num_layers",
                                   "num_decoder_layers",
                                   "num_heads",
                                   "relative_attention_num_buckets",
                                   "relative_attention_max_distance",
                                   "dropout_rate",
                                   "layer_norm_epsilon",
                                   "initializer_factor",
                                   "feed_forward_proj",
                                   "dense_act_fn",
                                   "is_gated_act",
                                   "scale_decoder_outputs",
                                   "n_positions",
                                   NULL};

static bd_status read_sizes(bd_ctx *ctx, const bd_json *json, bd_t5_config *c) {
  BD_TRY(bd_hf_extent(ctx, json, "vocab_size", &c->vocabulary));
  BD_TRY(bd_hf_extent(ctx, json, "n_positions", &c->positions));
  BD_TRY(bd_hf_extent(ctx, json, "d_model", &c->width));
  BD_TRY(bd_hf_extent(ctx, json, "d_kv", &c->head_width));
  BD_TRY(bd_hf_extent(ctx, json, "d_ff", &c->inner));
  BD_TRY(bd_hf_extent(ctx, json, "num_heads", &c->heads));
  BD_TRY(bd_json_int(ctx, json, "num_layers", false, 1, BD_MAX_CONFIG_LAYERS, &c->encoder_layers));
  c->decoder_layers = c->encoder_layers;
  BD_TRY(bd_json_int(ctx, json, "num_decoder_layers", false, 1, BD_MAX_CONFIG_LAYERS,
                     &c->decoder_layers));
  const bd_hf_size sizes[] = {{"vocab_size", c->vocabulary},
                              {"d_model", c->width},
                              {"d_kv", c->head_width},
                              {"d_ff", c->inner},
                              {"num_layers", c->encoder_layers},
                              {"num_heads", c->heads},
                              {0}};
  bd_hf_tell_defaults(ctx, json, sizes);
  return BD_OK;
}

static bd_status read_positions(bd_ctx *ctx, const bd_json *json, bd_t5_config *c) {
  BD_TRY(bd_json_int(ctx, json, "relative_attention_num_buckets", false, 4, 1024, &c->buckets));
  BD_TRY(bd_json_int(ctx, json, "relative_attention_max_distance", false, 1, BD_MAX_CONFIG_EXTENT,
                     &c->distance));
  bd_relative causal = {.buckets = c->buckets, .distance = c->distance, .causal = true};
  if (c->buckets % 2 == 0 && bd_relative_is_sound(&causal)) return BD_OK;
  return bd_fail(ctx, BD_INVALID, bd_hf_place(json, "relative_attention_num_buckets"),
                 "\"relative_attention_num_buckets\": %lld must be even and less than twice "
                 "\"relative_attention_max_distance\" %lld",
                 (long long)c->buckets, (long long)c->distance);
}

// What transformers writes beside feed_forward_proj, and takes before it.
static bd_status check_perceptron(bd_ctx *ctx, const bd_json *json, const bd_t5_config *c) {
  bd_op_kind activation = c->activation;
  bool gated = c->gated;
  BD_TRY(bd_hf_activation(ctx, json, "dense_act_fn", &activation));
  BD_TRY(bd_json_bool(ctx, json, "is_gated_act", false, &gated));
  if (activation == c->activation && gated == c->gated) return BD_OK;
  const char *key = gated == c->gated ? "dense_act_fn" : "is_gated_act";
  const bd_json *whole = bd_json_given(json, "feed_forward_proj");
  return bd_fail(ctx, BD_INVALID, bd_hf_place(json, key),
                 "\"%s\" is %s, but \"feed_forward_proj\" is %s; leave one of them", key,
                 bd_json_describe(ctx, bd_json_find(json, key)),
                 whole ? bd_json_describe(ctx, whole) : "left out and so \"relu\"");
}

// An activation, or gated- and one; gated-gelu is transformers' name for gated-gelu_new.
static bd_status read_perceptron(bd_ctx *ctx, const bd_json *json, bd_t5_config *c) {
  static const char gated[] = "gated-";
  const char *name = "relu";
  BD_TRY(bd_json_string(ctx, json, "feed_forward_proj", false, &name));
  c->gated = strncmp(name, gated, sizeof gated - 1) == 0;
  if (c->gated) name += sizeof gated - 1;
  if (c->gated && strcmp(name, "gelu") == 0) name = "gelu_new";
  if (bd_hf_find_activation(name, &c->activation)) return check_perceptron(ctx, json, c);
  return bd_fail(ctx, BD_UNSUPPORTED, bd_json_find(json, "feed_forward_proj")->loc,
                 "\"feed_forward_proj\": activation \"%s\" is not supported", name);
}

bd_status bd_hf_t5_config(bd_ctx *ctx, const bd_json *json, bd_t5_config *out_config) {
  bd_t5_config c = {.vocabulary = 32128,
                    .positions = 512,
                    .width = 512,
                    .head_width = 64,
                    .inner = 2048,
                    .encoder_layers = 6,
                    .heads = 8,
                    .buckets = 32,
                    .distance = 128,
                    .epsilon = 1e-6,
                    .dropout = 0.1,
                    .init_scale = 1,
                    .tied = true};
  bool both = true;
  BD_TRY(bd_hf_only_known(ctx, json, keys));
  BD_TRY(read_sizes(ctx, json, &c));
  BD_TRY(bd_hf_padding(ctx, json, c.vocabulary, &c.padding));
  BD_TRY(read_positions(ctx, json, &c));
  BD_TRY(read_perceptron(ctx, json, &c));
  BD_TRY(bd_json_real(ctx, json, "layer_norm_epsilon", false, 1e-12, 1, &c.epsilon));
  BD_TRY(bd_json_real(ctx, json, "initializer_factor", false, 0, 10, &c.init_scale));
  BD_TRY(bd_hf_probability(ctx, json, "dropout_rate", &c.dropout));
  BD_TRY(bd_json_bool(ctx, json, "tie_word_embeddings", false, &c.tied));
  c.scaled = c.tied; // unless it is said, as transformers 5 does
  BD_TRY(bd_json_bool(ctx, json, "scale_decoder_outputs", false, &c.scaled));
  BD_TRY(bd_json_bool(ctx, json, "is_encoder_decoder", false, &both));
  if (!both)
    return bd_fail(ctx, BD_UNSUPPORTED, bd_json_find(json, "is_encoder_decoder")->loc,
                   "\"is_encoder_decoder\": a T5 of one side is not supported");
  *out_config = c;
  return BD_OK;
}
