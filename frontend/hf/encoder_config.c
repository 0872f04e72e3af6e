// BERT, RoBERTa and ViT name what they have in common alike.
#include "frontend/hf/hf.h"
#include <string.h>

// What they have where nothing is said, but for dropout.
static const bd_encoder_config usual = {.width = 768,
                                        .layers = 12,
                                        .heads = 12,
                                        .inner = 3072,
                                        .activation = BD_OP_GELU_ERF,
                                        .epsilon = 1e-12,
                                        .init_scale = 0.02,
                                        .query_bias = true};

static const char *const bert_keys[] = {"vocab_size",
                                        "hidden_size",
                                        "num_hidden_layers",
                                        "num_attention_heads",
                                        "intermediate_size",
                                        "hidden_act",
                                        "hidden_dropout_prob",
                                        "attention_probs_dropout_prob",
                                        "layer_norm_eps",
                                        "max_position_embeddings",
                                        "type_vocab_size",
                                        "position_embedding_type",
                                        "directionality",
                                        "pooler_fc_size",
                                        "pooler_type",
                                        "pooler_num_attention_heads",
                                        "pooler_num_fc_layers",
                                        "pooler_size_per_head",
                                        NULL};
static const char *const vit_keys[] = {"hidden_size",
                                       "num_hidden_layers",
                                       "num_attention_heads",
                                       "intermediate_size",
                                       "hidden_act",
                                       "hidden_dropout_prob",
                                       "attention_probs_dropout_prob",
                                       "layer_norm_eps",
                                       "image_size",
                                       "patch_size",
                                       "num_channels",
                                       "qkv_bias",
                                       "encoder_stride",
                                       "pooler_output_size",
                                       "pooler_act",
                                       NULL};

static bd_status read_encoder(bd_ctx *ctx, const bd_json *json, bd_encoder_config *c) {
  BD_TRY(bd_hf_extent(ctx, json, "hidden_size", &c->width));
  BD_TRY(bd_json_int(ctx, json, "num_hidden_layers", false, 1, BD_MAX_CONFIG_LAYERS, &c->layers));
  BD_TRY(bd_hf_extent(ctx, json, "num_attention_heads", &c->heads));
  BD_TRY(bd_hf_extent(ctx, json, "intermediate_size", &c->inner));
  BD_TRY(bd_hf_activation(ctx, json, "hidden_act", &c->activation));
  BD_TRY(bd_json_real(ctx, json, "layer_norm_eps", false, 1e-12, 1, &c->epsilon));
  BD_TRY(bd_json_real(ctx, json, "initializer_range", false, 0, 10, &c->init_scale));
  BD_TRY(bd_hf_probability(ctx, json, "hidden_dropout_prob", &c->dropout_hidden));
  c->dropout_joined = c->dropout_hidden;
  BD_TRY(bd_hf_probability(ctx, json, "attention_probs_dropout_prob", &c->dropout_attention));
  BD_TRY(bd_hf_refuse_true(ctx, json, "is_encoder_decoder"));
  return bd_hf_divides(ctx, json, "num_attention_heads", c->heads, "hidden_size", c->width);
}

// Relative positions would change the scores.
static bd_status refuse_relative(bd_ctx *ctx, const bd_json *json) {
  const char *kind = "absolute";
  BD_TRY(bd_json_string(ctx, json, "position_embedding_type", false, &kind));
  if (strcmp(kind, "absolute") == 0) return BD_OK;
  return bd_fail(ctx, BD_UNSUPPORTED, bd_hf_place(json, "position_embedding_type"),
                 "\"position_embedding_type\": \"%s\" is not supported (absolute)", kind);
}

// What BERT and its kin have in common, but for what `*c` has already.
static bd_status read_bert(bd_ctx *ctx, const bd_json *json, bd_bert_config *c) {
  c->encoder = usual;
  c->encoder.dropout_hidden = c->encoder.dropout_attention = 0.1;
  BD_TRY(bd_hf_only_known(ctx, json, bert_keys));
  BD_TRY(bd_hf_extent(ctx, json, "vocab_size", &c->vocabulary));
  BD_TRY(bd_hf_padding(ctx, json, c->vocabulary, &c->padding));
  BD_TRY(bd_hf_extent(ctx, json, "max_position_embeddings", &c->positions));
  BD_TRY(bd_hf_extent(ctx, json, "type_vocab_size", &c->types));
  BD_TRY(read_encoder(ctx, json, &c->encoder));
  BD_TRY(refuse_relative(ctx, json));
  BD_TRY(bd_json_bool(ctx, json, "tie_word_embeddings", false, &c->tied));
  const bd_hf_size sizes[] = {{"vocab_size", c->vocabulary},
                              {"max_position_embeddings", c->positions},
                              {"type_vocab_size", c->types},
                              {"hidden_size", c->encoder.width},
                              {"intermediate_size", c->encoder.inner},
                              {"num_hidden_layers", c->encoder.layers},
                              {"num_attention_heads", c->encoder.heads},
                              {0}};
  bd_hf_tell_defaults(ctx, json, sizes);
  return BD_OK;
}

static const bd_encoder_names block_names = {.query = "attention.self.query",
                                             .key = "attention.self.key",
                                             .value = "attention.self.value",
                                             .joined = "attention.output.dense",
                                             .up = "intermediate.dense",
                                             .down = "output.dense"};

