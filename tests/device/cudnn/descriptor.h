// cuDNN's graph API on the fake device: descriptors whose attributes are checked as they are set,
// and graphs that are evaluated as they are described. What the library would refuse or leave
// undefined ends the process with one line.
#ifndef BD_TESTS_DEVICE_CUDNN_DESCRIPTOR_H
#define BD_TESTS_DEVICE_CUDNN_DESCRIPTOR_H
#include "tests/device/fake/device.h"

#include <cudnn.h>

enum { FAKE_MOST_ATTRIBUTES = 8, FAKE_MOST_RANK = 8 };

typedef struct fake_attribute {
  cudnnBackendAttributeName_t name;
  cudnnBackendAttributeType_t type;
  int64_t count;
  void *values;
} fake_attribute;

// What a descriptor of the kind is asked for.
typedef struct fake_rule {
  cudnnBackendDescriptorType_t kind;
  cudnnBackendAttributeName_t name;
  cudnnBackendAttributeType_t type;
  int64_t least, most; // values; least 0: it may be missing
} fake_rule;

typedef struct fake_descriptor {
  int magic, finalized;
  cudnnBackendDescriptorType_t kind;
  int count;
  fake_attribute attributes[FAKE_MOST_ATTRIBUTES];
  // Made by the library: of a configuration its engine, 0 to 2; of a plan its graph.
  int engine;
  struct fake_descriptor *graph;
  int64_t workspace_bytes;
  int loaded; // of a plan, when it has run
} fake_descriptor;

// A live descriptor of the kind, finished or not.
fake_descriptor *fake_descriptor_of(const char *call, cudnnBackendDescriptor_t at,
                                    cudnnBackendDescriptorType_t kind, int finished);
// The attribute, or NULL.
const fake_attribute *fake_get(const fake_descriptor *d, cudnnBackendAttributeName_t name);
int64_t fake_integer(const fake_descriptor *d, cudnnBackendAttributeName_t name, int64_t otherwise);
fake_descriptor *fake_link(const fake_descriptor *d, cudnnBackendAttributeName_t name);
size_t fake_size_of(cudnnBackendAttributeType_t type);

// A tensor, as its descriptor has it.
typedef struct fake_tensor {
  int64_t id, alignment;
  int rank, data, inner, by_value, reordered;
  int64_t dims[FAKE_MOST_RANK], strides[FAKE_MOST_RANK];
  int64_t extent; // one past the farthest element
} fake_tensor;
fake_tensor fake_tensor_of(const fake_descriptor *d);
// Whether products of the graph are added to what a buffer holds, in any order.
int fake_adds_up(const fake_descriptor *graph);
size_t fake_element_bytes(const fake_tensor *t);

// Checks of descriptors that are complete.
void fake_check_tensor(const fake_descriptor *d);
void fake_check_pointwise(const fake_descriptor *d);
void fake_check_matmul(const fake_descriptor *d);
void fake_check_reduction(const fake_descriptor *d);
void fake_check_reshape(const fake_descriptor *d);
void fake_check_windows(const fake_descriptor *d);
void fake_check_convolution(const fake_descriptor *d);
void fake_check_graph(const fake_descriptor *d);

// The operand or result `index` of an operation, NULL past the last; the result is the first.
fake_descriptor *fake_operand(const fake_descriptor *operation, int index);
enum { FAKE_MOST_OPERANDS = 4, FAKE_MOST_TENSORS = 96 };
// The different tensors of a graph, by their ids; returns how many.
int fake_tensors_of(const fake_descriptor *graph, fake_tensor *out);

// An operation of convolution: its result is y, dx or dw, and operands 1 and 2 are the others in
// the order x (or dx), w, y. `spatial` dimensions; strides and so on of each.
typedef struct fake_convolution {
  int kind, spatial; // FAKE_FORWARD, ...
  fake_tensor x, w, y;
  int64_t stride[3], dilation[3], before[3], after[3];
} fake_convolution;
enum { FAKE_FORWARD, FAKE_BACKWARD_DATA, FAKE_BACKWARD_FILTER };
// 0: the operation is another one.
int fake_convolution_of(const fake_descriptor *operation, fake_convolution *out);
// Whether the library has an engine for it, in `*out_workspace` bytes; as it was asked of described
// devices.
int fake_convolution_taken(const fake_convolution *c, int inner, int64_t *out_workspace);
// On values at their tensors' places: the result's are written.
void fake_convolve(const fake_convolution *c, float *x, float *w, float *y);

// A graph on given memory: values by the tensors' order in fake_tensors_of, NULL for inner ones.
void fake_evaluate(const fake_descriptor *graph, void *const *at);
#endif
