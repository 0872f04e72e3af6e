// Writes ONNX models, as exporters do: nodes in order, weights by name. One model per process.
#ifndef ONNX_WRITER_H
#define ONNX_WRITER_H
#include <stdint.h>

enum { ONNX_FLOAT = 1, ONNX_INT64 = 7, ONNX_NAME = 96, ONNX_BATCH = -1 };

// The name of a value.
typedef struct onnx_value {
  char name[ONNX_NAME];
} onnx_value;

onnx_value onnx_named(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Inputs and outputs of the model; ONNX_BATCH as an extent is the symbol "batch".
onnx_value onnx_input(const char *name, int type, int rank, const int64_t *dims);
void onnx_output(onnx_value value, int type, int rank, const int64_t *dims);

// Weights: every element the same, or drawn uniformly from -bound to bound.
onnx_value onnx_filled(onnx_value name, int rank, const int64_t *dims, float value);
onnx_value onnx_drawn(onnx_value name, int rank, const int64_t *dims, double bound);

// Attributes of the node that is made next.
void onnx_int(const char *name, int64_t value);
void onnx_ints(const char *name, int count, const int64_t *values);
// A node; its first result is returned. It has `results` of them.
onnx_value onnx_node(const char *op, int count, const onnx_value *operands, int results);

// Ends the process with a line where it cannot.
void onnx_write(const char *path, int opset);
#endif