bd_status bd_hf_bert_config(bd_ctx *ctx, const bd_json *json, bd_bert_config *out_config) {
  static const bd_bert_names names = {.embeddings = "bert.embeddings.",
                                      .blocks = "bert.encoder.layer.",
                                      .block = &block_names,
                                      .attention_norm = "attention.output.LayerNorm",
                                      .perceptron_norm = "output.LayerNorm",
                                      .transform = "cls.predictions.transform.dense",
                                      .norm = "cls.predictions.transform.LayerNorm",
                                      .bias = "cls.predictions.bias",
                                      .decoder = "cls.predictions.decoder.weight"};
  bd_bert_config c = {.vocabulary = 30522,
                      .positions = 512,
                      .types = 2,
                      .typed = true,
                      .tied = true,
                      .names = &names,
                      .stored_gain = "weight",
                      .stored_shift = "bias"};
  BD_TRY(read_bert(ctx, json, &c));
  c.head_activation = c.encoder.activation;
  *out_config = c;
  return BD_OK;
}

// Positions begin behind the row that has the number of the padding; padding, which has that one,
// is read by no one. Where all tokens are of one type, no sample tells it.
bd_status bd_hf_roberta_config(bd_ctx *ctx, const bd_json *json, const char *model_type,
                               bd_bert_config *out_config) {
  static const bd_bert_names names = {.embeddings = "roberta.embeddings.",
                                      .blocks = "roberta.encoder.layer.",
                                      .block = &block_names,
                                      .attention_norm = "attention.output.LayerNorm",
                                      .perceptron_norm = "output.LayerNorm",
                                      .transform = "lm_head.dense",
                                      .norm = "lm_head.layer_norm",
                                      .bias = "lm_head.bias",
                                      .decoder = "lm_head.decoder.weight"};
  bd_bert_config c = {.vocabulary = strcmp(model_type, "roberta") == 0 ? 50265 : 30522,
                      .positions = 512,
                      .types = 2,
                      .padding = 1,
                      .head_activation = BD_OP_GELU_ERF,
                      .tied = true,
                      .names = &names,
                      .stored_gain = "weight",
                      .stored_shift = "bias"};
  BD_TRY(read_bert(ctx, json, &c));
  c.typed = c.types > 1;
  c.unread = c.padding + 1;
  if (c.padding < 0)
    return bd_fail(ctx, BD_UNSUPPORTED, bd_hf_place(json, "pad_token_id"),
                   "\"pad_token_id\": null is not supported of a %s model, as positions are "
                   "counted from it; give the token's number",
                   model_type);
  if (c.unread >= c.positions)
    return bd_fail(ctx, BD_INVALID, bd_hf_place(json, "max_position_embeddings"),
                   "\"max_position_embeddings\": of %lld rows none is behind row %lld of "
                   "\"pad_token_id\"",
                   (long long)c.positions, (long long)c.padding);
  *out_config = c;
  return BD_OK;
}

// Transformers writes a label per class; two where nothing is said.
static bd_status read_classes(bd_ctx *ctx, const bd_json *json, int64_t *out_classes) {
  const bd_json *labels = NULL;
  BD_TRY(bd_hf_extent(ctx, json, "num_labels", out_classes));
  BD_TRY(bd_json_object(ctx, json, "id2label", false, &labels));
  if (!labels) return BD_OK;
  if (labels->count == 0)
    return bd_fail(ctx, BD_INVALID, labels->loc, "\"id2label\" names no class");
  int64_t named = (int64_t)labels->count, said = named;
  BD_TRY(bd_hf_extent(ctx, json, "num_labels", &said));
  *out_classes = named;
  if (said == named) return BD_OK;
  return bd_fail(ctx, BD_INVALID, labels->loc,
                 "\"id2label\" names %lld classes, but \"num_labels\" is %lld; leave one of them",
                 (long long)named, (long long)said);
}

bd_status bd_hf_vit_config(bd_ctx *ctx, const bd_json *json, bd_vit_config *out_config) {
  bd_vit_config c = {.size = 224, .patch = 16, .channels = 3, .classes = 2, .encoder = usual};
  BD_TRY(bd_hf_only_known(ctx, json, vit_keys));
  BD_TRY(bd_hf_extent(ctx, json, "image_size", &c.size));
  BD_TRY(bd_hf_extent(ctx, json, "patch_size", &c.patch));
  BD_TRY(bd_hf_extent(ctx, json, "num_channels", &c.channels));
  BD_TRY(bd_json_bool(ctx, json, "qkv_bias", false, &c.encoder.query_bias));
  BD_TRY(read_classes(ctx, json, &c.classes));
  BD_TRY(read_encoder(ctx, json, &c.encoder));
  BD_TRY(bd_hf_divides(ctx, json, "patch_size", c.patch, "image_size", c.size));
  const bd_hf_size sizes[] = {{"image_size", c.size},
                              {"patch_size", c.patch},
                              {"num_channels", c.channels},
                              {"hidden_size", c.encoder.width},
                              {"intermediate_size", c.encoder.inner},
                              {"num_hidden_layers", c.encoder.layers},
                              {"num_attention_heads", c.encoder.heads},
                              {0}};
  bd_hf_tell_defaults(ctx, json, sizes);
  *out_config = c;
  return BD_OK;
}
