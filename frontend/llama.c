// Llama: rotary positions, RMS norm, gated perceptron or experts, grouped queries. Stored matrices
// are [out, in] and read as their transposes; the query matrix [heads * head width, C] becomes [C,
// heads, head width].
#include "frontend/llama.h"
#include "frontend/experts.h"

typedef bd_llama_builder builder;

// Attention has those before.
enum { SITE_PERCEPTRON = 3, SITE_EMBEDDING };

// A matrix used as it is stored, a row per token of the vocabulary.
static bd_weight_pattern table(const bd_llama_config *c, const char *name, const char *stored) {
  return bd_transformer_matrix(name, stored, c->vocabulary, c->width, c->init_scale);
}

static bd_id add_routed_param(builder *b) {
  return bd_graph_param(&b->graph, "routed_before", bd_experts_routed(b->config), false);
}

static void build_embed(builder *b, bd_layer *layer) {
  bd_graph_build *g = &b->graph;
  layer->function = bd_graph_function(g, "embed");
  bd_id tokens = bd_graph_param(g, "tokens", bd_transformer_ids(b->sequence), false);
  bd_id embedding =
      bd_graph_layer_weight(g, layer, table(b->config, "embedding", "embed_tokens.weight"));
  bd_id rows = bd_graph_binary(g, "rows", BD_OP_EMBED, embedding, tokens);
  rows = bd_transformer_scale(g, "scaled_rows", rows, b->config->embedding_scale);
  rows = bd_graph_dropout(g, "rows_dropped", rows, b->config->dropout_embedding, SITE_EMBEDDING);
  bd_graph_result(g, rows);
}

// Where a perceptron's matrices stand, and what its names begin with.
typedef struct perceptron {
  const char *name, *stored;
  int64_t inner;
} perceptron;

// What the matrix `name` of a perceptron and its bias are stored as.
static const char *stored_matrix(builder *b, const perceptron *p, const char *name) {
  if (b->config->ungated)
    return bd_intern_f(b->graph.ctx, "%s.c_%s", p->stored, name[0] == 'u' ? "fc" : "proj");
  return bd_intern_f(b->graph.ctx, "%s.%s_proj", p->stored, name);
}

// x times the matrix `name`, plus the bias where the model has one. `part`: of the two
// that one stored matrix has, or -1.
static bd_id apply_linear(builder *b, bd_layer *layer, const perceptron *p, const char *name,
                          int part, const char *rule, bd_id x, int64_t in, int64_t out) {
  bd_graph_build *g = &b->graph;
  const char *stored = stored_matrix(b, p, name);
  bd_weight_pattern pattern = bd_transformer_linear(bd_intern_f(g->ctx, "%s%s.w", p->name, name),
                                                    bd_intern_f(g->ctx, "%s.weight", stored), in,
                                                    out, b->config->init_scale);
  if (part >= 0) bd_transformer_take_rows(&pattern, "mlp.gate_up_proj.weight", 2 * out, part * out);
  bd_id w = bd_graph_layer_weight(g, layer, pattern);
  bd_id y = bd_graph_contract(g, bd_intern_f(g->ctx, "%s%s", p->name, name), rule, x, w);
  if (!b->config->mlp_bias) return y;
  bd_id bias = bd_graph_layer_weight(g, layer,
                                     bd_graph_vector(bd_intern_f(g->ctx, "%s%s.b", p->name, name),
                                                     bd_intern_f(g->ctx, "%s.bias", stored),
                                                     BD_INIT_ZEROS, out));
  return bd_graph_binary(g, bd_intern_f(g->ctx, "%s%s_biased", p->name, name), BD_OP_ADD, y, bias);
}

// What a perceptron gives for the normalized x.
static bd_id build_perceptron(builder *b, bd_layer *layer, const perceptron *p, bd_id n) {
  bd_graph_build *g = &b->graph;
  const bd_llama_config *c = b->config;
  bool fused = c->fused_perceptron;
  int64_t inner = p->inner;
  bd_id gate = BD_NO_ID, up;
  if (!c->ungated)
    gate = apply_linear(b, layer, p, "gate", fused ? 0 : -1, "btc,cf->btf", n, c->width, inner);
  up = apply_linear(b, layer, p, "up", fused ? 1 : -1, "btc,cf->btf", n, c->width, inner);
  bd_id h = bd_graph_unary(g, bd_intern_f(g->ctx, "%sactivated", p->name), c->activation,
                           c->ungated ? up : gate);
  if (!c->ungated)
    h = bd_graph_binary(g, bd_intern_f(g->ctx, "%sgated", p->name), BD_OP_MUL, h, up);
  return apply_linear(b, layer, p, "down", -1, "btf,fc->btc", h, inner, c->width);
}

