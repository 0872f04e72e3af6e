// Multi-head latent attention (DeepSeek-V2, Liu et al. 2024, section 2.1): keys and values are made
// of a latent vector of the token, queries of another or of the token itself. A head of queries and
// keys has a part that is turned by its position behind one that is not; the turned part of keys is
// one for all heads. Values have a width of their own.
#include "frontend/llama.h"

typedef bd_llama_builder builder;

// Of the norms of latents, whatever the model's other norms have.
static const double latent_epsilon = 1e-6;

static int64_t query_width(const bd_llama_config *c) {
  return c->latent->plain_width + c->head_width;
}

static bd_id normalize(builder *b, bd_layer *layer, const char *name, const char *stored, bd_id x,
                       int64_t width) {
  bd_graph_build *g = &b->graph;
  bd_id gain = bd_graph_layer_weight(g, layer,
                                     bd_graph_vector(bd_intern_f(g->ctx, "%s.g", name),
                                                     bd_intern_f(g->ctx, "%s.weight", stored),
                                                     BD_INIT_ONES, width));
  bd_attr eps = bd_attr_real(g->ctx, "eps", latent_epsilon);
  return bd_graph_op(g, name, BD_OP_RMSNORM, 2, (bd_id[]){x, gain}, 1, &eps);
}

// Rows `start` .. `start` + `out` of the `rows` that what is stored as `stored` has.
typedef struct part {
  const char *name, *stored;
  int64_t in, out, start, rows;
} part;

// x times a part of a stored matrix [rows, in], plus that of the bias where the model has one.
static bd_id project(builder *b, bd_layer *layer, const part *p, bd_id x) {
  bd_graph_build *g = &b->graph;
  const char *weight = bd_intern_f(g->ctx, "%s.weight", p->stored);
  const char *bias = bd_intern_f(g->ctx, "%s.bias", p->stored);
  bd_weight_pattern pattern = bd_transformer_linear(bd_intern_f(g->ctx, "w%s", p->name), weight,
                                                    p->in, p->out, b->config->init_scale);
  if (p->out < p->rows) bd_transformer_take_rows(&pattern, weight, p->rows, p->start);
  bd_id w = bd_graph_layer_weight(g, layer, pattern);
  bd_id y = bd_graph_contract(g, p->name, "btc,cf->btf", x, w);
  if (!b->config->latent->bias) return y;
  pattern = bd_graph_vector(bd_intern_f(g->ctx, "b%s", p->name), bias, BD_INIT_ZEROS, p->out);
  if (p->out < p->rows) bd_transformer_take_rows(&pattern, bias, p->rows, p->start);
  return bd_graph_binary(g, bd_intern_f(g->ctx, "%s_biased", p->name), BD_OP_ADD, y,
                         bd_graph_layer_weight(g, layer, pattern));
}

// Heads of x: `width` of the `every` rows that each has in the stored matrix, from `start` on.
static bd_id project_heads(builder *b, bd_layer *layer, const char *name, const char *stored,
                           bd_id x, int64_t in, int64_t width, int64_t start, int64_t every) {
  bd_graph_build *g = &b->graph;
  int64_t heads = b->config->heads;
  bd_weight_pattern pattern = bd_transformer_linear(bd_intern_f(g->ctx, "w%s", name), stored, in,
                                                    heads * width, b->config->init_scale);
  if (width < every) {
    bd_transformer_take_rows(&pattern, stored, heads * every, start);
    pattern.storage.slice_size = width;
    pattern.storage.slice_every = every;
  }
  pattern.type = bd_type_make(BD_F32, 3, (int64_t[]){in, heads, width});
  return bd_graph_contract(g, name, "btc,chd->bthd", x, bd_graph_layer_weight(g, layer, pattern));
}

static bd_id make_queries(builder *b, bd_layer *layer, bd_id x) {
  const bd_llama_config *c = b->config;
  int64_t rank = c->latent->query_rank, width = query_width(c);
  const char *stored = "self_attn.q_proj.weight";
  int64_t in = c->width;
  if (rank > 0) {
    const part latent = {"q_latent", "self_attn.q_a_proj", c->width, rank, 0, rank};
    x = project(b, layer, &latent, x);
    x = normalize(b, layer, "q_norm", "self_attn.q_a_layernorm", x, rank);
    stored = "self_attn.q_b_proj.weight";
    in = rank;
  }
  bd_id q = project_heads(b, layer, "q", stored, x, in, width, 0, width);
  bd_rotary rotary = c->rotary;
  rotary.turned = c->head_width;
  rotary.last = true;
  rotary.amplitude = 0;
  return bd_transformer_rotate(&b->graph, "q_rotated", q, &rotary);
}

// What keys have turned, of all heads: turned once, with the amplitude that queries lack.
static bd_id make_turned(builder *b, bd_layer *layer, bd_id x) {
  bd_graph_build *g = &b->graph;
  const bd_llama_config *c = b->config;
  int64_t width = c->head_width, rank = c->latent->rank;
  const part turned = {"k_shared",  "self_attn.kv_a_proj_with_mqa", c->width, width, rank,
                       rank + width};
  int64_t one[] = {BD_DIM_BATCH, b->sequence, 1, width}, row[] = {BD_DIM_BATCH, b->sequence, width};
  bd_attr as_head = bd_attr_ints(g->ctx, "dims", 4, one);
  bd_attr as_row = bd_attr_ints(g->ctx, "dims", 3, row);
  bd_id k = project(b, layer, &turned, x);
  k = bd_graph_op(g, "k_head", BD_OP_RESHAPE, 1, &k, 1, &as_head);
  bd_rotary rotary = c->rotary;
  rotary.amplitude = 0;
  k = bd_transformer_rotate(g, "k_rotated", k, &rotary);
  k = bd_transformer_scale(g, "k_scaled", k, c->rotary.amplitude * c->rotary.amplitude);
  k = bd_graph_op(g, "k_row", BD_OP_RESHAPE, 1, &k, 1, &as_row);
  bd_type all = bd_type_make(BD_F32, 4, (int64_t[]){BD_DIM_BATCH, b->sequence, c->heads, width});
  return bd_graph_repeat(g, "k_turned", k, "abd->abcd", &all);
}

void bd_latent_heads(builder *b, bd_layer *layer, bd_id x, bd_id *out_q, bd_id *out_k,
                     bd_id *out_v) {
  static const char stored[] = "self_attn.kv_b_proj.weight";
  bd_graph_build *g = &b->graph;
  const bd_llama_config *c = b->config;
  int64_t rank = c->latent->rank, plain = c->latent->plain_width, values = c->latent->value_width;
  const part latent = {"kv_latent",         "self_attn.kv_a_proj_with_mqa", c->width, rank, 0,
                       rank + c->head_width};
  *out_q = make_queries(b, layer, x);
  bd_id n = project(b, layer, &latent, x);
  n = normalize(b, layer, "kv_norm", "self_attn.kv_a_layernorm", n, rank);
  bd_id keys[2];
  keys[0] = project_heads(b, layer, "k_plain", stored, n, rank, plain, 0, plain + values);
  keys[1] = make_turned(b, layer, x);
  bd_attr dim = bd_attr_int(g->ctx, "dim", 3);
  *out_k = bd_graph_op(g, "k", BD_OP_CONCAT, 2, keys, 1, &dim);
  *out_v = project_heads(b, layer, "v", stored, n, rank, values, plain, plain + values);
}
