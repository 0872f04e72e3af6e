// Descriptors: made, filled, finished, asked and given back.
#include "tests/device/cudnn/descriptor.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC = 0x444E4E };

#define RULE(kind, name, type, least, most)                                                        \
  { CUDNN_BACKEND_##kind##_DESCRIPTOR, CUDNN_ATTR_##name, CUDNN_TYPE_##type, least, most }

static const fake_rule rules[] = {
    RULE(TENSOR, TENSOR_UNIQUE_ID, INT64, 1, 1),
    RULE(TENSOR, TENSOR_DATA_TYPE, DATA_TYPE, 1, 1),
    RULE(TENSOR, TENSOR_BYTE_ALIGNMENT, INT64, 1, 1),
    RULE(TENSOR, TENSOR_DIMENSIONS, INT64, 1, FAKE_MOST_RANK),
    RULE(TENSOR, TENSOR_STRIDES, INT64, 1, FAKE_MOST_RANK),
    RULE(TENSOR, TENSOR_IS_VIRTUAL, BOOLEAN, 0, 1),
    RULE(TENSOR, TENSOR_IS_BY_VALUE, BOOLEAN, 0, 1),
    RULE(TENSOR, TENSOR_REORDERING_MODE, TENSOR_REORDERING_MODE, 0, 1),
    RULE(POINTWISE, POINTWISE_MODE, POINTWISE_MODE, 1, 1),
    RULE(POINTWISE, POINTWISE_MATH_PREC, DATA_TYPE, 1, 1),
    RULE(POINTWISE, POINTWISE_AXIS, INT64, 0, 1),
    RULE(OPERATION_POINTWISE, OPERATION_POINTWISE_PW_DESCRIPTOR, BACKEND_DESCRIPTOR, 1, 1),
    RULE(OPERATION_POINTWISE, OPERATION_POINTWISE_XDESC, BACKEND_DESCRIPTOR, 1, 1),
    RULE(OPERATION_POINTWISE, OPERATION_POINTWISE_BDESC, BACKEND_DESCRIPTOR, 0, 1),
    RULE(OPERATION_POINTWISE, OPERATION_POINTWISE_TDESC, BACKEND_DESCRIPTOR, 0, 1),
    RULE(OPERATION_POINTWISE, OPERATION_POINTWISE_YDESC, BACKEND_DESCRIPTOR, 0, 1),
    RULE(OPERATION_POINTWISE, OPERATION_POINTWISE_DXDESC, BACKEND_DESCRIPTOR, 0, 1),
    RULE(OPERATION_POINTWISE, OPERATION_POINTWISE_DYDESC, BACKEND_DESCRIPTOR, 0, 1),
    RULE(MATMUL, MATMUL_COMP_TYPE, DATA_TYPE, 1, 1),
    RULE(OPERATION_MATMUL, OPERATION_MATMUL_DESC, BACKEND_DESCRIPTOR, 1, 1),
    RULE(OPERATION_MATMUL, OPERATION_MATMUL_ADESC, BACKEND_DESCRIPTOR, 1, 1),
    RULE(OPERATION_MATMUL, OPERATION_MATMUL_BDESC, BACKEND_DESCRIPTOR, 1, 1),
    RULE(OPERATION_MATMUL, OPERATION_MATMUL_CDESC, BACKEND_DESCRIPTOR, 1, 1),
    RULE(REDUCTION, REDUCTION_OPERATOR, REDUCTION_OPERATOR_TYPE, 1, 1),
    RULE(REDUCTION, REDUCTION_COMP_TYPE, DATA_TYPE, 1, 1),
    RULE(OPERATION_REDUCTION, OPERATION_REDUCTION_DESC, BACKEND_DESCRIPTOR, 1, 1),
    RULE(OPERATION_REDUCTION, OPERATION_REDUCTION_XDESC, BACKEND_DESCRIPTOR, 1, 1),
    RULE(OPERATION_REDUCTION, OPERATION_REDUCTION_YDESC, BACKEND_DESCRIPTOR, 1, 1),
    RULE(OPERATION_RESHAPE, OPERATION_RESHAPE_XDESC, BACKEND_DESCRIPTOR, 1, 1),
    RULE(OPERATION_RESHAPE, OPERATION_RESHAPE_YDESC, BACKEND_DESCRIPTOR, 1, 1),
    RULE(CONVOLUTION, CONVOLUTION_COMP_TYPE, DATA_TYPE, 1, 1),
    RULE(CONVOLUTION, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, 1, 1),
    RULE(CONVOLUTION, CONVOLUTION_SPATIAL_DIMS, INT64, 1, 1),
    RULE(CONVOLUTION, CONVOLUTION_DILATIONS, INT64, 1, 3),
    RULE(CONVOLUTION, CONVOLUTION_FILTER_STRIDES, INT64, 1, 3),
    RULE(CONVOLUTION, CONVOLUTION_PRE_PADDINGS, INT64, 1, 3),
    RULE(CONVOLUTION, CONVOLUTION_POST_PADDINGS, INT64, 1, 3),
    RULE(OPERATION_CONVOLUTION_FORWARD, OPERATION_CONVOLUTION_FORWARD_ALPHA, FLOAT, 1, 1),
    RULE(OPERATION_CONVOLUTION_FORWARD, OPERATION_CONVOLUTION_FORWARD_BETA, FLOAT, 1, 1),
    RULE(OPERATION_CONVOLUTION_FORWARD, OPERATION_CONVOLUTION_FORWARD_CONV_DESC, BACKEND_DESCRIPTOR,
         1, 1),
    RULE(OPERATION_CONVOLUTION_FORWARD, OPERATION_CONVOLUTION_FORWARD_W, BACKEND_DESCRIPTOR, 1, 1),
    RULE(OPERATION_CONVOLUTION_FORWARD, OPERATION_CONVOLUTION_FORWARD_X, BACKEND_DESCRIPTOR, 1, 1),
    RULE(OPERATION_CONVOLUTION_FORWARD, OPERATION_CONVOLUTION_FORWARD_Y, BACKEND_DESCRIPTOR, 1, 1),
    RULE(OPERATION_CONVOLUTION_BACKWARD_DATA, OPERATION_CONVOLUTION_BWD_DATA_ALPHA, FLOAT, 1, 1),
    RULE(OPERATION_CONVOLUTION_BACKWARD_DATA, OPERATION_CONVOLUTION_BWD_DATA_BETA, FLOAT, 1, 1),
    RULE(OPERATION_CONVOLUTION_BACKWARD_DATA, OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
         BACKEND_DESCRIPTOR, 1, 1),
    RULE(OPERATION_CONVOLUTION_BACKWARD_DATA, OPERATION_CONVOLUTION_BWD_DATA_W, BACKEND_DESCRIPTOR,
         1, 1),
    RULE(OPERATION_CONVOLUTION_BACKWARD_DATA, OPERATION_CONVOLUTION_BWD_DATA_DX, BACKEND_DESCRIPTOR,
         1, 1),
    RULE(OPERATION_CONVOLUTION_BACKWARD_DATA, OPERATION_CONVOLUTION_BWD_DATA_DY, BACKEND_DESCRIPTOR,
         1, 1),
    RULE(OPERATION_CONVOLUTION_BACKWARD_FILTER, OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, FLOAT, 1,
         1),
    RULE(OPERATION_CONVOLUTION_BACKWARD_FILTER, OPERATION_CONVOLUTION_BWD_FILTER_BETA, FLOAT, 1, 1),
    RULE(OPERATION_CONVOLUTION_BACKWARD_FILTER, OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
         BACKEND_DESCRIPTOR, 1, 1),
    RULE(OPERATION_CONVOLUTION_BACKWARD_FILTER, OPERATION_CONVOLUTION_BWD_FILTER_DW,
         BACKEND_DESCRIPTOR, 1, 1),
    RULE(OPERATION_CONVOLUTION_BACKWARD_FILTER, OPERATION_CONVOLUTION_BWD_FILTER_X,
         BACKEND_DESCRIPTOR, 1, 1),
    RULE(OPERATION_CONVOLUTION_BACKWARD_FILTER, OPERATION_CONVOLUTION_BWD_FILTER_DY,
         BACKEND_DESCRIPTOR, 1, 1),
    RULE(OPERATIONGRAPH, OPERATIONGRAPH_HANDLE, HANDLE, 1, 1),
    RULE(OPERATIONGRAPH, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, 1, 1000),
    RULE(ENGINEHEUR, ENGINEHEUR_OPERATION_GRAPH, BACKEND_DESCRIPTOR, 1, 1),
    RULE(ENGINEHEUR, ENGINEHEUR_MODE, HEUR_MODE, 1, 1),
    RULE(EXECUTION_PLAN, EXECUTION_PLAN_HANDLE, HANDLE, 1, 1),
    RULE(EXECUTION_PLAN, EXECUTION_PLAN_ENGINE_CONFIG, BACKEND_DESCRIPTOR, 1, 1),
    RULE(VARIANT_PACK, VARIANT_PACK_UNIQUE_IDS, INT64, 1, 1000),
    RULE(VARIANT_PACK, VARIANT_PACK_DATA_POINTERS, VOID_PTR, 1, 1000),
    RULE(VARIANT_PACK, VARIANT_PACK_WORKSPACE, VOID_PTR, 1, 1),
};
enum { RULES = sizeof rules / sizeof *rules };

size_t fake_size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
  case CUDNN_TYPE_BOOLEAN:
    return sizeof(bool);
  case CUDNN_TYPE_INT64:
    return sizeof(int64_t);
  case CUDNN_TYPE_HANDLE:
  case CUDNN_TYPE_VOID_PTR:
  case CUDNN_TYPE_BACKEND_DESCRIPTOR:
    return sizeof(void *);
  default:
    return sizeof(int); // enumerations
  }
}