// What the experts give, with the perceptron that all tokens have beside them.
static bd_id build_experts(builder *b, bd_layer *layer, bd_id n, bd_id *out_routed) {
  const bd_llama_config *c = b->config;
  const perceptron shared = {"shared_", "mlp.shared_experts", c->shared_inner};
  bd_id y = bd_experts_perceive(&b->graph, layer, c, b->sequence, n, out_routed);
  if (c->shared_inner == 0) return y;
  return bd_graph_binary(&b->graph, "with_shared", BD_OP_ADD, y,
                         build_perceptron(b, layer, &shared, n));
}

// How layers differ: one has no experts where others have them, or it has a window, or leaves
// positions alone.
typedef struct kind {
  bool plain, windowed, unturned;
} kind;
enum { KINDS = 8 };

static bool is_same(kind a, kind b) {
  return a.plain == b.plain && a.windowed == b.windowed && a.unturned == b.unturned;
}

static kind kind_of(const builder *b, int64_t i) {
  const bd_llama_config *c = b->config;
  bool windowed = c->window > 0 && (!c->windowed || c->windowed[i]);
  bool differs = c->window < b->sequence || c->window_rotary;
  return (kind){c->plain && c->plain[i], windowed && differs, c->unturned && c->unturned[i]};
}

// What the layers of a kind do with positions.
static void choose_positions(builder *b, kind kind) {
  const bd_llama_config *c = b->config;
  b->window = kind.windowed && c->window < b->sequence ? c->window : 0;
  b->rotary = c->rotary;
  b->unturned = kind.unturned;
  if (kind.windowed && c->window_rotary) b->rotary = *c->window_rotary;
  bool whole = b->rotary.turned == 0 || b->rotary.turned == c->head_width;
  b->amplitude = whole ? b->rotary.amplitude : 0;
  if (whole) b->rotary.amplitude = 0;
}

// `name`: of the function.
static void build_block(builder *b, bd_layer *layer, const char *name, kind kind) {
  bd_graph_build *g = &b->graph;
  const bd_llama_config *c = b->config;
  bool mixture = c->experts > 0 && !kind.plain, balanced = mixture && c->balance > 0;
  bd_id routed = BD_NO_ID, before = BD_NO_ID, n;
  choose_positions(b, kind);
  layer->function = bd_graph_function(g, name);
  bd_id x = bd_graph_param(g, "x", bd_transformer_activations(b->sequence, c->width), false);
  if (balanced) before = add_routed_param(b);
  x = bd_llama_attention(b, layer, x, &n);
  const bd_llama_norms *norms = bd_llama_norms_of(c);
  if (!c->parallel) n = bd_llama_normalize_maybe(b, layer, "norm_2", norms->perceptron_in, x);
  const perceptron own = {"", "mlp", c->experts > 0 ? c->plain_inner : c->inner};
  bd_id y = mixture ? build_experts(b, layer, n, balanced ? &routed : NULL)
                    : build_perceptron(b, layer, &own, n);
  y = bd_llama_normalize_maybe(b, layer, "y_norm", norms->perceptron_out, y);
  y = bd_graph_dropout(g, "y_dropped", y, c->dropout_residual, SITE_PERCEPTRON);
  bd_graph_result(g, bd_llama_add(b, "out", x, y));
  if (balanced) bd_graph_result(g, bd_graph_binary(g, "routed_sum", BD_OP_ADD, before, routed));
}

// Of the function; where all layers have the window, that goes without saying.
static const char *name_of(builder *b, kind kind, bool all_windowed) {
  return bd_intern_f(b->graph.ctx, "%s%s%sblock", kind.plain ? "plain_" : "",
                     kind.windowed && !all_windowed ? "window_" : "",
                     kind.unturned ? "unturned_" : "");
}

