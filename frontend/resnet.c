// ResNet: a convolution and a pool, stages of bottleneck blocks, and a classifier. The first block
// of a stage has a shortcut of its own; the others are one function. Stored names are
// torchvision's.
#include "frontend/image.h"
#include "frontend/image_parts.h"
#include <math.h>

enum { COLORS = 3, EXPANSION = 4, STEM_KERNEL = 7 };

typedef struct builder {
  bd_graph_build graph;
  const bd_resnet_config *config;
  int64_t size, channels; // of what the last layer made
} builder;

static bd_type image_type(int64_t channels, int64_t size) {
  return bd_type_make(BD_F32, 4, (int64_t[]){BD_DIM_BATCH, channels, size, size});
}

static bd_id relu(builder *b, const char *name, bd_id x) {
  return bd_graph_unary(&b->graph, name, BD_OP_RELU, x);
}

// A convolution and its normalization: `conv` and `norm` are stored names.
static bd_id convolve(builder *b, bd_layer *layer, const char *conv, const char *norm, bd_id x,
                      int64_t inputs, int64_t outputs, int64_t size, int64_t stride) {
  bd_graph_build *g = &b->graph;
  const char *stored = bd_intern_f(g->ctx, "%s.weight", conv);
  bd_weight_pattern kernel = bd_image_kernel(bd_intern_f(g->ctx, "%s.w", conv), stored, outputs,
                                             inputs, 2, size, inputs * size * size);
  bd_id w = bd_graph_layer_weight(g, layer, kernel);
  bd_id y = bd_image_convolve(g, conv, x, w, size, stride);
  return bd_image_normalize(g, layer, norm, norm, y);
}

static void build_stem(builder *b, bd_layer *layer) {
  bd_graph_build *g = &b->graph;
  const bd_resnet_config *c = b->config;
  layer->function = bd_graph_function(g, "stem");
  bd_id x = bd_graph_param(g, "image", image_type(COLORS, c->size), false);
  x = convolve(b, layer, "conv1", "bn1", x, COLORS, c->width, STEM_KERNEL, 2);
  x = relu(b, "relu", x);
  bd_graph_result(g, bd_image_pool(g, "maxpool", x, 3, 2, 1));
  b->size = ((c->size + 1) / 2 + 1) / 2;
  b->channels = c->width;
}

// `middle` channels inside; a block that is first changes channels and, past stage 0, the size.
static void build_block(builder *b, bd_layer *layer, int stage, bool first, int64_t middle) {
  bd_graph_build *g = &b->graph;
  int64_t outputs = EXPANSION * middle, stride = first && stage > 0 ? 2 : 1;
  layer->function =
      bd_graph_function(g, bd_intern_f(g->ctx, "stage%d%s", stage + 1, first ? "_first" : ""));
  bd_id x = bd_graph_param(g, "x", image_type(b->channels, b->size), false);
  bd_id y = convolve(b, layer, "conv1", "bn1", x, b->channels, middle, 1, 1);
  y = relu(b, "relu1", y);
  y = convolve(b, layer, "conv2", "bn2", y, middle, middle, 3, stride);
  y = relu(b, "relu2", y);
  y = convolve(b, layer, "conv3", "bn3", y, middle, outputs, 1, 1);
  if (first)
    x = convolve(b, layer, "downsample.0", "downsample.1", x, b->channels, outputs, 1, stride);
  bd_graph_result(g, relu(b, "out", bd_graph_binary(g, "sum", BD_OP_ADD, x, y)));
  b->channels = outputs;
  b->size = (b->size - 1) / stride + 1;
}

