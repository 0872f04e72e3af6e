// What builds Llama's blocks, and their first half.
#ifndef BD_FRONTEND_LLAMA_H
#define BD_FRONTEND_LLAMA_H
#include "frontend/transformer.h"
#include "frontend/transformer_parts.h"

typedef struct bd_llama_builder {
  bd_graph_build graph;
  const bd_llama_config *config;
  int64_t sequence;
  // Of the layer that is built:
  int64_t window; // 0: none
  bd_rotary rotary;
  double amplitude; // of queries and keys, which scores have and `rotary` has not; 0: 1
  bool unturned;
} bd_llama_builder;

// Normalization over the last dimension of x, `width` wide: by the root mean square and the gain
// that is stored as `stored`.weight, or 1 and that; or a layer norm, with `stored`.bias.
bd_id bd_llama_normalize(bd_llama_builder *builder, bd_layer *layer, const char *name,
                         const char *stored, bd_id x, int64_t width);

// Queries, keys and values [batch, sequence, heads, width] of x, made of latents.
void bd_latent_heads(bd_llama_builder *builder, bd_layer *layer, bd_id x, bd_id *out_q,
                     bd_id *out_k, bd_id *out_v);

// x, or where the family has the norm that is stored as `stored`, x normalized.
bd_id bd_llama_normalize_maybe(bd_llama_builder *builder, bd_layer *layer, const char *name,
                               const char *stored, bd_id x);
const bd_llama_norms *bd_llama_norms_of(const bd_llama_config *config);

// x and what a half of a layer adds to it.
bd_id bd_llama_add(bd_llama_builder *builder, const char *name, bd_id x, bd_id y);

// x [batch, sequence, width] and what attention adds to it; `*out_read` is x as attention reads it.
bd_id bd_llama_attention(bd_llama_builder *builder, bd_layer *layer, bd_id x, bd_id *out_read);
#endif
