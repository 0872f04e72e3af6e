// GPT-2: learned positions, layer norm before each half of a block, biases everywhere. Stored
// matrices are [in, out]; the query, key and value matrices are one stored tensor [C, 3C], read
// here as three weights [C, heads, head width].
#include "frontend/graph_build.h"
#include "frontend/transformer.h"
#include <math.h>

enum { SITE_EMBEDDING, SITE_ATTENTION, SITE_PROJECTION, SITE_PERCEPTRON };

typedef struct builder {
  bd_graph_build graph;
  const bd_gpt2_config *config;
  int64_t sequence, head_width;
  double residual_scale; // of the matrices that write into the residual stream
} builder;

static bd_type f32(int rank, const int64_t *dims) {
  return bd_type_make(BD_F32, rank, dims);
}

static bd_type activations(const builder *b) {
  return f32(3, (int64_t[]){BD_DIM_BATCH, b->sequence, b->config->width});
}

static bd_weight_pattern vector(const char *name, const char *stored, bd_init_kind init,
                                int64_t extent) {
  return (bd_weight_pattern){
      .name = name,
      .type = f32(1, &extent),
      .storage = {.name = stored, .rank = 1, .dims = {extent}, .slice_dim = -1},
      .init = init};
}

static bd_weight_pattern matrix(const char *name, const char *stored, int64_t rows, int64_t columns,
                                double scale) {
  return (bd_weight_pattern){
      .name = name,
      .type = f32(2, (int64_t[]){rows, columns}),
      .storage = {.name = stored, .rank = 2, .dims = {rows, columns}, .slice_dim = -1},
      .init = BD_INIT_NORMAL,
      .init_scale = scale};
}

// Part `part` (query, key, value) of the fused matrix.
static bd_weight_pattern fused_matrix(const builder *b, const char *name, int part) {
  int64_t width = b->config->width;
  bd_weight_pattern pattern =
      matrix(name, "attn.c_attn.weight", width, 3 * width, b->config->init_scale);
  pattern.type = f32(3, (int64_t[]){width, b->config->heads, b->head_width});
  pattern.storage.slice_dim = 1;
  pattern.storage.slice_start = part * width;
  pattern.storage.slice_size = width;
  return pattern;
}

static bd_weight_pattern fused_bias(const builder *b, const char *name, int part) {
  int64_t width = b->config->width;
  bd_weight_pattern pattern = vector(name, "attn.c_attn.bias", BD_INIT_ZEROS, 3 * width);
  pattern.type = f32(2, (int64_t[]){b->config->heads, b->head_width});
  pattern.storage.slice_dim = 0;
  pattern.storage.slice_start = part * width;
  pattern.storage.slice_size = width;
  return pattern;
}

static bd_weight_pattern projection(const builder *b) {
  int64_t width = b->config->width;
  bd_weight_pattern pattern =
      matrix("c_proj.w", "attn.c_proj.weight", width, width, b->residual_scale);
  pattern.type = f32(3, (int64_t[]){b->config->heads, b->head_width, width});
  return pattern;
}

static bd_id normalize(builder *b, const char *name, bd_id x, bd_id gain, bd_id bias) {
  bd_attr eps = bd_attr_real(b->graph.ctx, "eps", b->config->epsilon);
  return bd_graph_op(&b->graph, name, BD_OP_LAYERNORM, 3, (bd_id[]){x, gain, bias}, 1, &eps);
}

static void build_embed(builder *b, bd_layer *layer) {
  bd_graph_build *g = &b->graph;
  const bd_gpt2_config *c = b->config;
  layer->function = bd_graph_function(g, "embed");
  bd_type ids = bd_type_make(BD_I32, 2, (int64_t[]){BD_DIM_BATCH, b->sequence});
  bd_id tokens = bd_graph_param(g, "tokens", ids, false);
  bd_id wte = bd_graph_layer_weight(
      g, layer, matrix("wte", "wte.weight", c->vocabulary, c->width, c->init_scale));
  bd_id wpe = bd_graph_layer_weight(
      g, layer, matrix("wpe", "wpe.weight", c->positions, c->width, c->init_scale));
  bd_id rows = bd_graph_binary(g, "rows", BD_OP_EMBED, wte, tokens);
  if (b->sequence < c->positions) {
    bd_attr attrs[] = {bd_attr_int(g->ctx, "dim", 0), bd_attr_int(g->ctx, "start", 0),
                       bd_attr_int(g->ctx, "size", b->sequence)};
    wpe = bd_graph_op(g, "positions", BD_OP_SLICE, 1, &wpe, 3, attrs);
  }
  bd_id sum = bd_graph_binary(g, "sum", BD_OP_ADD, rows, wpe);
  bd_graph_result(g, bd_graph_dropout(g, "dropped", sum, c->dropout_embedding, SITE_EMBEDDING));
}

// One of query, key, value: x times the matrix, plus the bias.
static bd_id project(builder *b, const char *name, const char *biased, bd_id x, bd_id w,
                     bd_id bias) {
  bd_id product = bd_graph_contract(&b->graph, name, "btc,chd->bthd", x, w);
  return bd_graph_binary(&b->graph, biased, BD_OP_ADD, product, bias);
}

