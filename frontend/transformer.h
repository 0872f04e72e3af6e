// The transformer families: what describes a member, and the graph it becomes.
#ifndef BD_FRONTEND_TRANSFORMER_H
#define BD_FRONTEND_TRANSFORMER_H
#include "frontend/frontend.h"

typedef struct bd_gpt2_config {
  int64_t vocabulary, positions, width, layers, heads;
  int64_t inner; // width of the multilayer perceptron
  bd_op_kind activation;
  double epsilon;
  double attention_scale; // 0: 1/sqrt(head width)
  double dropout_embedding, dropout_attention, dropout_residual;
  double init_scale;
  bool tied;                 // the output matrix is the token embedding
  const char *stored_prefix; // of every stored name but lm_head: "" or "transformer."
} bd_gpt2_config;

// Rotary frequencies stretched as Llama 3.1 does; factor 0: not stretched.
typedef struct bd_rope_stretch {
  double factor, low_frequency_factor, high_frequency_factor;
  int64_t original_positions;
} bd_rope_stretch;

// Rotary frequencies divided by a factor as YaRN does (Peng et al. 2023): those of pairs up to
// number `low` are not, those from `high` on are, and between them the share that is grows evenly.
// Factor 0: none is.
typedef struct bd_rope_ramp {
  double factor, low, high;
} bd_rope_ramp;

// What the weights of a mixture of experts are called, behind the layer's prefix: matrices of an
// expert are `experts`, its number and the rest. Or those of all experts are one tensor as they are
// used, `experts` and the rest: gate and up are [experts, in, 2 inner], whose columns take turns.
// These have biases, whose names end with `bias`, and so has the router.
typedef struct bd_expert_names {
  const char *router, *experts, *gate, *up, *down;
  bool joined;
  const char *router_bias, *bias;
} bd_expert_names;

// Rotary positions: of each head the first `turned` elements are turned, or the last; 0: all.
typedef struct bd_rotary {
  double theta;
  int64_t turned;
  bool last;
  bool interleaved; // pairs are neighbours
  bd_rope_stretch stretch;
  bd_rope_ramp ramp;
  // Frequencies divided one by one as LongRoPE does (Ding et al. 2024), those of sequences of up to
  // `near_positions` by others than those of longer ones; NULL: they are not.
  const double *near, *far;
  int64_t near_positions;
  double amplitude; // what is turned is multiplied by, of queries and of keys; 0: 1
} bd_rotary;

// Keys and values made of a latent vector of each token. Heads of queries and keys have the
// config's head width turned, behind `plain_width`.
typedef struct bd_latent {
  int64_t query_rank; // of the vector that queries are made of; 0: of the token itself
  int64_t rank;       // of keys and values
  int64_t plain_width, value_width;
  bool bias; // of the vectors
} bd_latent;

// What the norms of a layer are stored as: of what attention and the perceptron read, and of what
// they give; NULL: there is none.
typedef struct bd_llama_norms {
  const char *attention_in, *attention_out, *perceptron_in, *perceptron_out;
} bd_llama_norms;