static void build_head(builder *b, bd_layer *layer) {
  bd_graph_build *g = &b->graph;
  int64_t classes = b->config->classes, channels = b->channels;
  layer->function = bd_graph_function(g, "head");
  bd_id x = bd_graph_param(g, "x", image_type(channels, b->size), false);
  bd_id targets =
      bd_graph_param(g, "targets", bd_type_make(BD_I32, 1, (int64_t[]){BD_DIM_BATCH}), false);
  bd_weight_pattern matrix = {
      .name = "fc.w",
      .type = bd_type_make(BD_F32, 2, (int64_t[]){classes, channels}),
      .storage = {.name = "weight", .rank = 2, .dims = {classes, channels}, .slice_dim = -1},
      .init = BD_INIT_NORMAL,
      .init_scale = sqrt(1 / (double)channels)};
  bd_weight_pattern bias = {
      .name = "fc.b",
      .type = bd_type_make(BD_F32, 1, &classes),
      .storage = {.name = "bias", .rank = 1, .dims = {classes}, .slice_dim = -1},
      .init = BD_INIT_ZEROS};
  bd_id w = bd_graph_layer_weight(g, layer, matrix), added = bd_graph_layer_weight(g, layer, bias);
  bd_attr rule = bd_attr_string(g->ctx, "rule", "abcd->ab");
  bd_attr mean = bd_attr_real(g->ctx, "value", 1 / (double)(b->size * b->size));
  bd_id sum = bd_graph_op(g, "pool_sum", BD_OP_REDUCE_SUM, 1, &x, 1, &rule);
  bd_id pooled = bd_graph_op(g, "pool", BD_OP_SCALE, 1, &sum, 1, &mean);
  bd_id logits = bd_graph_contract(g, "fc_product", "bc,vc->bv", pooled, w);
  bd_image_loss(g, bd_graph_binary(g, "fc", BD_OP_ADD, logits, added), targets);
}

static int count_blocks(const bd_resnet_config *c) {
  int blocks = 0;
  for (int s = 0; s < BD_RESNET_STAGES; ++s)
    blocks += c->blocks[s];
  return blocks;
}

// Calls of one stage after those that are there; `layers` are its two.
static int add_stage(builder *b, int stage, bd_layer *layers, bd_image_call *calls, int count) {
  int64_t middle = b->config->width << stage;
  for (int i = 0; i < b->config->blocks[stage]; ++i, ++count) {
    bd_layer *layer = &layers[i > 0];
    if (!layer->function) build_block(b, layer, stage, i == 0, middle);
    calls[count] = (bd_image_call){.layer = layer,
                                   .name = bd_intern_f(b->graph.ctx, "layer%d.%d", stage + 1, i),
                                   .from_count = 1,
                                   .from = {count - 1}};
  }
  return count;
}

bd_status bd_resnet_build(bd_ctx *ctx, const char *name, const bd_resnet_config *config,
                          const bd_model_options *options, bd_loc loc, bd_module **out_graph) {
  BD_TRY(bd_image_refuse_options(ctx, options, loc));
  builder b = {.graph = bd_graph_begin(ctx, name, loc), .config = config};
  bd_layer *layers = BD_NEW_ARRAY(ctx->arena, bd_layer, 2 + 2 * BD_RESNET_STAGES);
  bd_image_call *calls = BD_NEW_ARRAY(ctx->arena, bd_image_call, 2 + count_blocks(config));
  int count = 0;
  build_stem(&b, &layers[0]);
  calls[count++] = (bd_image_call){&layers[0], "", 1, {BD_IMAGE_INPUT}};
  for (int s = 0; s < BD_RESNET_STAGES; ++s)
    count = add_stage(&b, s, &layers[2 + 2 * s], calls, count);
  build_head(&b, &layers[1]);
  calls[count] = (bd_image_call){&layers[1], "fc", 1, {count - 1}};
  bd_type image = image_type(COLORS, config->size);
  bd_type targets = bd_type_make(BD_I32, 1, (int64_t[]){BD_DIM_BATCH});
  return bd_graph_finish(&b.graph, bd_image_main(&b.graph, &image, &targets, count + 1, calls),
                         out_graph);
}
