// 3-D U-Net: two convolutions a level, pools on the way down, transposed convolutions on the way
// up, where each level also reads what its twin made on the way down.
#include "frontend/image.h"
#include "frontend/image_parts.h"

enum { VOLUME = 3, KERNEL = 3, MOST_CALLS = 5 * BD_UNET_LEVELS };

// The functions of a level.
enum { DOWN, AGAIN, UP, JOIN, PARTS };

typedef struct builder {
  bd_graph_build graph;
  const bd_unet3d_config *config;
  int levels;
} builder;

static bd_type volume_type(int64_t channels, int64_t size) {
  return bd_type_make(BD_F32, 5, (int64_t[]){BD_DIM_BATCH, channels, size, size, size});
}

static int64_t size_at(const builder *b, int level) {
  return b->config->size >> level;
}

// Convolution, normalization, rectification: the result of the function.
static void convolve(builder *b, bd_layer *layer, bd_id x, int64_t inputs, int64_t outputs) {
  bd_graph_build *g = &b->graph;
  bd_id w = bd_graph_layer_weight(g, layer,
                                  bd_image_kernel("w", "weight", outputs, inputs, VOLUME, KERNEL,
                                                  inputs * KERNEL * KERNEL * KERNEL));
  bd_id y = bd_image_convolve(g, "convolved", x, w, KERNEL, 1);
  y = bd_image_normalize(g, layer, "norm", "norm", y);
  bd_graph_result(g, bd_graph_unary(g, "out", BD_OP_RELU, y));
}

// The first convolution of a level on the way down.
static void build_down(builder *b, bd_layer *layer, int level) {
  bd_graph_build *g = &b->graph;
  const bd_unet3d_config *c = b->config;
  int64_t inputs = level ? c->channels[level - 1] : c->channels_in;
  int64_t size = size_at(b, level), before = level ? size_at(b, level - 1) : size;
  layer->function = bd_graph_function(g, bd_intern_f(g->ctx, "down%d", level));
  bd_id x = bd_graph_param(g, "x", volume_type(inputs, before), false);
  if (level) x = bd_image_pool(g, "pooled", x, 2, 2, 0);
  convolve(b, layer, x, inputs, c->channels[level]);
}

// Another convolution of a level, on either way, of so many times its channels.
static void build_again(builder *b, bd_layer *layer, int level, int times, const char *name) {
  bd_graph_build *g = &b->graph;
  int64_t channels = b->config->channels[level], size = size_at(b, level);
  layer->function = bd_graph_function(g, bd_intern_f(g->ctx, "%s%d", name, level));
  bd_id x = bd_graph_param(g, "x", volume_type(times * channels, size), false);
  convolve(b, layer, x, times * channels, channels);
}

// Every voxel of x becomes a cube of 2 x 2 x 2, a transposed convolution of that stride; and beside
// it, as more channels, what the level made on the way down.
static void build_up(builder *b, bd_layer *layer, int level) {
  bd_graph_build *g = &b->graph;
  int64_t inputs = b->config->channels[level + 1], outputs = b->config->channels[level];
  int64_t below = size_at(b, level + 1), size = size_at(b, level);
  layer->function = bd_graph_function(g, bd_intern_f(g->ctx, "up%d", level));
  bd_id x = bd_graph_param(g, "x", volume_type(inputs, below), false);
  bd_id skipped = bd_graph_param(g, "skipped", volume_type(outputs, size), false);
  bd_id w = bd_graph_layer_weight(
      g, layer, bd_image_kernel("w", "weight", inputs, outputs, VOLUME, 2, inputs));
  bd_attr attrs[] = {bd_attr_ints(g->ctx, "dims", VOLUME, (int64_t[]){size, size, size}),
                     bd_attr_ints(g->ctx, "strides", VOLUME, (int64_t[]){2, 2, 2})};
  bd_id y = bd_graph_op(g, "wide", BD_OP_CONV_DX, 2, (bd_id[]){x, w}, 2, attrs);
  bd_attr dim = bd_attr_int(g->ctx, "dim", 1);
  bd_graph_result(g, bd_graph_op(g, "out", BD_OP_CONCAT, 2, (bd_id[]){y, skipped}, 1, &dim));
}