typedef struct bd_llama_config {
  int64_t vocabulary, positions, width, layers, heads, kv_heads, head_width, inner;
  bd_op_kind activation;
  double epsilon;
  bd_rotary rotary;
  double dropout_attention, dropout_residual, init_scale;
  double dropout_embedding;
  bool tied, mlp_bias;
  bool layer_norms; // normalized by mean and variance, and shifted; else by the root mean square
  bool ungated;     // perceptrons are `mlp.c_fc`, the activation and `mlp.c_proj`
  bool fused;       // queries, keys and values are parts of one stored tensor
  bool fused_perceptron;       // and so are the gate and what it gates
  bool query_bias;             // of queries, keys and values
  bool output_bias;            // of what attention gives
  bool gains_beside_one;       // what is stored of RMS norms is what their gains have more than 1
  double embedding_scale;      // times the embedding of a token; 0: 1
  double attention_scale;      // times the products of queries and keys; 0: 1/sqrt(head width)
  double residual_scale;       // times what attention and the perceptron add; 0: 1
  double logit_scale;          // times logits; 0: 1
  double score_cap, logit_cap; // that scores and logits stay below, smoothly; 0: none
  bool sinks;                  // the softmax of each head has one, which is learned
  bool normed_heads;           // queries and keys: each head, before it is turned
  bool head_gains;             // the same by mean and variance, each head with a gain of its own
  bool normed_projections;     // queries and keys: all heads of a token together, before that
  bool parallel; // the perceptron reads what attention reads, and has no norm of its own
  const bd_llama_norms *norms; // NULL: Llama's
  const bd_latent *latent;     // NULL: queries, keys and values are made of the token
  int64_t window;              // positions up to its own that attention sees; 0: all
  const bool *unturned;        // of each layer, whether it leaves positions alone; NULL: none does
  const bool *windowed;        // of each layer, whether it has the window; NULL: all have
  const bd_rotary *window_rotary; // of layers that have it; NULL: as others
  // Of a mixture of experts, each a perceptron of width `inner`; 0: one perceptron for all tokens.
  int64_t experts;
  int64_t choices;    // experts of a token
  int64_t capacity;   // tokens of a sample that an expert takes at most; 0: all that choose it
  double balance;     // times the loss of uneven load; 0: none
  bool raw_shares;    // a token's experts weigh their shares of all experts; else of those chosen
  double share_scale; // times what they weigh; 0: 1
  // Shares are sigmoids, each of its own, and tokens choose by them and what is stored for each
  // expert, which is not trained.
  bool corrected;
  int64_t groups, chosen_groups; // of experts, that a token chooses of; 0: there are none
  int64_t shared_inner; // of a perceptron that all tokens have beside their experts; 0: none
  // The loss of uneven load takes for shares of experts the softmax of what they weigh, 0 of those
  // that are not chosen; else that of the router's scores.
  bool balance_weights;
  // Experts clamp what gate and up give, gate above and up on both sides, and give gate
  // sigmoid(`slope` gate) (up + 1) instead of activation(gate) up; 0: they do not.
  double limit, slope;
  const bd_expert_names *expert_names; // NULL: Mixtral's
  // Layers that have one perceptron for all tokens all the same, `plain_inner` wide.
  const bool *plain; // of each layer; NULL: none has
  int64_t plain_layers, plain_inner;
  const char *stored_prefix; // of every stored name but lm_head: "model." or ""
} bd_llama_config;

typedef struct bd_neox_config {
  int64_t vocabulary, positions, width, layers, heads, inner;
  bd_op_kind activation;
  double epsilon;
  bd_rotary rotary;
  double dropout_attention, dropout_hidden, init_scale;
  bool attention_bias;       // of queries, keys, values and what attention gives
  bool parallel;             // attention and the perceptron read the same
  bool tied;                 // the output matrix is the embedding
  const char *stored_prefix; // of every stored name but embed_out: "gpt_neox." or ""
} bd_neox_config;

typedef struct bd_opt_config {
  int64_t vocabulary, positions, width, layers, heads, inner;
  int64_t row_width; // of the embedding
  bd_op_kind activation;
  double epsilon;
  double dropout_attention, dropout_residual, init_scale;
  bool biased;               // all matrices but those of embeddings
  bool norm_first;           // each half of a block reads what is normalized; else its sum is
  bool end_norm;             // behind the last block
  bool tied;                 // the output matrix is the embedding
  const char *stored_prefix; // of every stored name but lm_head: "model.decoder." or "decoder."
} bd_opt_config;

// The blocks of encoders as BERT and ViT have them.
typedef struct bd_encoder_config {
  int64_t width, layers, heads, inner;
  bd_op_kind activation;
  double epsilon;
  double dropout_hidden, dropout_attention;
  double dropout_joined; // of what attention gives
  double init_scale;
  bool query_bias; // of queries, keys and values
} bd_encoder_config;

// What the matrices of an encoder's block are stored as, without the end of their names: those of
// attention, and of the perceptron.
typedef struct bd_encoder_names {
  const char *query, *key, *value, *joined;
  const char *up, *down;
} bd_encoder_names;

