// Attention of Llama and its kin: x is normalized, queries and keys are turned by their positions,
// and in some families each head of them is normalized before.
#include "frontend/llama.h"
#include <math.h>

enum { SITE_ATTENTION = 1, SITE_PROJECTION };

typedef bd_llama_builder builder;

bd_id bd_llama_normalize(builder *b, bd_layer *layer, const char *name, const char *stored, bd_id x,
                         int64_t width) {
  bd_graph_build *g = &b->graph;
  bool beside = b->config->gains_beside_one;
  if (b->config->layer_norms) {
    bd_transformer_norm norm = {width, b->config->epsilon, "weight", "bias"};
    return bd_transformer_normalize(g, layer, &norm, name, stored, x);
  }
  bd_id gain = bd_graph_layer_weight(g, layer,
                                     bd_graph_vector(bd_intern_f(g->ctx, "%s.g", name),
                                                     bd_intern_f(g->ctx, "%s.weight", stored),
                                                     beside ? BD_INIT_ZEROS : BD_INIT_ONES, width));
  bd_attr attrs[] = {bd_attr_real(g->ctx, "eps", b->config->epsilon),
                     bd_attr_real(g->ctx, "base", 1)};
  return bd_graph_op(g, name, BD_OP_RMSNORM, 2, (bd_id[]){x, gain}, beside ? 2 : 1, attrs);
}

bd_id bd_llama_normalize_maybe(builder *b, bd_layer *layer, const char *name, const char *stored,
                               bd_id x) {
  return stored ? bd_llama_normalize(b, layer, name, stored, x, b->config->width) : x;
}

const bd_llama_norms *bd_llama_norms_of(const bd_llama_config *c) {
  static const bd_llama_norms usual = {.attention_in = "input_layernorm",
                                       .perceptron_in = "post_attention_layernorm"};
  return c->norms ? c->norms : &usual;
}

// The first row of queries, keys or values where they are parts of one stored matrix.
static int64_t fused_start(const bd_llama_config *c, char letter) {
  int64_t before = letter == 'q' ? 0 : letter == 'k' ? c->heads : c->heads + c->kv_heads;
  return before * c->head_width;
}

// Query, key or value: x times the matrix, plus the bias where the model has one. `flat`: heads are
// no dimension of their own.
static bd_id project(builder *b, bd_layer *layer, bd_id x, char letter, int64_t heads, bool flat) {
  bd_graph_build *g = &b->graph;
  const bd_llama_config *c = b->config;
  int64_t width = heads * c->head_width;
  bd_weight_pattern pattern = bd_transformer_linear(
      bd_intern_f(g->ctx, "w%c", letter), bd_intern_f(g->ctx, "self_attn.%c_proj.weight", letter),
      c->width, width, c->init_scale);
  if (c->fused)
    bd_transformer_take_rows(&pattern, "self_attn.qkv_proj.weight",
                             (c->heads + 2 * c->kv_heads) * c->head_width, fused_start(c, letter));
  if (!flat) pattern.type = bd_type_make(BD_F32, 3, (int64_t[]){c->width, heads, c->head_width});
  bd_id w = bd_graph_layer_weight(g, layer, pattern);
  bd_id y = bd_graph_contract(g, bd_intern_f(g->ctx, "%c", letter),
                              flat ? "btc,cf->btf" : "btc,chd->bthd", x, w);
  if (!c->query_bias) return y;
  pattern =
      bd_graph_vector(bd_intern_f(g->ctx, "b%c", letter),
                      bd_intern_f(g->ctx, "self_attn.%c_proj.bias", letter), BD_INIT_ZEROS, width);
  if (!flat) pattern.type = bd_type_make(BD_F32, 2, (int64_t[]){heads, c->head_width});
  bd_id bias = bd_graph_layer_weight(g, layer, pattern);
  return bd_graph_binary(g, bd_intern_f(g->ctx, "%c_biased", letter), BD_OP_ADD, y, bias);
}

// Heads of queries or keys, each by its mean and variance and a gain of its own: a stored vector
// for each of them.
static bd_id normalize_each(builder *b, bd_layer *layer, char letter, bd_id y, int64_t heads) {
  bd_graph_build *g = &b->graph;
  int64_t width = b->config->head_width;
  bd_type row = bd_type_make(BD_F32, 1, &width);
  bd_attr eps = bd_attr_real(g->ctx, "eps", b->config->epsilon);
  bd_id in[] = {y, bd_graph_fill(g, bd_intern_f(g->ctx, "%c_ones", letter), &row, 1),
                bd_graph_fill(g, bd_intern_f(g->ctx, "%c_zeros", letter), &row, 0)};
  y = bd_graph_op(g, bd_intern_f(g->ctx, "%c_even", letter), BD_OP_LAYERNORM, 3, in, 1, &eps);
  bd_weight_pattern gains = bd_graph_vector(
      bd_intern_f(g->ctx, "%c_norm.g", letter),
      bd_intern_f(g->ctx, "self_attn.%c_layernorm.norms.", letter), BD_INIT_ONES, width);
  gains.type = bd_type_make(BD_F32, 2, (int64_t[]){heads, width});
  gains.storage.stack = heads;
  gains.storage.stack_rest = ".weight";
  return bd_graph_binary(g, bd_intern_f(g->ctx, "%c_norm", letter), BD_OP_MUL, y,
                         bd_graph_layer_weight(g, layer, gains));
}