static bd_id attend(builder *b, bd_id q, bd_id k, bd_id v) {
  bd_graph_build *g = &b->graph;
  const bd_gpt2_config *c = b->config;
  double scale = c->attention_scale != 0 ? c->attention_scale : 1 / sqrt((double)b->head_width);
  bd_attr attrs[] = {bd_attr_real(g->ctx, "scale", scale), bd_attr_int(g->ctx, "causal", 1),
                     bd_attr_real(g->ctx, "dropout", c->dropout_attention),
                     bd_attr_int(g->ctx, "site", SITE_ATTENTION)};
  int count = c->dropout_attention > 0 ? 4 : 2;
  return bd_graph_op(g, "attended", BD_OP_ATTENTION, 3, (bd_id[]){q, k, v}, count, attrs);
}

static bd_id build_attention(builder *b, bd_layer *layer, bd_id x) {
  bd_graph_build *g = &b->graph;
  const bd_gpt2_config *c = b->config;
  bd_id gain =
      bd_graph_layer_weight(g, layer, vector("ln_1.g", "ln_1.weight", BD_INIT_ONES, c->width));
  bd_id bias =
      bd_graph_layer_weight(g, layer, vector("ln_1.b", "ln_1.bias", BD_INIT_ZEROS, c->width));
  bd_id wq = bd_graph_layer_weight(g, layer, fused_matrix(b, "wq", 0));
  bd_id wk = bd_graph_layer_weight(g, layer, fused_matrix(b, "wk", 1));
  bd_id wv = bd_graph_layer_weight(g, layer, fused_matrix(b, "wv", 2));
  bd_id bq = bd_graph_layer_weight(g, layer, fused_bias(b, "bq", 0));
  bd_id bk = bd_graph_layer_weight(g, layer, fused_bias(b, "bk", 1));
  bd_id bv = bd_graph_layer_weight(g, layer, fused_bias(b, "bv", 2));
  bd_id wo = bd_graph_layer_weight(g, layer, projection(b));
  bd_id bo = bd_graph_layer_weight(g, layer,
                                   vector("c_proj.b", "attn.c_proj.bias", BD_INIT_ZEROS, c->width));
  bd_id n = normalize(b, "ln_1", x, gain, bias);
  bd_id q = project(b, "q_product", "q", n, wq, bq);
  bd_id k = project(b, "k_product", "k", n, wk, bk);
  bd_id v = project(b, "v_product", "v", n, wv, bv);
  bd_id attended = attend(b, q, k, v);
  bd_id product = bd_graph_contract(g, "c_proj_product", "bthd,hdc->btc", attended, wo);
  bd_id y = bd_graph_binary(g, "c_proj", BD_OP_ADD, product, bo);
  y = bd_graph_dropout(g, "c_proj_dropped", y, c->dropout_residual, SITE_PROJECTION);
  return bd_graph_binary(g, "middle", BD_OP_ADD, x, y);
}

static bd_id build_perceptron(builder *b, bd_layer *layer, bd_id x) {
  bd_graph_build *g = &b->graph;
  const bd_gpt2_config *c = b->config;
  bd_id gain =
      bd_graph_layer_weight(g, layer, vector("ln_2.g", "ln_2.weight", BD_INIT_ONES, c->width));
  bd_id bias =
      bd_graph_layer_weight(g, layer, vector("ln_2.b", "ln_2.bias", BD_INIT_ZEROS, c->width));
  bd_id w1 = bd_graph_layer_weight(
      g, layer, matrix("c_fc.w", "mlp.c_fc.weight", c->width, c->inner, c->init_scale));
  bd_id b1 =
      bd_graph_layer_weight(g, layer, vector("c_fc.b", "mlp.c_fc.bias", BD_INIT_ZEROS, c->inner));
  bd_id w2 = bd_graph_layer_weight(
      g, layer, matrix("mlp.w", "mlp.c_proj.weight", c->inner, c->width, b->residual_scale));
  bd_id b2 =
      bd_graph_layer_weight(g, layer, vector("mlp.b", "mlp.c_proj.bias", BD_INIT_ZEROS, c->width));
  bd_id n = normalize(b, "ln_2", x, gain, bias);
  bd_id h = bd_graph_contract(g, "c_fc_product", "btc,cf->btf", n, w1);
  h = bd_graph_binary(g, "c_fc", BD_OP_ADD, h, b1);
  h = bd_graph_unary(g, "activated", c->activation, h);
  bd_id y = bd_graph_contract(g, "mlp_product", "btf,fc->btc", h, w2);
  y = bd_graph_binary(g, "mlp", BD_OP_ADD, y, b2);
  y = bd_graph_dropout(g, "mlp_dropped", y, c->dropout_residual, SITE_PERCEPTRON);
  return bd_graph_binary(g, "out", BD_OP_ADD, x, y);
}

static void build_block(builder *b, bd_layer *layer) {
  layer->function = bd_graph_function(&b->graph, "block");
  bd_id x = bd_graph_param(&b->graph, "x", activations(b), false);
  x = build_attention(b, layer, x);
  bd_graph_result(&b->graph, build_perceptron(b, layer, x));
}

