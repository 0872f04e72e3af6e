#include "frontend/experts.h"
#include "frontend/experts_run.h"

typedef bd_mixture mixture;

static bd_status emit(void *user, const char *name, bd_op_kind kind, int in_count, const bd_id *in,
                      int attr_count, const bd_attr *attrs, bd_id *out) {
  bd_graph_build *g = user;
  *out = bd_graph_op(g, name, kind, in_count, in, attr_count, attrs);
  return g->status;
}

// The weights of a token's choices: their shares, which sum to 1 or are of all experts, scaled.
static bd_id weigh(const mixture *m, bd_id shares) {
  bd_graph_build *g = m->g;
  const bd_llama_config *c = m->config;
  bd_type type = bd_type_make(BD_F32, 3, (int64_t[]){BD_DIM_BATCH, m->sequence, c->choices});
  bd_attr least = bd_attr_real(g->ctx, "value", 1e-20);
  bd_id weights = shares;
  if (!c->raw_shares) {
    bd_id sum = bd_graph_sum(g, "chosen_sum", shares, "abc->ab");
    if (c->corrected) sum = bd_graph_op(g, "chosen_sum_kept", BD_OP_OFFSET, 1, &sum, 1, &least);
    weights = bd_graph_binary(g, "weights", BD_OP_DIV, shares,
                              bd_graph_repeat(g, "chosen_sums", sum, "ab->abc", &type));
  }
  return bd_transformer_scale(g, "weights_scaled", weights, c->share_scale);
}

// See bd_experts_routed.
static bd_id tell_routed(const mixture *m, bd_id mark, bd_id share) {
  bd_graph_build *g = m->g;
  int64_t mixtures = m->config->layers - m->config->plain_layers;
  bd_attr each = bd_attr_real(g->ctx, "value", 1 / ((double)mixtures * (double)m->sequence));
  bd_type type = bd_type_make(BD_F32, 3, (int64_t[]){BD_DIM_BATCH, 1, m->config->experts});
  bd_attr dims = bd_attr_ints(g->ctx, "dims", type.rank, type.dims);
  bd_attr along = bd_attr_int(g->ctx, "dim", 1);
  bd_id load =
      bd_graph_sum(g, "load", bd_graph_sum(g, "load_by_choice", mark, "abcd->abd"), "abc->ac");
  load = bd_graph_cast(g, "load_real", load, BD_F32);
  load = bd_graph_op(g, "load_mean", BD_OP_SCALE, 1, &load, 1, &each);
  bd_id shares = bd_graph_sum(g, "share_sum", share, "abc->ac");
  shares = bd_graph_op(g, "share_mean", BD_OP_SCALE, 1, &shares, 1, &each);
  bd_id both[] = {bd_graph_op(g, "load_row", BD_OP_RESHAPE, 1, &load, 1, &dims),
                  bd_graph_op(g, "share_row", BD_OP_RESHAPE, 1, &shares, 1, &dims)};
  return bd_graph_op(g, "routed", BD_OP_CONCAT, 2, both, 1, &along);
}

// What experts make for the tokens in their places.
static bd_type made_type(const mixture *m, const bd_routing *routing) {
  int64_t width = m->config->width;
  if (routing->capacity == 0)
    return bd_type_make(BD_F32, 3, (int64_t[]){BD_DIM_BATCH, bd_routing_rows(routing), width});
  return bd_type_make(BD_F32, 4,
                      (int64_t[]){BD_DIM_BATCH, routing->experts, routing->capacity, width});
}

bd_type bd_experts_routed(const bd_llama_config *c) {
  return bd_type_make(BD_F32, 3, (int64_t[]){BD_DIM_BATCH, 2, c->experts});
}

// What a token scores each expert with.
static bd_id score(const mixture *m, bd_layer *layer, bd_id x) {
  bd_graph_build *g = m->g;
  const bd_llama_config *c = m->config;
  const bd_expert_names *stored = bd_mixture_names(c);
  bd_weight_pattern router =
      bd_transformer_linear("router", stored->router, c->width, c->experts, c->init_scale);
  // Corrections are finer than what halves tell apart: shares that have some are f32.
  bd_attr attrs[] = {bd_attr_string(g->ctx, "rule", "btc,ce->bte"),
                     bd_attr_string(g->ctx, "dtype", bd_dtype_name(BD_F32))};
  bd_id in[] = {x, bd_graph_layer_weight(g, layer, router)};
  bd_id scores = bd_graph_op(g, "routing", BD_OP_CONTRACT, 2, in, c->corrected ? 2 : 1, attrs);
  if (!stored->router_bias) return scores;
  bd_weight_pattern bias =
      bd_graph_vector("router.b", stored->router_bias, BD_INIT_NORMAL, c->experts);
  bias.init_scale = c->init_scale;
  return bd_graph_binary(g, "routing_biased", BD_OP_ADD, scores,
                         bd_graph_layer_weight(g, layer, bias));
}

// What a token chooses experts by: their shares, with the correction, and limited to groups, where
// the model has these.
static bd_id rate_experts(const mixture *m, bd_layer *layer, bd_id share) {
  bd_graph_build *g = m->g;
  const bd_llama_config *c = m->config;
  bd_id rates = share;
  if (c->corrected) {
    bd_weight_pattern correction = bd_graph_vector("correction", "mlp.gate.e_score_correction_bias",
                                                   BD_INIT_ZEROS, c->experts);
    rates = bd_graph_binary(g, "corrected", BD_OP_ADD, rates,
                            bd_graph_layer_weight(g, layer, correction));
  }
  return c->groups > 0 ? bd_experts_limit(g, c, m->sequence, rates) : rates;
}

