// Makes a ResNet (He et al. 2016, Deep Residual Learning for Image Recognition) with random
// weights, as PyTorch exports torchvision's resnet50 in training mode:
//   model FILE.onnx WIDTH SIZE CLASSES BLOCKS...     resnet50: 64 224 1000 3 4 6 3
#include "../onnx_writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static onnx_value conv(onnx_value x, const char *name, int64_t in, int64_t out, int64_t size,
                       int64_t stride) {
  const int64_t dims[] = {out, in, size, size}, pad = size / 2;
  const onnx_value w =
      onnx_drawn(onnx_named("%s.weight", name), 4, dims, sqrt(6.0 / (double)(in * size * size)));
  onnx_ints("kernel_shape", 2, (int64_t[]){size, size});
  onnx_ints("strides", 2, (int64_t[]){stride, stride});
  onnx_ints("pads", 4, (int64_t[]){pad, pad, pad, pad});
  return onnx_node("Conv", 2, (onnx_value[]){x, w}, 1);
}

static onnx_value norm(onnx_value x, const char *name, int64_t channels, float gain) {
  const onnx_value operands[] = {x, onnx_filled(onnx_named("%s.weight", name), 1, &channels, gain),
                                 onnx_filled(onnx_named("%s.bias", name), 1, &channels, 0),
                                 onnx_filled(onnx_named("%s.running_mean", name), 1, &channels, 0),
                                 onnx_filled(onnx_named("%s.running_var", name), 1, &channels, 1)};
  onnx_int("training_mode", 1);
  return onnx_node("BatchNormalization", 5, operands, 3);
}

// A convolution and its normalization, numbered as in a block, whose last one begins with a gain of
// 0 (Goyal et al. 2017, Accurate, Large Minibatch SGD, section 5.1).
static onnx_value unit(onnx_value x, const char *block, int number, int64_t in, int64_t out,
                       int64_t size, int64_t stride) {
  x = conv(x, onnx_named("%sconv%d", block, number).name, in, out, size, stride);
  return norm(x, onnx_named("%sbn%d", block, number).name, out, number < 3);
}

static onnx_value relu(onnx_value x) {
  return onnx_node("Relu", 1, &x, 1);
}

static onnx_value bottleneck(onnx_value x, const char *block, int64_t in, int64_t width,
                             int64_t stride) {
  onnx_value skip = x;
  x = relu(unit(x, block, 1, in, width, 1, 1));
  x = relu(unit(x, block, 2, width, width, 3, stride));
  x = unit(x, block, 3, width, 4 * width, 1, 1);
  if (in != 4 * width || stride != 1) {
    skip = conv(skip, onnx_named("%sdownsample.0", block).name, in, 4 * width, 1, stride);
    skip = norm(skip, onnx_named("%sdownsample.1", block).name, 4 * width, 1);
  }
  return relu(onnx_node("Add", 2, (onnx_value[]){x, skip}, 1));
}

static onnx_value classify(onnx_value x, int64_t features, int64_t classes) {
  const onnx_value w = onnx_drawn(onnx_named("fc.weight"), 2, (int64_t[]){classes, features},
                                  sqrt(1.0 / (double)features));
  const onnx_value bias = onnx_filled(onnx_named("fc.bias"), 1, &classes, 0);
  x = onnx_node("GlobalAveragePool", 1, &x, 1);
  x = onnx_node("Flatten", 1, &x, 1);
  onnx_int("transB", 1);
  return onnx_node("Gemm", 3, (onnx_value[]){x, w, bias}, 1);
}

int main(int argc, char **argv) {
  if (argc < 6) {
    fprintf(stderr, "usage: model FILE.onnx WIDTH SIZE CLASSES BLOCKS...\n");
    return 2;
  }
  const int64_t width = atol(argv[2]), size = atol(argv[3]), classes = atol(argv[4]);
  onnx_value x = onnx_input("input", ONNX_FLOAT, 4, (int64_t[]){ONNX_BATCH, 3, size, size});
  x = relu(unit(x, "", 1, 3, width, 7, 2));
  onnx_ints("kernel_shape", 2, (int64_t[]){3, 3});
  onnx_ints("strides", 2, (int64_t[]){2, 2});
  onnx_ints("pads", 4, (int64_t[]){1, 1, 1, 1});
  x = onnx_node("MaxPool", 1, &x, 1);
  int64_t features = width;
  for (int layer = 1; layer <= argc - 5; layer++)
    for (int block = 0; block < atoi(argv[layer + 4]); block++) {
      const int64_t inner = width << (layer - 1);
      x = bottleneck(x, onnx_named("layer%d.%d.", layer, block).name, features, inner,
                     block == 0 && layer > 1 ? 2 : 1);
      features = 4 * inner;
    }
  x = classify(x, features, classes);
  onnx_output(x, ONNX_FLOAT, 2, (int64_t[]){ONNX_BATCH, classes});
  onnx_write(argv[1], 15);
  return 0;
}
