#include "frontend/transformer_parts.h"

bd_type bd_transformer_ids(int64_t sequence) {
  return bd_type_make(BD_I32, 2, (int64_t[]){BD_DIM_BATCH, sequence});
}

bd_type bd_transformer_activations(int64_t sequence, int64_t width) {
  return bd_type_make(BD_F32, 3, (int64_t[]){BD_DIM_BATCH, sequence, width});
}

bd_weight_pattern bd_transformer_vector(const char *name, const char *stored, bd_init_kind init,
                                        int64_t extent) {
  return (bd_weight_pattern){
      .name = name,
      .type = bd_type_make(BD_F32, 1, &extent),
      .storage = {.name = stored, .rank = 1, .dims = {extent}, .slice_dim = -1},
      .init = init};
}

bd_weight_pattern bd_transformer_matrix(const char *name, const char *stored, int64_t rows,
                                        int64_t columns, double scale) {
  return (bd_weight_pattern){
      .name = name,
      .type = bd_type_make(BD_F32, 2, (int64_t[]){rows, columns}),
      .storage = {.name = stored, .rank = 2, .dims = {rows, columns}, .slice_dim = -1},
      .init = BD_INIT_NORMAL,
      .init_scale = scale};
}

bd_id bd_transformer_attention(bd_graph_build *build, bd_id q, bd_id k, bd_id v, double scale,
                               double dropout, int site) {
  bd_ctx *ctx = build->ctx;
  bd_attr attrs[] = {bd_attr_real(ctx, "scale", scale), bd_attr_int(ctx, "causal", 1),
                     bd_attr_real(ctx, "dropout", dropout), bd_attr_int(ctx, "site", site)};
  int count = dropout > 0 ? 4 : 2;
  return bd_graph_op(build, "attended", BD_OP_ATTENTION, 3, (bd_id[]){q, k, v}, count, attrs);
}

void bd_transformer_loss(bd_graph_build *build, bd_id x, bd_id output_matrix, bd_id targets) {
  bd_id logits = bd_graph_contract(build, "logits", "btc,vc->btv", x, output_matrix);
  bd_id lse = bd_graph_unary(build, "lse", BD_OP_LSE, logits);
  bd_id operands[] = {logits, targets, lse};
  bd_graph_result(build, bd_graph_op(build, "loss", BD_OP_XENT, 3, operands, 0, NULL));
}

static bd_id output_matrix(bd_graph_build *build, const bd_transformer_chain *chain,
                           bd_id embedding) {
  const bd_weight_pattern *p = &chain->output;
  if (chain->tied) return embedding;
  return bd_graph_weight(build, (bd_weight){.name = p->name,
                                            .type = p->type,
                                            .storage = p->storage,
                                            .init = p->init,
                                            .init_scale = p->init_scale,
                                            .decay = true});
}

bd_id bd_transformer_main(bd_graph_build *g, const bd_transformer_chain *chain) {
  enum { OTHERS = 3 }; // operands of the head beside its weights
  int layers = (int)chain->layers;
  bd_type ids = bd_transformer_ids(chain->sequence);
  bd_id first[1 + BD_MAX_LAYER_WEIGHTS], last[OTHERS + BD_MAX_LAYER_WEIGHTS];
  first[0] = bd_graph_input(g, "tokens", BD_INPUT_TOKENS, ids);
  last[1] = bd_graph_input(g, "targets", BD_INPUT_TARGETS, ids);

  int stride = 1 + chain->block->weight_count; // the operands of one call: x, then weights
  bd_id *blocks = BD_NEW_ARRAY(g->ctx->arena, bd_id, (int64_t)layers * stride);
  bd_graph_instantiate(g, chain->embed, "", chain->stored_prefix, first + 1);
  for (int i = 0; i < layers; ++i)
    bd_graph_instantiate(g, chain->block, bd_intern_f(g->ctx, "%s%d.", chain->block_name, i),
                         bd_intern_f(g->ctx, "%s%d.", chain->stored_block, i),
                         blocks + i * stride + 1);
  bd_graph_instantiate(g, chain->head, "", chain->stored_prefix, last + 2);
  last[2 + chain->head->weight_count] = output_matrix(g, chain, first[1]);

  bd_id x = bd_graph_call(g, chain->embed->function, 1 + chain->embed->weight_count, first, "x0");
  for (int i = 0; i < layers; ++i) {
    blocks[i * stride] = x;
    x = bd_graph_call(g, chain->block->function, stride, blocks + i * stride,
                      bd_intern_f(g->ctx, "x%d", i + 1));
  }
  last[0] = x;
  return bd_graph_call(g, chain->head->function, OTHERS + chain->head->weight_count, last, "loss");
}