// The softmax of the weights of a token's experts, [batch, token, choice], with 0 for those of all
// that it did not choose.
static bd_id spread(const mixture *m, bd_id chosen, bd_id weights) {
  bd_graph_build *g = m->g;
  bd_type type =
      bd_type_make(BD_F32, 3, (int64_t[]){BD_DIM_BATCH, m->sequence, m->config->experts});
  bd_attr attrs[] = {bd_attr_int(g->ctx, "dim", 2), bd_attr_int(g->ctx, "batch", 2)};
  bd_id in[] = {bd_graph_fill(g, "unchosen", &type, 0), chosen, weights};
  return bd_transformer_softmax(g, "", bd_graph_op(g, "spread", BD_OP_SCATTER, 3, in, 2, attrs));
}

// The experts of each token, i64 [batch, token, choice], what they weigh, and the token's shares of
// all, by which the load is balanced.
typedef struct choice {
  bd_id experts, weights, share;
} choice;

// By shares of all experts.
static choice choose_by_share(const mixture *m, bd_layer *layer, bd_id scores) {
  bd_graph_build *g = m->g;
  const bd_llama_config *c = m->config;
  bd_id share = c->corrected ? bd_graph_unary(g, "share", BD_OP_SIGMOID, scores)
                             : bd_transformer_softmax(g, "", scores);
  bd_attr k = bd_attr_int(g->ctx, "k", c->choices);
  bd_attr by_token[] = {bd_attr_int(g->ctx, "dim", 2), bd_attr_int(g->ctx, "batch", 2)};
  bd_id rates = rate_experts(m, layer, share);
  bd_id best = bd_graph_op(g, "best", BD_OP_TOPK, 1, &rates, 1, &k);
  if (g->status != BD_OK) return (choice){BD_NO_ID, BD_NO_ID, BD_NO_ID};
  bd_id shares = best;
  if (c->corrected)
    shares =
        bd_graph_op(g, "chosen_share", BD_OP_GATHER, 2, (bd_id[]){share, best + 1}, 2, by_token);
  return (choice){best + 1, weigh(m, shares), share};
}

// By scores; shares are of those chosen.
static choice choose_by_score(const mixture *m, bd_id scores, bool balanced) {
  bd_graph_build *g = m->g;
  bd_attr k = bd_attr_int(g->ctx, "k", m->config->choices);
  bd_id best = bd_graph_op(g, "best", BD_OP_TOPK, 1, &scores, 1, &k);
  if (g->status != BD_OK) return (choice){BD_NO_ID, BD_NO_ID, BD_NO_ID};
  bd_id weights = bd_transformer_softmax(g, "chosen_", best);
  return (choice){best + 1, weights, balanced ? spread(m, best + 1, weights) : BD_NO_ID};
}

bd_id bd_experts_perceive(bd_graph_build *g, bd_layer *layer, const bd_llama_config *c,
                          int64_t sequence, bd_id x, bd_id *out_routed) {
  mixture m = {g, c, sequence, 1};
  bd_id scores = score(&m, layer, x);
  choice chosen = c->balance_weights ? choose_by_score(&m, scores, out_routed != NULL)
                                     : choose_by_share(&m, layer, scores);
  // No more tokens of a sample can choose an expert than it has.
  bd_routing routing = {.ctx = g->ctx,
                        .emit = emit,
                        .user = g,
                        .sequence = sequence,
                        .experts = c->experts,
                        .choices = c->choices,
                        .capacity = c->capacity < sequence ? c->capacity : sequence};
  m.grain = bd_routing_grain(&routing);
  bd_routed routed;
  if (bd_routing_emit(&routing, chosen.experts, chosen.weights, &routed) != BD_OK) return BD_NO_ID;
  if (out_routed) *out_routed = tell_routed(&m, routed.mark, chosen.share);
  bd_id placed, combined;
  if (bd_routing_place(&routing, &routed, x, &placed) != BD_OK) return BD_NO_ID;
  bd_id made = bd_mixture_run(&m, layer, placed, &routed);
  bd_type type = made_type(&m, &routing);
  return bd_routing_return(&routing, &routed, &type, made, &combined) == BD_OK ? combined
                                                                               : BD_NO_ID;
}

bd_id bd_experts_balance(bd_graph_build *g, const bd_llama_config *c, int64_t sequence,
                         bd_id routed) {
  bd_type one = bd_type_make(BD_F32, 1, (int64_t[]){BD_DIM_BATCH});
  bd_type row = bd_type_make(BD_F32, 2, (int64_t[]){1, c->experts});
  bd_id all = bd_graph_sum(g, "routed_all", routed, "abc->bc");
  bd_id samples = bd_graph_sum(g, "samples", bd_graph_fill(g, "each", &one, 1), "a->");
  // Of means the product is a half whatever is routed.
  bd_id mean = bd_graph_binary(g, "share_mean_all", BD_OP_DIV,
                               bd_transformer_slice(g, "share_all", all, 0, 1, 1),
                               bd_graph_repeat(g, "samples_each", samples, "->ab", &row));
  bd_id product = bd_graph_binary(g, "balance_product", BD_OP_MUL,
                                  bd_transformer_slice(g, "chosen_all", all, 0, 0, 1), mean);
  bd_id sum = bd_graph_sum(g, "balance_sum", product, "ab->");
  bd_attr value = bd_attr_real(g->ctx, "value", c->balance * (double)c->experts * (double)sequence);
  return bd_graph_op(g, "balance", BD_OP_SCALE, 1, &sum, 1, &value);
}
