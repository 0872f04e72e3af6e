// What cuDNN asks of tensors, operations and graphs.
#include "tests/device/cudnn/descriptor.h"

#include <string.h>

fake_tensor fake_tensor_of(const fake_descriptor *d) {
  const fake_attribute *const dims = fake_get(d, CUDNN_ATTR_TENSOR_DIMENSIONS),
                              *const strides = fake_get(d, CUDNN_ATTR_TENSOR_STRIDES);
  fake_tensor t = {.id = fake_integer(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0),
                   .alignment = fake_integer(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 0),
                   .rank = (int)dims->count,
                   .data = (int)fake_integer(d, CUDNN_ATTR_TENSOR_DATA_TYPE, -1),
                   .inner = (int)fake_integer(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, 0),
                   .by_value = (int)fake_integer(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, 0),
                   .reordered = fake_integer(d, CUDNN_ATTR_TENSOR_REORDERING_MODE, 0) ==
                                CUDNN_TENSOR_REORDERING_F16x16,
                   .extent = 1};
  memcpy(t.dims, dims->values, (size_t)t.rank * sizeof *t.dims);
  memcpy(t.strides, strides->values, (size_t)t.rank * sizeof *t.strides);
  for (int i = 0; i < t.rank; i++)
    t.extent += (t.dims[i] - 1) * t.strides[i];
  return t;
}

size_t fake_element_bytes(const fake_tensor *t) {
  return t->data == CUDNN_DATA_FLOAT || t->data == CUDNN_DATA_INT32 ? 4
         : t->data == CUDNN_DATA_BOOLEAN                            ? 1
                                                                    : 2;
}

void fake_check_tensor(const fake_descriptor *d) {
  static const char call[] = "a tensor";
  if (fake_get(d, CUDNN_ATTR_TENSOR_DIMENSIONS)->count !=
      fake_get(d, CUDNN_ATTR_TENSOR_STRIDES)->count)
    bd_fake_fault(call, "as many strides as dimensions");
  const fake_tensor t = fake_tensor_of(d);
  if (t.rank < 3) bd_fake_fault(call, "%d dimensions, of 3 to 8", t.rank);
  if (t.data != CUDNN_DATA_FLOAT && t.data != CUDNN_DATA_HALF && t.data != CUDNN_DATA_BFLOAT16 &&
      !(t.inner && t.data == CUDNN_DATA_BOOLEAN) &&
      !((t.inner || t.by_value) && t.data == CUDNN_DATA_INT32))
    bd_fake_fault(call, "data of type %d", t.data);
  if (t.alignment < (int64_t)fake_element_bytes(&t) || t.alignment & (t.alignment - 1))
    bd_fake_fault(call, "an alignment of %lld", (long long)t.alignment);
  for (int i = 0; i < t.rank; i++)
    if (t.dims[i] < 1 || t.strides[i] < 1)
      bd_fake_fault(call, "dimension %d of %lld elements, stride %lld", i, (long long)t.dims[i],
                    (long long)t.strides[i]);
  if (t.by_value && (t.inner || t.extent != 1))
    bd_fake_fault(call, "%lld elements by value", (long long)t.extent);
}

static const cudnnBackendAttributeName_t links[][FAKE_MOST_OPERANDS] = {
    {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
     CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_ATTR_OPERATION_POINTWISE_TDESC},
    {CUDNN_ATTR_OPERATION_MATMUL_CDESC, CUDNN_ATTR_OPERATION_MATMUL_ADESC,
     CUDNN_ATTR_OPERATION_MATMUL_BDESC},
    {CUDNN_ATTR_OPERATION_REDUCTION_YDESC, CUDNN_ATTR_OPERATION_REDUCTION_XDESC},
    {CUDNN_ATTR_OPERATION_RESHAPE_YDESC, CUDNN_ATTR_OPERATION_RESHAPE_XDESC},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY}};

// Of a derivative, its result is the gradient of x, and the second operand that of y.
static cudnnBackendAttributeName_t link_of(const fake_descriptor *d, int row, int index) {
  if (row > 0 || !fake_get(d, CUDNN_ATTR_OPERATION_POINTWISE_DXDESC)) return links[row][index];
  return index == 0   ? CUDNN_ATTR_OPERATION_POINTWISE_DXDESC
         : index == 2 ? CUDNN_ATTR_OPERATION_POINTWISE_DYDESC
                      : links[row][index];
}

