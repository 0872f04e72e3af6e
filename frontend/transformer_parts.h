// What the transformer families have in common: how weights are described, causal attention, the
// loss, and main, which strings the embedding, the blocks and the head together.
#ifndef BD_FRONTEND_TRANSFORMER_PARTS_H
#define BD_FRONTEND_TRANSFORMER_PARTS_H
#include "frontend/graph_build.h"
#include "frontend/transformer.h"

// Token numbers or targets, and what flows between blocks.
bd_type bd_transformer_ids(int64_t sequence);
bd_type bd_transformer_activations(int64_t sequence, int64_t width);

// A weight stored as it is used.
bd_weight_pattern bd_transformer_matrix(const char *name, const char *stored, int64_t rows,
                                        int64_t columns, double scale);

// A matrix used as [in, out], stored [out, in].
bd_weight_pattern bd_transformer_linear(const char *name, const char *stored, int64_t in,
                                        int64_t out, double scale);

// A linear layer: x times the matrix stored as `stored`.weight, [out, in], plus `stored`.bias where
// it is biased. Functions see the matrix as `matrix` and the bias as `bias`, whose elements they
// are.
typedef struct bd_transformer_dense {
  const char *name, *stored;
  const char *rule; // of the product of x and the matrix
  int64_t in, out;
  bd_type matrix, bias;
  bool biased;
  double scale; // of the matrix's first values
} bd_transformer_dense;
// One over the last dimension of [batch, sequence, in].
bd_transformer_dense bd_transformer_plain(const char *name, const char *stored, int64_t in,
                                          int64_t out, double scale);
bd_id bd_transformer_apply(bd_graph_build *build, bd_layer *layer,
                           const bd_transformer_dense *dense, bd_id x);

// The pattern of a matrix or vector that is stored whole becomes that of rows `start` .. of the
// tensor `stored`, which has `rows`.
void bd_transformer_take_rows(bd_weight_pattern *pattern, const char *stored, int64_t rows,
                              int64_t start);

// Layer normalization of x, `width` wide, by the weights `stored`.gain and `stored`.shift.
typedef struct bd_transformer_norm {
  int64_t width;
  double epsilon;
  const char *gain, *shift;
} bd_transformer_norm;
bd_id bd_transformer_normalize(bd_graph_build *build, bd_layer *layer,
                               const bd_transformer_norm *norm, const char *name,
                               const char *stored, bd_id x);

// x [batch, sequence, heads, width] turned by its positions.
bd_id bd_transformer_rotate(bd_graph_build *build, const char *name, bd_id x,
                            const bd_rotary *rotary);

// What hides a position: exp of it and any score is 0, and halves of either kind hold it.
#define BD_TRANSFORMER_HIDDEN (-57344.0)

// Where ids, [batch, sequence], are `padding`: BD_TRANSFORMER_HIDDEN, elsewhere 0.
bd_id bd_transformer_hide(bd_graph_build *build, bd_id ids, int64_t sequence, int64_t padding);

// Attention over [batch, sequence, heads, width]; `site` numbers its dropout.
typedef struct bd_transformer_attending {
  const char *name; // of the result
  double scale, dropout;
  double softcap; // that scores stay below, without biases; 0: none
  bool causal;
  int64_t window; // of positions up to its own that one sees, where it is causal; 0: all
  int site;
  bd_id hidden; // of the keys, see bd_transformer_hide; BD_NO_ID: none is
  bd_id biases; // of relative_attention, or the sinks; BD_NO_ID: there are none
  bool sinks;   // `biases` are sinks
} bd_transformer_attending;
bd_id bd_transformer_attention(bd_graph_build *build, bd_id q, bd_id k, bd_id v,
                               const bd_transformer_attending *how);

// Softmax over the last dimension of x, which has three. Names of its values begin with `prefix`.
bd_id bd_transformer_softmax(bd_graph_build *build, const char *prefix, bd_id x);

// Rows `start` .. `start` + `size` of dimension `dim` of x; x itself where they are all.
bd_id bd_transformer_slice(bd_graph_build *build, const char *name, bd_id x, int dim, int64_t start,
                           int64_t size);

// The sum of the losses of `logits`, whose last dimension is the classes; the second function makes
// it the result of the current one.
bd_id bd_transformer_cross_entropy(bd_graph_build *build, bd_id logits, bd_id targets);
void bd_transformer_loss(bd_graph_build *build, bd_id logits, bd_id targets);
// Activations [batch, sequence, width] times the output matrix [vocabulary, width].
bd_id bd_transformer_logits(bd_graph_build *build, bd_id x, bd_id output_matrix);
// A head's last parameter, whose weight main chooses: the output matrix, [vocabulary, width].
bd_id bd_transformer_output_matrix(bd_graph_build *build, const char *name, int64_t vocabulary,
                                   int64_t width);
// x times a factor; x itself where that is 0 or 1.
bd_id bd_transformer_scale(bd_graph_build *build, const char *name, bd_id x, double factor);
// cap tanh(x / cap), which is near x where that is small; x itself where cap is 0.
bd_id bd_transformer_cap(bd_graph_build *build, bd_id x, double cap);

typedef struct bd_transformer_input {
  const char *name;
  bd_input_kind kind;
  bd_type type;
} bd_transformer_input;

#define BD_MAX_TRANSFORMER_INPUTS 2

typedef struct bd_transformer_chain {
  // embed(inputs, weights); block(x, weights); head(x, targets, weights, output matrix). Where
  // there is a `start`, of no weights, its result follows x as operand of blocks and head, and
  // blocks have a result for it.
  const bd_layer *start;
  bool blocks_read; // else the first input is the second operand of every block
  const bd_layer *embed, *block, *head;
  const bd_layer *const *kinds; // of each layer; NULL: all are `block`
  const bool *is_plain;         // layers that what follows x passes by; NULL: none
  int input_count;
  bd_transformer_input inputs[BD_MAX_TRANSFORMER_INPUTS];
  bd_type targets;
  int64_t layers;
  const char *block_name;    // of weights: "h" makes "h0.", "h1.", ..
  const char *stored_prefix; // of the embedding's and the head's stored names
  const char *stored_block;  // of the blocks': "h." makes "h.0.", "h.1.", ..
  bool tied;                 // the output matrix is the embedding's first weight
  bd_weight_pattern output;  // else this one; without a name: the head takes none
} bd_transformer_chain;

// One of decoders that read tokens and are asked for the next ones: inputs, targets, and what
// weights are called. Blocks are named and stored as "h0." and "PREFIXh.0." where `block_name` is
// "h".
bd_transformer_chain bd_transformer_decoder(bd_ctx *ctx, const bd_model_options *options,
                                            int64_t sequence, const char *block_name,
                                            const char *stored_prefix);

// Builds main; returns its loss.
bd_id bd_transformer_main(bd_graph_build *build, const bd_transformer_chain *chain);
#endif