// A tied output matrix is not the head's own: main passes the embedding.
static void build_head(builder *b, bd_layer *layer) {
  bd_graph_build *g = &b->graph;
  const bd_gpt2_config *c = b->config;
  layer->function = bd_graph_function(g, "head");
  bd_id x = bd_graph_param(g, "x", activations(b), false);
  bd_type ids = bd_type_make(BD_I32, 2, (int64_t[]){BD_DIM_BATCH, b->sequence});
  bd_id targets = bd_graph_param(g, "targets", ids, false);
  bd_id gain =
      bd_graph_layer_weight(g, layer, vector("ln_f.g", "ln_f.weight", BD_INIT_ONES, c->width));
  bd_id bias =
      bd_graph_layer_weight(g, layer, vector("ln_f.b", "ln_f.bias", BD_INIT_ZEROS, c->width));
  bd_id lm = bd_graph_param(g, "lm", f32(2, (int64_t[]){c->vocabulary, c->width}), true);
  bd_id n = normalize(b, "ln_f", x, gain, bias);
  bd_id logits = bd_graph_contract(g, "logits", "btc,vc->btv", n, lm);
  bd_id lse = bd_graph_unary(g, "lse", BD_OP_LSE, logits);
  bd_graph_result(g,
                  bd_graph_op(g, "loss", BD_OP_XENT, 3, (bd_id[]){logits, targets, lse}, 0, NULL));
}

static bd_id output_matrix(builder *b, bd_id wte) {
  const bd_gpt2_config *c = b->config;
  if (c->tied) return wte;
  bd_weight_pattern p = matrix("lm_head", "lm_head.weight", c->vocabulary, c->width, c->init_scale);
  return bd_graph_weight(&b->graph, (bd_weight){.name = p.name,
                                                .type = p.type,
                                                .storage = p.storage,
                                                .init = p.init,
                                                .init_scale = p.init_scale,
                                                .decay = true});
}

static bd_id build_main(builder *b, const bd_layer *embed, const bd_layer *block,
                        const bd_layer *head) {
  bd_graph_build *g = &b->graph;
  int layers = (int)b->config->layers;
  const char *stored = b->config->stored_prefix;
  bd_type ids = bd_type_make(BD_I32, 2, (int64_t[]){BD_DIM_BATCH, b->sequence});
  bd_id tokens = bd_graph_input(g, "tokens", BD_INPUT_TOKENS, ids);
  bd_id targets = bd_graph_input(g, "targets", BD_INPUT_TARGETS, ids);

  int stride = 1 + block->weight_count; // the operands of one call: x, then weights
  bd_id *blocks = BD_NEW_ARRAY(g->ctx->arena, bd_id, (int64_t)layers * stride);
  bd_id first[3] = {tokens}, last[5] = {BD_NO_ID, targets};
  bd_graph_instantiate(g, embed, "", stored, first + 1);
  for (int i = 0; i < layers; ++i)
    bd_graph_instantiate(g, block, bd_intern_f(g->ctx, "h%d.", i),
                         bd_intern_f(g->ctx, "%sh.%d.", stored, i), blocks + i * stride + 1);
  bd_graph_instantiate(g, head, "", stored, last + 2);
  last[4] = output_matrix(b, first[1]);

  bd_id x = bd_graph_call(g, embed->function, 3, first, "x0");
  for (int i = 0; i < layers; ++i) {
    blocks[i * stride] = x;
    x = bd_graph_call(g, block->function, stride, blocks + i * stride,
                      bd_intern_f(g->ctx, "x%d", i + 1));
  }
  last[0] = x;
  return bd_graph_call(g, head->function, 5, last, "loss");
}

static bd_status check(bd_ctx *ctx, const bd_gpt2_config *c, bd_loc loc) {
  if (c->width % c->heads != 0)
    return bd_fail(ctx, BD_INVALID, loc, "width %lld is not a multiple of %lld heads",
                   (long long)c->width, (long long)c->heads);
  return BD_OK;
}

bd_status bd_gpt2_build(bd_ctx *ctx, const char *name, const bd_gpt2_config *config,
                        const bd_model_options *options, bd_loc loc, bd_module **out_graph) {
  BD_TRY(check(ctx, config, loc));
  bd_gpt2_config chosen = *config;
  if (options->vocabulary > 0) chosen.vocabulary = options->vocabulary;
  builder b = {.graph = bd_graph_begin(ctx, name, loc),
               .config = &chosen,
               .head_width = chosen.width / chosen.heads,
               .residual_scale = chosen.init_scale / sqrt(2 * (double)chosen.layers)};
  BD_TRY(bd_choose_sequence(ctx, options, chosen.positions, loc, &b.sequence));
  bd_layer embed = {0}, block = {0}, head = {0};
  build_embed(&b, &embed);
  build_block(&b, &block);
  build_head(&b, &head);
  bd_id loss = build_main(&b, &embed, &block, &head);
  return bd_graph_finish(&b.graph, loss, out_graph);
}