// The same of BERT and its kin: what tables and blocks begin with, the norms of a block, and the
// head, whose bias and output matrix have their whole names.
typedef struct bd_bert_names {
  const char *embeddings, *blocks;
  const bd_encoder_names *block;
  const char *attention_norm, *perceptron_norm;
  const char *transform, *norm, *bias, *decoder;
} bd_bert_names;

typedef struct bd_bert_config {
  int64_t vocabulary;
  int64_t types;             // of tokens; 0: there is no table of them
  int64_t positions, unread; // rows of the table of positions; of them, those before the first
  bool typed; // samples say of each token which type it has; else all have the one that there is
  bd_encoder_config encoder;
  int64_t padding; // the token that no position attends to; -1: none
  bool tied;
  bd_op_kind head_activation;
  const bd_bert_names *names;
  const char *stored_gain, *stored_shift; // of layer norms: "weight" and "bias", or older names
} bd_bert_config;

typedef struct bd_vit_config {
  int64_t size, patch, channels, classes; // of square images
  bd_encoder_config encoder;
} bd_vit_config;

typedef struct bd_t5_config {
  int64_t vocabulary, width, heads, head_width, inner, encoder_layers, decoder_layers;
  int64_t positions;         // the sequence where none is chosen; there is no longest
  int64_t padding;           // the encoder's token that no position attends to; -1: none
  int64_t buckets, distance; // of relative positions, see frontend/relative.h
  bd_op_kind activation;
  bool gated; // the activation is of one of two matrices
  double epsilon, dropout, init_scale;
  bool tied;
  bool scaled; // what the output matrix is multiplied with, by 1 / sqrt(width)
} bd_t5_config;

// `loc` places diagnostics about the configuration. Options as in frontend.h.
// Errors: BD_INVALID when the sizes do not agree or the sequence is longer than the model's.
BD_NODISCARD bd_status bd_gpt2_build(bd_ctx *ctx, const char *name, const bd_gpt2_config *config,
                                     const bd_model_options *options, bd_loc loc,
                                     bd_module **out_graph);
BD_NODISCARD bd_status bd_llama_build(bd_ctx *ctx, const char *name, const bd_llama_config *config,
                                      const bd_model_options *options, bd_loc loc,
                                      bd_module **out_graph);

// The heads divide the width.
BD_NODISCARD bd_status bd_neox_build(bd_ctx *ctx, const char *name, const bd_neox_config *config,
                                     const bd_model_options *options, bd_loc loc,
                                     bd_module **out_graph);

// The heads divide the width.
BD_NODISCARD bd_status bd_opt_build(bd_ctx *ctx, const char *name, const bd_opt_config *config,
                                    const bd_model_options *options, bd_loc loc,
                                    bd_module **out_graph);

// The heads divide the width; the patches divide the image.
BD_NODISCARD bd_status bd_bert_build(bd_ctx *ctx, const char *name, const bd_bert_config *config,
                                     const bd_model_options *options, bd_loc loc,
                                     bd_module **out_graph);
BD_NODISCARD bd_status bd_vit_build(bd_ctx *ctx, const char *name, const bd_vit_config *config,
                                    const bd_model_options *options, bd_loc loc,
                                    bd_module **out_graph);

// Encoder and decoder have the same sequence.
BD_NODISCARD bd_status bd_t5_build(bd_ctx *ctx, const char *name, const bd_t5_config *config,
                                   const bd_model_options *options, bd_loc loc,
                                   bd_module **out_graph);

// The length to build for: the option, or the model's own. Errors: BD_INVALID past `positions`.
BD_NODISCARD bd_status bd_choose_sequence(bd_ctx *ctx, const bd_model_options *options,
                                          int64_t positions, bd_loc loc, int64_t *out_sequence);

// The preset's graph, or BD_INVALID with a did-you-mean.
BD_NODISCARD bd_status bd_preset_load(bd_ctx *ctx, const char *name,
                                      const bd_model_options *options, bd_module **out_graph);
bool bd_preset_exists(const char *name);

// Limits of a configuration's numbers; within them no product overflows before it is checked.
#define BD_MAX_CONFIG_EXTENT ((int64_t)1 << 28)
#define BD_MAX_CONFIG_LAYERS 2048
#endif
