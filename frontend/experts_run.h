// The perceptrons of a mixture of experts, each of the tokens in its places.
#ifndef BD_FRONTEND_EXPERTS_RUN_H
#define BD_FRONTEND_EXPERTS_RUN_H
#include "frontend/transformer_parts.h"
#include "ir/routing.h"

typedef struct bd_mixture {
  bd_graph_build *g;
  const bd_llama_config *config;
  int64_t sequence;
  int64_t grain; // of the rows of experts that drop no token
} bd_mixture;

const bd_expert_names *bd_mixture_names(const bd_llama_config *config);

// What they give for `placed`, [batch, expert, place, width] or, where there are rows, [batch, row,
// width]: a tensor of the same shape.
bd_id bd_mixture_run(const bd_mixture *mixture, bd_layer *layer, bd_id placed,
                     const bd_routed *routed);
#endif