// Query or key: projected, each head or all together normalized where the family does so, then
// turned.
static bd_id project_turned(builder *b, bd_layer *layer, bd_id x, char letter, int64_t heads) {
  bd_graph_build *g = &b->graph;
  const bd_llama_config *c = b->config;
  bool all = c->normed_projections;
  bd_id y = project(b, layer, x, letter, heads, all);
  if (c->head_gains) {
    y = normalize_each(b, layer, letter, y, heads);
  } else if (c->normed_heads || all) {
    const char *name = bd_intern_f(g->ctx, "%c_norm", letter);
    y = bd_llama_normalize(b, layer, name, bd_intern_f(g->ctx, "self_attn.%s", name), y,
                           all ? heads * c->head_width : c->head_width);
  }
  bd_attr dims =
      bd_attr_ints(g->ctx, "dims", 4, (int64_t[]){BD_DIM_BATCH, b->sequence, heads, c->head_width});
  if (all)
    y = bd_graph_op(g, bd_intern_f(g->ctx, "%c_heads", letter), BD_OP_RESHAPE, 1, &y, 1, &dims);
  if (b->unturned) return y;
  return bd_transformer_rotate(g, bd_intern_f(g->ctx, "%c_rotated", letter), y, &b->rotary);
}

// The heads of what attention gives to the model's width.
static bd_id add_output(builder *b, bd_layer *layer, bd_id attended) {
  bd_graph_build *g = &b->graph;
  const bd_llama_config *c = b->config;
  int64_t width = c->latent ? c->latent->value_width : c->head_width;
  bd_weight_pattern out = bd_transformer_linear("wo", "self_attn.o_proj.weight", c->heads * width,
                                                c->width, c->init_scale);
  out.type = bd_type_make(BD_F32, 3, (int64_t[]){c->heads, width, c->width});
  bd_id wo = bd_graph_layer_weight(g, layer, out);
  return bd_graph_contract(g, "o", "bthd,hdc->btc", attended, wo);
}

// Of scores, with what queries and keys are multiplied by where they are turned whole; those made
// of latents have that in their keys.
static double scale_of(const builder *b) {
  const bd_llama_config *c = b->config;
  double scale = c->attention_scale != 0 ? c->attention_scale : 1 / sqrt((double)c->head_width);
  double amplitude = b->amplitude;
  return amplitude > 0 && !c->latent && !b->unturned ? scale * amplitude * amplitude : scale;
}

bd_id bd_llama_add(builder *b, const char *name, bd_id x, bd_id y) {
  bd_graph_build *g = &b->graph;
  y = bd_transformer_scale(g, bd_intern_f(g->ctx, "%s_scaled", name), y, b->config->residual_scale);
  return bd_graph_binary(g, name, BD_OP_ADD, x, y);
}

bd_id bd_llama_attention(builder *b, bd_layer *layer, bd_id x, bd_id *out_read) {
  bd_graph_build *g = &b->graph;
  const bd_llama_config *c = b->config;
  const bd_llama_norms *norms = bd_llama_norms_of(c);
  bd_id n = bd_llama_normalize_maybe(b, layer, "norm_1", norms->attention_in, x), q, k, v;
  *out_read = n;
  if (c->latent) {
    bd_latent_heads(b, layer, n, &q, &k, &v);
  } else {
    q = project_turned(b, layer, n, 'q', c->heads);
    k = project_turned(b, layer, n, 'k', c->kv_heads);
    v = project(b, layer, n, 'v', c->kv_heads, false);
  }
  bd_transformer_attending how = {.name = "attended",
                                  .scale = scale_of(b),
                                  .softcap = c->score_cap,
                                  .dropout = c->dropout_attention,
                                  .causal = true,
                                  .window = b->window,
                                  .site = SITE_ATTENTION,
                                  .hidden = BD_NO_ID,
                                  .biases = BD_NO_ID,
                                  .sinks = c->sinks};
  bd_weight_pattern sinks = bd_graph_vector("sinks", "self_attn.sinks", BD_INIT_NORMAL, c->heads);
  sinks.init_scale = c->init_scale;
  if (c->sinks) how.biases = bd_graph_layer_weight(g, layer, sinks);
  bd_id attended = bd_transformer_attention(g, q, k, v, &how);
  bd_id y = add_output(b, layer, attended);
  if (c->output_bias) {
    bd_id bias = bd_graph_layer_weight(
        g, layer, bd_graph_vector("bo", "self_attn.o_proj.bias", BD_INIT_ZEROS, c->width));
    y = bd_graph_binary(g, "o_biased", BD_OP_ADD, y, bias);
  }
  y = bd_llama_normalize_maybe(b, layer, "o_norm", norms->attention_out, y);
  y = bd_graph_dropout(g, "o_dropped", y, c->dropout_residual, SITE_PROJECTION);
  return bd_llama_add(b, "middle", x, y);
}
