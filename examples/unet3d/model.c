// Makes a 3-D U-Net (Cicek et al. 2016, 3D U-Net: Learning Dense Volumetric Segmentation from
// Sparse Annotation) with random weights, whose levels are those of nnU-Net, as PyTorch exports it:
//   model FILE.onnx WIDTH SIZE CLASSES LEVELS     nnU-Net: 32 128 3 5
#include "../onnx_writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static onnx_value bias_of(const char *name, int64_t channels) {
  return onnx_filled(onnx_named("%s.bias", name), 1, &channels, 0);
}

static onnx_value conv(onnx_value x, const char *name, int64_t in, int64_t out, int64_t size,
                       int64_t stride) {
  const int64_t dims[] = {out, in, size, size, size}, pad = size / 2;
  const onnx_value w = onnx_drawn(onnx_named("%s.weight", name), 5, dims,
                                  sqrt(6.0 / (double)(in * size * size * size)));
  const onnx_value bias = bias_of(name, out);
  onnx_ints("kernel_shape", 3, (int64_t[]){size, size, size});
  onnx_ints("strides", 3, (int64_t[]){stride, stride, stride});
  onnx_ints("pads", 6, (int64_t[]){pad, pad, pad, pad, pad, pad});
  return onnx_node("Conv", 3, (onnx_value[]){x, w, bias}, 1);
}

// Twice the extents.
static onnx_value widen(onnx_value x, const char *name, int64_t in, int64_t out) {
  const int64_t dims[] = {in, out, 2, 2, 2};
  const onnx_value w = onnx_drawn(onnx_named("%s.weight", name), 5, dims, sqrt(6.0 / (double)in));
  const onnx_value bias = bias_of(name, out);
  onnx_ints("kernel_shape", 3, (int64_t[]){2, 2, 2});
  onnx_ints("strides", 3, (int64_t[]){2, 2, 2});
  return onnx_node("ConvTranspose", 3, (onnx_value[]){x, w, bias}, 1);
}

// A convolution, its normalization over each sample's channels, and LeakyRelu.
static onnx_value unit(onnx_value x, const char *name, int64_t in, int64_t out, int64_t stride) {
  x = conv(x, onnx_named("%s.conv", name).name, in, out, 3, stride);
  const onnx_value gain = onnx_filled(onnx_named("%s.norm.weight", name), 1, &out, 1);
  const onnx_value bias = bias_of(onnx_named("%s.norm", name).name, out);
  x = onnx_node("InstanceNormalization", 3, (onnx_value[]){x, gain, bias}, 1);
  return onnx_node("LeakyRelu", 1, &x, 1);
}

static onnx_value level(onnx_value x, const char *name, int64_t in, int64_t out, int64_t stride) {
  for (int i = 0; i < 3; i++)
    x = unit(x, onnx_named("%s.%d", name, i).name, i ? out : in, out, i ? 1 : stride);
  return x;
}

int main(int argc, char **argv) {
  enum { MOST_LEVELS = 8 };
  const int levels = argc == 6 ? atoi(argv[5]) : 0;
  if (levels < 1 || levels > MOST_LEVELS) {
    fprintf(stderr, "usage: model FILE.onnx WIDTH SIZE CLASSES LEVELS\n");
    return 2;
  }
  const int64_t width = atol(argv[2]), size = atol(argv[3]), classes = atol(argv[4]);
  onnx_value x = onnx_input("input", ONNX_FLOAT, 5, (int64_t[]){ONNX_BATCH, 1, size, size, size}),
             skips[MOST_LEVELS];
  for (int i = 0; i < levels; i++)
    skips[i] = x =
        level(x, onnx_named("down.%d", i).name, i ? width << (i - 1) : 1, width << i, i ? 2 : 1);
  for (int i = levels - 2; i >= 0; i--) {
    const int64_t channels = width << i;
    x = widen(x, onnx_named("up.%d.widen", i).name, 2 * channels, channels);
    onnx_int("axis", 1);
    x = onnx_node("Concat", 2, (onnx_value[]){x, skips[i]}, 1);
    x = level(x, onnx_named("up.%d", i).name, 2 * channels, channels, 1);
  }
  x = conv(x, "head", width, classes, 1, 1);
  onnx_output(x, ONNX_FLOAT, 5, (int64_t[]){ONNX_BATCH, classes, size, size, size});
  onnx_write(argv[1], 15);
  return 0;
}
