#include "frontend/encoder.h"
#include <math.h>

// Queries, keys or values.
static bd_id project(bd_graph_build *g, bd_layer *layer, const bd_encoder *e, const char *name,
                     const char *stored, bd_id x) {
  int64_t head_width = e->width / e->heads;
  bd_transformer_dense dense = {
      .name = name,
      .stored = bd_intern_f(g->ctx, "%s.%s", e->stored_attention, stored),
      .rule = "btc,chd->bthd",
      .in = e->width,
      .out = e->width,
      .matrix = bd_type_make(BD_F32, 3, (int64_t[]){e->width, e->heads, head_width}),
      .bias = bd_type_make(BD_F32, 2, (int64_t[]){e->heads, head_width}),
      .biased = e->query_bias,
      .scale = e->init_scale};
  return bd_transformer_apply(g, layer, &dense, x);
}

bd_id bd_encoder_attend(bd_graph_build *g, bd_layer *layer, const bd_encoder *e, bd_id x) {
  int64_t head_width = e->width / e->heads;
  bd_id q = project(g, layer, e, "q", "query", x);
  bd_id k = project(g, layer, e, "k", "key", x);
  bd_id v = project(g, layer, e, "v", "value", x);
  bd_transformer_attending how = {1 / sqrt((double)head_width), e->dropout_attention, false,
                                  BD_SITE_ATTENTION};
  bd_transformer_dense out = {
      .name = "o",
      .stored = "attention.output.dense",
      .rule = "bthd,hdc->btc",
      .in = e->width,
      .out = e->width,
      .matrix = bd_type_make(BD_F32, 3, (int64_t[]){e->heads, head_width, e->width}),
      .bias = bd_type_make(BD_F32, 1, &e->width),
      .biased = true,
      .scale = e->init_scale};
  bd_id y = bd_transformer_apply(g, layer, &out, bd_transformer_attention(g, q, k, v, &how));
  return bd_graph_dropout(g, "o_dropped", y, e->dropout_hidden, BD_SITE_PROJECTION);
}

bd_id bd_encoder_perceive(bd_graph_build *g, bd_layer *layer, const bd_encoder *e, bd_id x) {
  bd_transformer_dense up =
      bd_transformer_plain("up", "intermediate.dense", e->width, e->inner, e->init_scale);
  bd_transformer_dense down =
      bd_transformer_plain("down", "output.dense", e->inner, e->width, e->init_scale);
  bd_id h = bd_graph_unary(g, "activated", e->activation, bd_transformer_apply(g, layer, &up, x));
  bd_id y = bd_transformer_apply(g, layer, &down, h);
  return bd_graph_dropout(g, "down_dropped", y, e->dropout_hidden, BD_SITE_PERCEPTRON);
}
