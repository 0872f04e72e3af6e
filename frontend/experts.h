// A mixture of experts: every token goes to the few perceptrons that a router finds best for it
// (ir/routing.h has how).
#ifndef BD_FRONTEND_EXPERTS_H
#define BD_FRONTEND_EXPERTS_H
#include "frontend/transformer.h"
#include "frontend/transformer_parts.h"

// What the router did for the tokens of each sample, [batch, 2, experts], as means over the tokens
// and the model's mixtures: how many chose an expert, and the tokens' shares of it.
bd_type bd_experts_routed(const bd_llama_config *config);

// What the experts give for x [batch, sequence, width]. `out_routed` may be NULL.
bd_id bd_experts_perceive(bd_graph_build *build, bd_layer *layer, const bd_llama_config *config,
                          int64_t sequence, bd_id x, bd_id *out_routed);

// Scores [batch, sequence, experts] of the experts in the groups that each token chooses; 0 of the
// others.
bd_id bd_experts_limit(bd_graph_build *build, const bd_llama_config *config, int64_t sequence,
                       bd_id scores);

// The loss that grows as the experts' load differs, of what was routed in all layers, times its
// coefficient and the number of tokens (Switch Transformers, Fedus et al. 2021, equation 4, as
// transformers computes it: over the tokens of all layers together).
bd_id bd_experts_balance(bd_graph_build *build, const bd_llama_config *config, int64_t sequence,
                         bd_id routed);
#endif