fake_descriptor *fake_operand(const fake_descriptor *d, int index) {
  const int row = d->kind == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR                     ? 0
                  : d->kind == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR                      ? 1
                  : d->kind == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR                   ? 2
                  : d->kind == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR                     ? 3
                  : d->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR         ? 4
                  : d->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR   ? 5
                  : d->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR ? 6
                                                                                              : -1;
  if (row < 0) bd_fake_fault("a graph", "an operation of kind %d", (int)d->kind);
  if (index >= FAKE_MOST_OPERANDS || !links[row][index]) return NULL;
  fake_descriptor *const at = fake_link(d, link_of(d, row, index));
  return at ? fake_descriptor_of("an operation", at, CUDNN_BACKEND_TENSOR_DESCRIPTOR, 1) : NULL;
}

static fake_tensor operand(const fake_descriptor *d, int index) {
  return fake_tensor_of(fake_operand(d, index));
}

static fake_descriptor *manner(const fake_descriptor *d, cudnnBackendAttributeName_t name,
                               cudnnBackendDescriptorType_t kind) {
  return fake_descriptor_of("an operation", fake_link(d, name), kind, 1);
}

// Each dimension of x as long as y's, or 1.
static void check_broadcast(const fake_tensor *x, const fake_tensor *y) {
  for (int i = 0; i < y->rank; i++)
    if (x->rank != y->rank || (x->dims[i] != y->dims[i] && x->dims[i] != 1))
      bd_fake_fault("a pointwise operation", "dimension %d of %lld elements for %lld", i,
                    (long long)x->dims[i], (long long)y->dims[i]);
}