// Builds a function for each kind of layers that there are, and tells that of every layer.
static const bd_layer *const *build_blocks(builder *b) {
  bd_arena *arena = b->graph.ctx->arena;
  int64_t count = b->config->layers, windows = 0;
  const bd_layer **layers = BD_NEW_ARRAY(arena, const bd_layer *, count);
  for (int64_t i = 0; i < count; ++i)
    windows += kind_of(b, i).windowed;
  for (int k = 0; k < KINDS; ++k) {
    kind kind = {k & 2, k & 1, k & 4};
    bd_layer *built = NULL;
    for (int64_t i = 0; i < count; ++i) {
      if (!is_same(kind_of(b, i), kind)) continue;
      if (!built) {
        built = BD_NEW(arena, bd_layer);
        build_block(b, built, name_of(b, kind, windows == count), kind);
      }
      layers[i] = built;
    }
  }
  return layers;
}

// Before the first layer, nothing was routed.
static void build_start(builder *b, bd_layer *layer) {
  bd_type type = bd_experts_routed(b->config);
  layer->function = bd_graph_function(&b->graph, "start");
  bd_graph_result(&b->graph, bd_graph_fill(&b->graph, "routed", &type, 0));
}

// The output matrix is main's to choose: the embedding when tied.
static void build_head(builder *b, bd_layer *layer) {
  bd_graph_build *g = &b->graph;
  const bd_llama_config *c = b->config;
  layer->function = bd_graph_function(g, "head");
  bd_id x =
      bd_graph_param(g, "x", bd_transformer_activations(b->sequence, b->config->width), false);
  bd_id routed = c->balance > 0 ? add_routed_param(b) : BD_NO_ID;
  bd_id targets = bd_graph_param(g, "targets", bd_transformer_ids(b->sequence), false);
  bd_id n = bd_llama_normalize(b, layer, "norm", "norm", x, c->width);
  bd_id lm = bd_transformer_output_matrix(g, "lm", c->vocabulary, c->width);
  bd_id logits = bd_transformer_logits(g, n, lm);
  logits = bd_transformer_scale(g, "logits_scaled", logits, c->logit_scale);
  logits = bd_transformer_cap(g, logits, c->logit_cap);
  bd_id loss = bd_transformer_cross_entropy(g, logits, targets);
  if (c->balance > 0)
    loss = bd_graph_binary(g, "balanced_loss", BD_OP_ADD, loss,
                           bd_experts_balance(g, c, b->sequence, routed));
  bd_graph_result(g, loss);
}

static bd_status check(bd_ctx *ctx, const bd_llama_config *c, bd_loc loc) {
  if (c->heads % c->kv_heads != 0)
    return bd_fail(ctx, BD_INVALID, loc, "%lld query heads do not divide over %lld key heads",
                   (long long)c->heads, (long long)c->kv_heads);
  if (c->head_width % 2 != 0)
    return bd_fail(ctx, BD_INVALID, loc, "head width %lld is odd; rotary positions need pairs",
                   (long long)c->head_width);
  if (c->experts > 0 && c->choices > c->experts)
    return bd_fail(ctx, BD_INVALID, loc, "a token cannot have %lld of %lld experts",
                   (long long)c->choices, (long long)c->experts);
  return BD_OK;
}

bd_status bd_llama_build(bd_ctx *ctx, const char *name, const bd_llama_config *config,
                         const bd_model_options *options, bd_loc loc, bd_module **out_graph) {
  BD_TRY(check(ctx, config, loc));
  bd_llama_config chosen = *config;
  if (options->vocabulary > 0) chosen.vocabulary = options->vocabulary;
  builder b = {.graph = bd_graph_begin(ctx, name, loc), .config = &chosen};
  BD_TRY(bd_choose_sequence(ctx, options, chosen.positions, loc, &b.sequence));
  bd_layer start = {0}, embed = {0}, head = {0};
  if (chosen.balance > 0) build_start(&b, &start);
  build_embed(&b, &embed);
  const bd_layer *const *kinds = build_blocks(&b);
  build_head(&b, &head);
  bd_transformer_chain chain =
      bd_transformer_decoder(ctx, options, b.sequence, "layers", chosen.stored_prefix);
  chain.start = chosen.balance > 0 ? &start : NULL;
  chain.embed = &embed;
  chain.kinds = kinds;
  chain.is_plain = chosen.plain;
  chain.head = &head;
  chain.layers = chosen.layers;
  chain.tied = chosen.tied;
  chain.output = table(&chosen, "lm_head", "lm_head.weight");
  return bd_graph_finish(&b.graph, bd_transformer_main(&b.graph, &chain), out_graph);
}
