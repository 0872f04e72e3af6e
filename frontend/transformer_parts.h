// What the transformer families have in common: how weights are described, causal attention, the
// loss, and main, which strings the embedding, the blocks and the head together.
#ifndef BD_FRONTEND_TRANSFORMER_PARTS_H
#define BD_FRONTEND_TRANSFORMER_PARTS_H
#include "frontend/graph_build.h"

// Token numbers or targets, and what flows between blocks.
bd_type bd_transformer_ids(int64_t sequence);
bd_type bd_transformer_activations(int64_t sequence, int64_t width);

// A weight stored as it is used.
bd_weight_pattern bd_transformer_vector(const char *name, const char *stored, bd_init_kind init,
                                        int64_t extent);
bd_weight_pattern bd_transformer_matrix(const char *name, const char *stored, int64_t rows,
                                        int64_t columns, double scale);

// Causal attention over [batch, sequence, heads, width]; `site` numbers its dropout.
bd_id bd_transformer_attention(bd_graph_build *build, bd_id q, bd_id k, bd_id v, double scale,
                               double dropout, int site);

// Makes the sum of the losses of normalized activations `x` the result of the current function.
void bd_transformer_loss(bd_graph_build *build, bd_id x, bd_id output_matrix, bd_id targets);

typedef struct bd_transformer_chain {
  // embed(tokens, weights); block(x, weights); head(x, targets, weights, output matrix).
  const bd_layer *embed, *block, *head;
  int64_t layers, sequence;
  const char *block_name;    // of weights: "h" makes "h0.", "h1.", ..
  const char *stored_prefix; // of the embedding's and the head's stored names
  const char *stored_block;  // of the blocks': "h." makes "h.0.", "h.1.", ..
  bool tied;                 // the output matrix is the embedding's first weight
  bd_weight_pattern output;  // else this one
} bd_transformer_chain;

// Builds main; returns its loss.
bd_id bd_transformer_main(bd_graph_build *build, const bd_transformer_chain *chain);
#endif
