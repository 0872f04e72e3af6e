#include "frontend/encoder.h"
#include <math.h>

// Queries, keys or values.
static bd_id project(bd_graph_build *g, bd_layer *layer, const bd_encoder *e, const char *name,
                     const char *stored, bd_id x) {
  const bd_encoder_config *c = e->config;
  int64_t head_width = c->width / c->heads;
  bd_transformer_dense dense = {
      .name = name,
      .stored = stored,
      .rule = "btc,chd->bthd",
      .in = c->width,
      .out = c->width,
      .matrix = bd_type_make(BD_F32, 3, (int64_t[]){c->width, c->heads, head_width}),
      .bias = bd_type_make(BD_F32, 2, (int64_t[]){c->heads, head_width}),
      .biased = c->query_bias,
      .scale = c->init_scale};
  return bd_transformer_apply(g, layer, &dense, x);
}

bd_id bd_encoder_attend(bd_graph_build *g, bd_layer *layer, const bd_encoder *e, bd_id x) {
  const bd_encoder_config *c = e->config;
  int64_t head_width = c->width / c->heads;
  bd_id q = project(g, layer, e, "q", e->names->query, x);
  bd_id k = project(g, layer, e, "k", e->names->key, x);
  bd_id v = project(g, layer, e, "v", e->names->value, x);
  bd_transformer_attending how = {.name = "attended",
                                  .scale = 1 / sqrt((double)head_width),
                                  .dropout = c->dropout_attention,
                                  .site = BD_SITE_ATTENTION,
                                  .hidden = e->hidden,
                                  .biases = BD_NO_ID};
  bd_transformer_dense out = {
      .name = "o",
      .stored = e->names->joined,
      .rule = "bthd,hdc->btc",
      .in = c->width,
      .out = c->width,
      .matrix = bd_type_make(BD_F32, 3, (int64_t[]){c->heads, head_width, c->width}),
      .bias = bd_type_make(BD_F32, 1, &c->width),
      .biased = true,
      .scale = c->init_scale};
  bd_id y = bd_transformer_apply(g, layer, &out, bd_transformer_attention(g, q, k, v, &how));
  return bd_graph_dropout(g, "o_dropped", y, c->dropout_joined, BD_SITE_PROJECTION);
}

bd_id bd_encoder_perceive(bd_graph_build *g, bd_layer *layer, const bd_encoder *e, bd_id x) {
  const bd_encoder_config *c = e->config;
  bd_transformer_dense up =
      bd_transformer_plain("up", e->names->up, c->width, c->inner, c->init_scale);
  bd_transformer_dense down =
      bd_transformer_plain("down", e->names->down, c->inner, c->width, c->init_scale);
  bd_id h = bd_graph_unary(g, "activated", c->activation, bd_transformer_apply(g, layer, &up, x));
  bd_id y = bd_transformer_apply(g, layer, &down, h);
  return bd_graph_dropout(g, "down_dropped", y, c->dropout_hidden, BD_SITE_PERCEPTRON);
}
