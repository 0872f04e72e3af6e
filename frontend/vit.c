// ViT with a classifier: an image is a sequence of its patches behind a class token, from whose end
// the class is read. Layer norm before each half of a block.
#include "frontend/encoder.h"
#include "frontend/image_parts.h"
#include "frontend/transformer.h"

typedef struct builder {
  bd_graph_build graph;
  const bd_vit_config *config;
  bd_encoder encoder;
  bd_transformer_norm norm;
} builder;

static bd_type image_type(const bd_vit_config *c) {
  return bd_type_make(BD_F32, 4, (int64_t[]){BD_DIM_BATCH, c->channels, c->size, c->size});
}

static bd_id reshape(bd_graph_build *g, const char *name, bd_id x, int rank, const int64_t *dims) {
  bd_attr attr = bd_attr_ints(g->ctx, "dims", rank, dims);
  return bd_graph_op(g, name, BD_OP_RESHAPE, 1, &x, 1, &attr);
}

// [batch, patches, pixels of a patch], the pixels in the order of the stored kernel.
static bd_id cut_patches(builder *b, bd_id image) {
  bd_graph_build *g = &b->graph;
  const bd_vit_config *c = b->config;
  int64_t side = c->size / c->patch;
  bd_id x = reshape(g, "grid", image, 6,
                    (int64_t[]){BD_DIM_BATCH, c->channels, side, c->patch, side, c->patch});
  bd_attr rule = bd_attr_string(g->ctx, "rule", "abcdef->acebdf");
  x = bd_graph_op(g, "tiles", BD_OP_PERMUTE, 1, &x, 1, &rule);
  return reshape(g, "patches", x, 3,
                 (int64_t[]){BD_DIM_BATCH, side * side, c->channels * c->patch * c->patch});
}

static bd_id pad_first(bd_graph_build *g, const char *name, bd_id x, int dim, int64_t start,
                       int64_t size) {
  bd_attr attrs[] = {bd_attr_int(g->ctx, "dim", dim), bd_attr_int(g->ctx, "start", start),
                     bd_attr_int(g->ctx, "size", size)};
  return bd_graph_op(g, name, BD_OP_PAD, 1, &x, 3, attrs);
}

// A weight stored as [1, rows, width].
static bd_id rows_of_one(builder *b, bd_layer *layer, const char *name, const char *stored,
                         int64_t rows) {
  const bd_vit_config *c = b->config;
  bd_weight_pattern pattern =
      bd_transformer_matrix(name, stored, rows, c->encoder.width, c->encoder.init_scale);
  pattern.storage.rank = 3;
  pattern.storage.dims[0] = 1;
  pattern.storage.dims[1] = rows;
  pattern.storage.dims[2] = c->encoder.width;
  return bd_graph_layer_weight(&b->graph, layer, pattern);
}

static void build_embed(builder *b, bd_layer *layer) {
  bd_graph_build *g = &b->graph;
  const bd_vit_config *c = b->config;
  int64_t pixels = c->channels * c->patch * c->patch, sequence = b->encoder.sequence;
  layer->function = bd_graph_function(g, "embed");
  bd_id image = bd_graph_param(g, "image", image_type(c), false);
  bd_id class = rows_of_one(b, layer, "class", "vit.embeddings.cls_token", 1);
  bd_id positions =
      rows_of_one(b, layer, "positions", "vit.embeddings.position_embeddings", sequence);
  bd_weight_pattern kernel =
      bd_transformer_matrix("patch.w", "vit.embeddings.patch_embeddings.projection.weight",
                            c->encoder.width, pixels, c->encoder.init_scale);
  kernel.storage.rank = 4;
  kernel.storage.dims[1] = c->channels;
  kernel.storage.dims[2] = kernel.storage.dims[3] = c->patch;
  bd_id w = bd_graph_layer_weight(g, layer, kernel);
  bd_id bias = bd_graph_layer_weight(
      g, layer,
      bd_graph_vector("patch.b", "vit.embeddings.patch_embeddings.projection.bias", BD_INIT_ZEROS,
                      c->encoder.width));
  bd_id x = bd_graph_contract(g, "patch_product", "btk,ck->btc", cut_patches(b, image), w);
  x = pad_first(g, "behind", bd_graph_binary(g, "patch", BD_OP_ADD, x, bias), 1, 1, sequence);
  bd_id first = pad_first(g, "class_row", class, 0, 0, sequence);
  x = bd_graph_binary(g, "sum", BD_OP_ADD, x,
                      bd_graph_binary(g, "constant_rows", BD_OP_ADD, positions, first));
  bd_graph_result(g,
                  bd_graph_dropout(g, "dropped", x, c->encoder.dropout_hidden, BD_SITE_EMBEDDING));
}

