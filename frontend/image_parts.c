#include "frontend/image_parts.h"
#include "ir/windows.h"
#include <assert.h>
#include <math.h>

bd_weight_pattern bd_image_kernel(const char *name, const char *stored, int64_t outputs,
                                  int64_t inputs, int spatial, int64_t size, int64_t fan_in) {
  int64_t dims[] = {outputs, inputs, size, size, size};
  bd_weight_pattern pattern = {.name = name,
                               .type = bd_type_make(BD_F32, 2 + spatial, dims),
                               .storage = {.name = stored, .rank = 2 + spatial, .slice_dim = -1},
                               .init = BD_INIT_NORMAL,
                               .init_scale = sqrt(2 / (double)fan_in)};
  for (int d = 0; d < 2 + spatial; ++d)
    pattern.storage.dims[d] = dims[d];
  return pattern;
}

// As many dimensions of an image as the value's after the first two; 0 after an error.
static int spatial_of(const bd_graph_build *g, bd_id x) {
  if (g->status != BD_OK) return 0;
  int spatial = g->function->values[x].type.rank - 2;
  assert(spatial >= 1 && spatial <= BD_MAX_SPATIAL);
  return spatial;
}

static bd_attr repeat(bd_graph_build *g, const char *name, int count, int64_t number) {
  int64_t list[2 * BD_MAX_SPATIAL];
  for (int i = 0; i < 2 * BD_MAX_SPATIAL; ++i)
    list[i] = number;
  return bd_attr_ints(g->ctx, name, count, list);
}

bd_id bd_image_convolve(bd_graph_build *g, const char *name, bd_id x, bd_id kernel, int64_t size,
                        int64_t stride) {
  int spatial = spatial_of(g, x);
  bd_attr attrs[] = {repeat(g, "strides", spatial, stride),
                     repeat(g, "pads", 2 * spatial, (size - 1) / 2)};
  return bd_graph_op(g, name, BD_OP_CONV, 2, (bd_id[]){x, kernel}, 2, attrs);
}

bd_id bd_image_pool(bd_graph_build *g, const char *name, bd_id x, int64_t size, int64_t stride,
                    int64_t pad) {
  int spatial = spatial_of(g, x);
  bd_attr attrs[] = {repeat(g, "kernel", spatial, size), repeat(g, "strides", spatial, stride),
                     repeat(g, "pads", 2 * spatial, pad)};
  return bd_graph_op(g, name, BD_OP_MAXPOOL, 1, &x, 3, attrs);
}

bd_id bd_image_normalize(bd_graph_build *g, bd_layer *layer, const char *name, const char *stored,
                         bd_id x) {
  if (g->status != BD_OK) return BD_NO_ID;
  const bd_type *type = &g->function->values[x].type;
  assert(type->rank == 4 || type->rank == 5);
  bool volume = type->rank == 5;
  int64_t channels = type->dims[1];
  bd_ctx *ctx = g->ctx;
  bd_id gain = bd_graph_layer_weight(g, layer,
                                     bd_graph_vector(bd_intern_f(ctx, "%s.g", name),
                                                     bd_intern_f(ctx, "%s.weight", stored),
                                                     BD_INIT_ONES, channels));
  bd_id bias = bd_graph_layer_weight(g, layer,
                                     bd_graph_vector(bd_intern_f(ctx, "%s.b", name),
                                                     bd_intern_f(ctx, "%s.bias", stored),
                                                     BD_INIT_ZEROS, channels));
  bd_attr eps = bd_attr_real(ctx, "eps", 1e-5);
  bd_id last = bd_graph_permute(g, bd_intern_f(ctx, "%s.pixels", name), x,
                                volume ? "abcde->acdeb" : "abcd->acdb");
  bd_id y = bd_graph_op(g, name, BD_OP_LAYERNORM, 3, (bd_id[]){last, gain, bias}, 1, &eps);
  return bd_graph_permute(g, bd_intern_f(ctx, "%s.planes", name), y,
                          volume ? "abcde->aebcd" : "abcd->adbc");
}

void bd_image_loss(bd_graph_build *g, bd_id logits, bd_id targets) {
  bd_id lse = bd_graph_unary(g, "lse", BD_OP_LSE, logits);
  bd_id operands[] = {logits, targets, lse};
  bd_graph_result(g, bd_graph_op(g, "loss", BD_OP_XENT, 3, operands, 0, NULL));
}

bd_id bd_image_main(bd_graph_build *g, const bd_type *image, const bd_type *targets, int count,
                    const bd_image_call *calls) {
  enum { OTHERS = 3, STRIDE = OTHERS + BD_MAX_LAYER_WEIGHTS }; // operands before the weights
  bd_id input = bd_graph_input(g, "image", BD_INPUT_REALS, *image);
  bd_id wanted = bd_graph_input(g, "targets", BD_INPUT_TARGETS, *targets);
  bd_id *in = BD_NEW_ARRAY(g->ctx->arena, bd_id, (int64_t)count * STRIDE);
  bd_id *out = BD_NEW_ARRAY(g->ctx->arena, bd_id, count);
  for (int i = 0; i < count; ++i) {
    int others = calls[i].from_count + (i + 1 == count);
    const char *prefix = *calls[i].name ? bd_intern_f(g->ctx, "%s.", calls[i].name) : "";
    bd_graph_instantiate(g, calls[i].layer, prefix, prefix, in + i * STRIDE + others);
  }
  for (int i = 0; i < count; ++i) {
    int others = 0;
    bd_id *own = in + i * STRIDE;
    for (; others < calls[i].from_count; ++others)
      own[others] = calls[i].from[others] == BD_IMAGE_INPUT ? input : out[calls[i].from[others]];
    if (i + 1 == count) own[others++] = wanted;
    out[i] = bd_graph_call(g, calls[i].layer->function, others + calls[i].layer->weight_count, own,
                           i + 1 == count ? "loss" : bd_intern_f(g->ctx, "x%d", i));
  }
  return count > 0 ? out[count - 1] : BD_NO_ID;
}

bd_status bd_image_refuse_options(bd_ctx *ctx, const bd_model_options *options, bd_loc loc) {
  if (options->sequence == 0 && options->vocabulary == 0) return BD_OK;
  return bd_fail(ctx, BD_INVALID, loc, "a model of images has no %s to choose",
                 options->sequence != 0 ? "sequence length" : "vocabulary");
}
