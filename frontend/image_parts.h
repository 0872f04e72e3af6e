// What models of images have in common: convolutions, normalization, the loss, and main, which
// calls layers one after another, with values that skip over calls.
#ifndef BD_FRONTEND_IMAGE_PARTS_H
#define BD_FRONTEND_IMAGE_PARTS_H
#include "frontend/frontend.h"
#include "frontend/graph_build.h"

// A kernel for `inputs` channels of images of `spatial` dimensions, [outputs, inputs, size..], with
// initial values for a rectified result of `fan_in` terms.
bd_weight_pattern bd_image_kernel(const char *name, const char *stored, int64_t outputs,
                                  int64_t inputs, int spatial, int64_t size, int64_t fan_in);

// A convolution that keeps the size of the image but for the stride. Kernels have odd sizes.
bd_id bd_image_convolve(bd_graph_build *build, const char *name, bd_id x, bd_id kernel,
                        int64_t size, int64_t stride);

// The maxima of windows of `size` points along each dimension, `stride` apart, with padding.
bd_id bd_image_pool(bd_graph_build *build, const char *name, bd_id x, int64_t size, int64_t stride,
                    int64_t pad);

// Every pixel's channels (dimension 1 of x) normalized, by two weights `name`.g and `name`.b that
// are added to the layer.
bd_id bd_image_normalize(bd_graph_build *build, bd_layer *layer, const char *name,
                         const char *stored, bd_id x);

// Makes the sum of the losses of `logits` [..., classes] the result of the current function.
void bd_image_loss(bd_graph_build *build, bd_id logits, bd_id targets);

enum { BD_IMAGE_INPUT = -1 };

// One call of main: the results of two earlier calls or one (BD_IMAGE_INPUT: the image), weights.
typedef struct bd_image_call {
  const bd_layer *layer;
  const char *name; // and a dot: before its weights' names and stored names; "": nothing is
  int from_count, from[2];
} bd_image_call;

// Builds main; the last call takes the targets after what it reads, and makes the loss.
bd_id bd_image_main(bd_graph_build *build, const bd_type *image, const bd_type *targets, int count,
                    const bd_image_call *calls);

// Refuses the options that are for sequences.
BD_NODISCARD bd_status bd_image_refuse_options(bd_ctx *ctx, const bd_model_options *options,
                                               bd_loc loc);
#endif