static void build_block(builder *b, bd_layer *layer) {
  bd_graph_build *g = &b->graph;
  layer->function = bd_graph_function(g, "block");
  bd_id x = bd_graph_param(
      g, "x", bd_transformer_activations(b->encoder.sequence, b->config->encoder.width), false);
  bd_id n = bd_transformer_normalize(g, layer, &b->norm, "norm_1", "layernorm_before", x);
  x = bd_graph_binary(g, "middle", BD_OP_ADD, x, bd_encoder_attend(g, layer, &b->encoder, n));
  n = bd_transformer_normalize(g, layer, &b->norm, "norm_2", "layernorm_after", x);
  bd_graph_result(
      g, bd_graph_binary(g, "out", BD_OP_ADD, x, bd_encoder_perceive(g, layer, &b->encoder, n)));
}

static void build_head(builder *b, bd_layer *layer) {
  bd_graph_build *g = &b->graph;
  const bd_vit_config *c = b->config;
  layer->function = bd_graph_function(g, "head");
  bd_id x = bd_graph_param(
      g, "x", bd_transformer_activations(b->encoder.sequence, c->encoder.width), false);
  bd_id targets =
      bd_graph_param(g, "targets", bd_type_make(BD_I32, 1, (int64_t[]){BD_DIM_BATCH}), false);
  x = bd_transformer_slice(g, "class", x, 1, 0, 1);
  bd_attr rule = bd_attr_string(g->ctx, "rule", "abc->ac");
  x = bd_graph_op(g, "first", BD_OP_REDUCE_SUM, 1, &x, 1, &rule);
  x = bd_transformer_normalize(g, layer, &b->norm, "norm", "vit.layernorm", x);
  bd_transformer_dense dense = bd_transformer_plain("logits", "classifier", c->encoder.width,
                                                    c->classes, c->encoder.init_scale);
  dense.rule = "bc,cv->bv";
  bd_transformer_loss(g, bd_transformer_apply(g, layer, &dense, x), targets);
}

bd_status bd_vit_build(bd_ctx *ctx, const char *name, const bd_vit_config *config,
                       const bd_model_options *options, bd_loc loc, bd_module **out_graph) {
  static const bd_encoder_names names = {.query = "attention.attention.query",
                                         .key = "attention.attention.key",
                                         .value = "attention.attention.value",
                                         .joined = "attention.output.dense",
                                         .up = "intermediate.dense",
                                         .down = "output.dense"};
  const bd_vit_config *c = config;
  int64_t side = c->size / c->patch;
  BD_TRY(bd_image_refuse_options(ctx, options, loc));
  builder b = {.graph = bd_graph_begin(ctx, name, loc),
               .config = c,
               .encoder = {.config = &c->encoder,
                           .sequence = side * side + 1,
                           .names = &names,
                           .hidden = BD_NO_ID},
               .norm = {c->encoder.width, c->encoder.epsilon, "weight", "bias"}};
  bd_layer embed = {0}, block = {0}, head = {0};
  build_embed(&b, &embed);
  build_block(&b, &block);
  build_head(&b, &head);
  bd_transformer_chain chain = {.embed = &embed,
                                .block = &block,
                                .head = &head,
                                .input_count = 1,
                                .inputs = {{"image", BD_INPUT_REALS, image_type(c)}},
                                .targets = bd_type_make(BD_I32, 1, (int64_t[]){BD_DIM_BATCH}),
                                .layers = c->encoder.layers,
                                .block_name = "layer",
                                .stored_prefix = "",
                                .stored_block = "vit.encoder.layer."};
  return bd_graph_finish(&b.graph, bd_transformer_main(&b.graph, &chain), out_graph);
}