fake_descriptor *fake_descriptor_of(const char *call, cudnnBackendDescriptor_t at,
                                    cudnnBackendDescriptorType_t kind, int finished) {
  fake_descriptor *const d = at;
  if (!d || d->magic != MAGIC) bd_fake_fault(call, "%p is no descriptor", at);
  if ((int)kind >= 0 && d->kind != kind)
    bd_fake_fault(call, "a descriptor of kind %d, not %d", (int)d->kind, (int)kind);
  if (finished && !d->finalized)
    bd_fake_fault(call, "a descriptor of kind %d is not finalized", (int)d->kind);
  return d;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t kind,
                                           cudnnBackendDescriptor_t *descriptor) {
  fake_descriptor *const d = calloc(1, sizeof *d);
  if (!d) abort();
  d->magic = MAGIC;
  d->kind = kind;
  d->engine = -1;
  bd_fake_count.handles++;
  *descriptor = d;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  fake_descriptor *const d = fake_descriptor_of(__func__, descriptor, (int)-1, 0);
  for (int i = 0; i < d->count; i++)
    free(d->attributes[i].values);
  d->magic = 0; // the memory stays, so that its use is found
  d->count = 0;
  bd_fake_count.handles--;
  return CUDNN_STATUS_SUCCESS;
}

