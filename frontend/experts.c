#include "frontend/experts.h"
#include "ir/routing.h"

typedef struct mixture {
  bd_graph_build *g;
  const bd_llama_config *config;
  int64_t sequence;
  int64_t grain; // of the rows of experts that drop no token
} mixture;

static bd_status emit(void *user, const char *name, bd_op_kind kind, int in_count, const bd_id *in,
                      int attr_count, const bd_attr *attrs, bd_id *out) {
  bd_graph_build *g = user;
  *out = bd_graph_op(g, name, kind, in_count, in, attr_count, attrs);
  return g->status;
}

static const bd_expert_names mixtral_names = {.router = "block_sparse_moe.gate.weight",
                                              .experts = "block_sparse_moe.experts.",
                                              .gate = ".w1.weight",
                                              .up = ".w3.weight",
                                              .down = ".w2.weight"};

static const bd_expert_names *names_of(const bd_llama_config *c) {
  return c->expert_names ? c->expert_names : &mixtral_names;
}

// The weights of a token's choices: their shares, which sum to 1 or are of all experts, scaled.
static bd_id weigh(const mixture *m, bd_id shares) {
  bd_graph_build *g = m->g;
  const bd_llama_config *c = m->config;
  bd_type type = bd_type_make(BD_F32, 3, (int64_t[]){BD_DIM_BATCH, m->sequence, c->choices});
  bd_attr least = bd_attr_real(g->ctx, "value", 1e-20);
  bd_attr scale = bd_attr_real(g->ctx, "value", c->share_scale);
  bd_id weights = shares;
  if (!c->raw_shares) {
    bd_id sum = bd_graph_sum(g, "chosen_sum", shares, "abc->ab");
    if (c->corrected) sum = bd_graph_op(g, "chosen_sum_kept", BD_OP_OFFSET, 1, &sum, 1, &least);
    weights = bd_graph_binary(g, "weights", BD_OP_DIV, shares,
                              bd_graph_repeat(g, "chosen_sums", sum, "ab->abc", &type));
  }
  if (c->share_scale == 0 || c->share_scale == 1) return weights;
  return bd_graph_op(g, "weights_scaled", BD_OP_SCALE, 1, &weights, 1, &scale);
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

// A matrix [in, out] of every expert, stored under a name that ends with `rest`.
static bd_id add_matrices(const mixture *m, bd_layer *layer, const char *name, const char *rest,
                          int64_t in, int64_t out) {
  bd_weight_pattern pattern =
      bd_transformer_linear(name, names_of(m->config)->experts, in, out, m->config->init_scale);
  pattern.type = bd_type_make(BD_F32, 3, (int64_t[]){m->config->experts, in, out});
  pattern.storage.stack = m->config->experts;
  pattern.storage.stack_rest = rest;
  return bd_graph_layer_weight(m->g, layer, pattern);
}

// Each expert's matrix times the tokens in its places, [batch, expert, place, ..], or, where there
// are ends, in its rows, [batch, row, ..].
static bd_id multiply(const mixture *m, const char *name, bd_id x, bd_id matrices, bd_id ends) {
  if (ends == BD_NO_ID) return bd_graph_contract(m->g, name, "bepc,ecf->bepf", x, matrices);
  bd_attr attrs[] = {bd_attr_int(m->g->ctx, "filled", m->config->choices * m->sequence),
                     bd_attr_int(m->g->ctx, "grain", m->grain)};
  return bd_graph_op(m->g, name, BD_OP_GROUPED_CONTRACT, 3, (bd_id[]){x, matrices, ends}, 2, attrs);
}

// The gated perceptrons, each of the tokens in its places: [batch, .., width].
static bd_id run_experts(const mixture *m, bd_layer *layer, bd_id placed, bd_id ends) {
  bd_graph_build *g = m->g;
  const bd_llama_config *c = m->config;
  const bd_expert_names *stored = names_of(c);
  bd_id w1 = add_matrices(m, layer, "w1", stored->gate, c->width, c->inner);
  bd_id w2 = add_matrices(m, layer, "w2", stored->down, c->inner, c->width);
  bd_id w3 = add_matrices(m, layer, "w3", stored->up, c->width, c->inner);
  bd_id gate = multiply(m, "gate", placed, w1, ends);
  bd_id up = multiply(m, "up", placed, w3, ends);
  bd_id h = bd_graph_unary(g, "activated", c->activation, gate);
  h = bd_graph_binary(g, "gated", BD_OP_MUL, h, up);
  if (ends != BD_NO_ID) return multiply(m, "down", h, w2, ends);
  return bd_graph_contract(g, "down", "bepf,efc->bepc", h, w2);
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

// The experts of each token, i64 [batch, token, choice], their weights, and the shares of all.
typedef struct choice {
  bd_id experts, weights, share;
} choice;

static choice choose(const mixture *m, bd_layer *layer, bd_id x) {
  bd_graph_build *g = m->g;
  const bd_llama_config *c = m->config;
  bd_weight_pattern router =
      bd_transformer_linear("router", names_of(c)->router, c->width, c->experts, c->init_scale);
  // Corrections are finer than what halves tell apart: shares that have some are f32.
  bd_attr attrs[] = {bd_attr_string(g->ctx, "rule", "btc,ce->bte"),
                     bd_attr_string(g->ctx, "dtype", bd_dtype_name(BD_F32))};
  bd_id in[] = {x, bd_graph_layer_weight(g, layer, router)};
  bd_id logits = bd_graph_op(g, "routing", BD_OP_CONTRACT, 2, in, c->corrected ? 2 : 1, attrs);
  bd_id share = c->corrected ? bd_graph_unary(g, "share", BD_OP_SIGMOID, logits)
                             : bd_transformer_softmax(g, logits);
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

bd_id bd_experts_perceive(bd_graph_build *g, bd_layer *layer, const bd_llama_config *c,
                          int64_t sequence, bd_id x, bd_id *out_routed) {
  mixture m = {g, c, sequence, 1};
  choice chosen = choose(&m, layer, x);
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
  bd_id made = run_experts(&m, layer, placed, routed.ends);
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