static bd_type targets_type(const builder *b) {
  int64_t size = b->config->size;
  return bd_type_make(BD_I32, 4, (int64_t[]){BD_DIM_BATCH, size, size, size});
}

static void build_head(builder *b, bd_layer *layer) {
  bd_graph_build *g = &b->graph;
  const bd_unet3d_config *c = b->config;
  layer->function = bd_graph_function(g, "head");
  bd_id x = bd_graph_param(g, "x", volume_type(c->channels[0], c->size), false);
  bd_id targets = bd_graph_param(g, "targets", targets_type(b), false);
  bd_weight_pattern matrix =
      bd_image_kernel("w", "weight", c->channels[0], c->classes, 0, 1, 2 * c->channels[0]);
  bd_id w = bd_graph_layer_weight(g, layer, matrix);
  bd_image_loss(g, bd_graph_contract(g, "logits", "bcdhw,cv->bdhwv", x, w), targets);
}

typedef struct call_list {
  int count;
  bd_image_call calls[MOST_CALLS];
} call_list;

static int add_call(call_list *list, const bd_layer *layer, const char *name, int from) {
  list->calls[list->count] = (bd_image_call){layer, name, 1, {from}};
  return list->count++;
}

// All levels down, then up again, then the head.
static void call_all(builder *b, bd_layer (*layers)[PARTS], const bd_layer *head, call_list *list) {
  bd_ctx *ctx = b->graph.ctx;
  int made[BD_UNET_LEVELS], last = BD_IMAGE_INPUT;
  for (int level = 0; level < b->levels; ++level) {
    build_down(b, &layers[level][DOWN], level);
    build_again(b, &layers[level][AGAIN], level, 1, "conv");
    last = add_call(list, &layers[level][DOWN], bd_intern_f(ctx, "down%d.first", level), last);
    last = add_call(list, &layers[level][AGAIN], bd_intern_f(ctx, "down%d.second", level), last);
    made[level] = last;
  }
  for (int level = b->levels - 2; level >= 0; --level) {
    build_up(b, &layers[level][UP], level);
    build_again(b, &layers[level][JOIN], level, 2, "join");
    last = add_call(list, &layers[level][UP], bd_intern_f(ctx, "up%d", level), last);
    list->calls[last].from[list->calls[last].from_count++] = made[level];
    last = add_call(list, &layers[level][JOIN], bd_intern_f(ctx, "up%d.first", level), last);
    last = add_call(list, &layers[level][AGAIN], bd_intern_f(ctx, "up%d.second", level), last);
  }
  add_call(list, head, "head", last);
}

bd_status bd_unet3d_build(bd_ctx *ctx, const char *name, const bd_unet3d_config *config,
                          const bd_model_options *options, bd_loc loc, bd_module **out_graph) {
  BD_TRY(bd_image_refuse_options(ctx, options, loc));
  builder b = {.graph = bd_graph_begin(ctx, name, loc), .config = config};
  while (b.levels < BD_UNET_LEVELS && config->channels[b.levels])
    ++b.levels;
  bd_layer(*layers)[PARTS] = bd_arena_array(ctx->arena, BD_UNET_LEVELS, sizeof *layers);
  bd_layer *head = BD_NEW(ctx->arena, bd_layer);
  call_list *list = BD_NEW(ctx->arena, call_list);
  call_all(&b, layers, head, list);
  build_head(&b, head);
  bd_type image = volume_type(config->channels_in, config->size), targets = targets_type(&b);
  return bd_graph_finish(
      &b.graph, bd_image_main(&b.graph, &image, &targets, list->count, list->calls), out_graph);
}