const fake_attribute *fake_get(const fake_descriptor *d, cudnnBackendAttributeName_t name) {
  for (int i = 0; i < d->count; i++)
    if (d->attributes[i].name == name) return &d->attributes[i];
  return NULL;
}

int64_t fake_integer(const fake_descriptor *d, cudnnBackendAttributeName_t name,
                     int64_t otherwise) {
  const fake_attribute *const a = fake_get(d, name);
  if (!a) return otherwise;
  if (a->type == CUDNN_TYPE_INT64) return *(const int64_t *)a->values;
  if (a->type == CUDNN_TYPE_BOOLEAN) return *(const bool *)a->values;
  return *(const int *)a->values;
}

fake_descriptor *fake_link(const fake_descriptor *d, cudnnBackendAttributeName_t name) {
  const fake_attribute *const a = fake_get(d, name);
  return a ? *(fake_descriptor *const *)a->values : NULL;
}

static const fake_rule *rule_of(const fake_descriptor *d, cudnnBackendAttributeName_t name) {
  for (int i = 0; i < RULES; i++)
    if (rules[i].kind == d->kind && rules[i].name == name) return &rules[i];
  bd_fake_fault("cudnnBackendSetAttribute", "a descriptor of kind %d has no attribute %d",
                (int)d->kind, (int)name);
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *values) {
  fake_descriptor *const d = fake_descriptor_of(__func__, descriptor, (int)-1, 0);
  const fake_rule *const rule = rule_of(d, name);
  if (d->finalized) bd_fake_fault(__func__, "attribute %d of a finalized descriptor", (int)name);
  if (type != rule->type || count < 1 || count > rule->most)
    bd_fake_fault(__func__, "attribute %d: %lld values of type %d", (int)name, (long long)count,
                  (int)type);
  if (fake_get(d, name)) bd_fake_fault(__func__, "attribute %d is set twice", (int)name);
  for (int64_t i = 0; type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < count; i++)
    fake_descriptor_of(__func__, ((void *const *)values)[i], (int)-1, 1);
  const size_t bytes = (size_t)count * fake_size_of(type);
  void *const copy = malloc(bytes);
  if (!copy) abort();
  memcpy(copy, values, bytes);
  d->attributes[d->count++] = (fake_attribute){name, type, count, copy};
  return CUDNN_STATUS_SUCCESS;
}

// Finishes what is made by the caller; engines are in engine.c.
cudnnStatus_t fake_finish_engine(fake_descriptor *d);

static void check_complete(const fake_descriptor *d) {
  for (int i = 0; i < RULES; i++)
    if (rules[i].kind == d->kind && rules[i].least > 0 && !fake_get(d, rules[i].name))
      bd_fake_fault("cudnnBackendFinalize", "a descriptor of kind %d without attribute %d",
                    (int)d->kind, (int)rules[i].name);
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  fake_descriptor *const d = fake_descriptor_of(__func__, descriptor, (int)-1, 0);
  if (d->finalized) bd_fake_fault(__func__, "a descriptor is finalized twice");
  check_complete(d);
  d->finalized = 1;
  switch (d->kind) {
  case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
    fake_check_tensor(d);
    return CUDNN_STATUS_SUCCESS;
  case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
    fake_check_pointwise(d);
    return CUDNN_STATUS_SUCCESS;
  case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
    fake_check_matmul(d);
    return CUDNN_STATUS_SUCCESS;
  case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
    fake_check_reduction(d);
    return CUDNN_STATUS_SUCCESS;
  case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
    fake_check_reshape(d);
    return CUDNN_STATUS_SUCCESS;
  case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
    fake_check_windows(d);
    return CUDNN_STATUS_SUCCESS;
  case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
  case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
  case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
    fake_check_convolution(d);
    return CUDNN_STATUS_SUCCESS;
  case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
    fake_check_graph(d);
    return CUDNN_STATUS_SUCCESS;
  case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
  case CUDNN_BACKEND_MATMUL_DESCRIPTOR:
  case CUDNN_BACKEND_REDUCTION_DESCRIPTOR:
    return CUDNN_STATUS_SUCCESS;
  default:
    return fake_finish_engine(d);
  }
}