void fake_check_pointwise(const fake_descriptor *d) {
  static const char call[] = "a pointwise operation";
  const fake_descriptor *const how =
      manner(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  const int mode = (int)fake_integer(how, CUDNN_ATTR_POINTWISE_MODE, -1);
  const int math = (int)fake_integer(how, CUDNN_ATTR_POINTWISE_MATH_PREC, -1);
  const int index = mode == CUDNN_POINTWISE_GEN_INDEX,
            compares = mode == CUDNN_POINTWISE_CMP_GE || mode == CUDNN_POINTWISE_CMP_GT;
  const int unary = index || mode == CUDNN_POINTWISE_IDENTITY || mode == CUDNN_POINTWISE_EXP ||
                    mode == CUDNN_POINTWISE_LOG || mode == CUDNN_POINTWISE_TANH_FWD;
  const int back = mode == CUDNN_POINTWISE_TANH_BWD;
  const int selects = mode == CUDNN_POINTWISE_BINARY_SELECT;
  if ((fake_get(d, CUDNN_ATTR_OPERATION_POINTWISE_DXDESC) != NULL) != back ||
      (fake_get(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC) == NULL) != back)
    bd_fake_fault(call, "mode %d with the wrong result", mode);
  const fake_tensor y = operand(d, 0);
  if ((fake_operand(d, 2) == NULL) != unary || (fake_operand(d, 3) != NULL) != selects)
    bd_fake_fault(call, "mode %d with too few or too many operands", mode);
  for (int i = 1; i < FAKE_MOST_OPERANDS; i++)
    if (fake_operand(d, i)) {
      const fake_tensor x = operand(d, i);
      check_broadcast(&x, &y);
      if ((x.data == CUDNN_DATA_BOOLEAN) != (i == 3))
        bd_fake_fault(call, "operand %d has data of type %d", i, x.data);
    }
  const int moves = (mode == CUDNN_POINTWISE_ADD || mode == CUDNN_POINTWISE_SUB) &&
                    y.data == CUDNN_DATA_INT32; // indices
  for (int i = 1; moves && i < 3; i++)
    if (operand(d, i).data != CUDNN_DATA_INT32)
      bd_fake_fault(call, "an index and data of type %d", operand(d, i).data);
  const int expected = index || moves ? CUDNN_DATA_INT32
                       : compares     ? CUDNN_DATA_BOOLEAN
                                      : CUDNN_DATA_FLOAT;
  if (math != expected || ((index || compares) && y.data != expected))
    bd_fake_fault(call, "mode %d computed as type %d to type %d", mode, math, y.data);
  const fake_attribute *const axis = fake_get(how, CUDNN_ATTR_POINTWISE_AXIS);
  if ((axis != NULL) != index ||
      (index && fake_integer(how, CUDNN_ATTR_POINTWISE_AXIS, -1) >= y.rank))
    bd_fake_fault(call, "mode %d and its axis", mode);
}

// Of heads that share another's: as many groups as that has heads.
static void check_heads(int64_t many, int64_t few) {
  if (many % few)
    bd_fake_fault("an operation", "%lld heads share %lld", (long long)many, (long long)few);
}

void fake_check_matmul(const fake_descriptor *d) {
  static const char call[] = "a matrix product";
  const fake_descriptor *const how =
      manner(d, CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  const fake_tensor c = operand(d, 0), a = operand(d, 1), b = operand(d, 2);
  const int last = c.rank - 1;
  if (fake_integer(how, CUDNN_ATTR_MATMUL_COMP_TYPE, -1) != CUDNN_DATA_FLOAT)
    bd_fake_fault(call, "not computed in f32");
  if (a.rank != c.rank || b.rank != c.rank || a.dims[last] != b.dims[last - 1] ||
      a.dims[last - 1] != c.dims[last - 1] || b.dims[last] != c.dims[last])
    bd_fake_fault(call, "shapes that do not fit");
  if (a.data != b.data || a.data == CUDNN_DATA_FLOAT)
    bd_fake_fault(call, "factors of types %d and %d", a.data, b.data);
  for (int i = 0; i < last - 1; i++) {
    if (a.dims[i] != c.dims[i]) bd_fake_fault(call, "dimension %d of a is not that of c", i);
    check_heads(c.dims[i], b.dims[i]);
  }
}

void fake_check_reduction(const fake_descriptor *d) {
  const fake_descriptor *const how =
      manner(d, CUDNN_ATTR_OPERATION_REDUCTION_DESC, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  const fake_tensor y = operand(d, 0), x = operand(d, 1);
  const int64_t op = fake_integer(how, CUDNN_ATTR_REDUCTION_OPERATOR, -1);
  if (op != CUDNN_REDUCE_TENSOR_ADD && op != CUDNN_REDUCE_TENSOR_MAX)
    bd_fake_fault("a reduction", "operator %lld", (long long)op);
  if (fake_integer(how, CUDNN_ATTR_REDUCTION_COMP_TYPE, -1) != CUDNN_DATA_FLOAT || x.rank != y.rank)
    bd_fake_fault("a reduction", "its type, or its rank");
  for (int i = 0; i < x.rank; i++)
    check_heads(x.dims[i], y.dims[i]);
}

void fake_check_reshape(const fake_descriptor *d) {
  const fake_tensor y = operand(d, 0), x = operand(d, 1);
  if (x.extent != y.extent) bd_fake_fault("a reshape", "other elements");
}

int fake_tensors_of(const fake_descriptor *graph, fake_tensor *out) {
  const fake_attribute *const ops = fake_get(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
  fake_descriptor *const *const list = ops->values;
  int count = 0;
  for (int64_t o = 0; o < ops->count; o++)
    for (int i = 0; i < FAKE_MOST_OPERANDS; i++) {
      fake_descriptor *const at = fake_operand(list[o], i);
      if (!at) continue;
      const fake_tensor t = fake_tensor_of(at);
      int known = 0;
      for (int k = 0; k < count; k++)
        if (out[k].id == t.id) {
          known = 1;
          if (memcmp(&out[k], &t, sizeof t))
            bd_fake_fault("a graph", "two tensors have the id %lld", (long long)t.id);
        }
      if (known) continue;
      if (count == FAKE_MOST_TENSORS) bd_fake_fault("a graph", "too many tensors");
      out[count++] = t;
    }
  return count;
}

// Every inner tensor is the result of one operation, every other of none or one.
void fake_check_graph(const fake_descriptor *graph) {
  fake_tensor tensors[FAKE_MOST_TENSORS];
  memset(tensors, 0, sizeof tensors);
  const int count = fake_tensors_of(graph, tensors);
  const fake_attribute *const ops = fake_get(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
  fake_descriptor *const *const list = ops->values;
  for (int k = 0; k < count; k++) {
    int made = 0;
    for (int64_t o = 0; o < ops->count; o++)
      made += fake_tensor_of(fake_operand(list[o], 0)).id == tensors[k].id;
    if (made > 1 || (tensors[k].inner && !made) || (tensors[k].by_value && made))
      bd_fake_fault("a graph", "tensor %lld is made by %d operations", (long long)tensors[k].id,
                    made);
  }
}
