// cuDNN's library, and the description of graphs.
#include "runtime/cuda/dnn_inside.h"
#include "runtime/cuda/symbol.h"
#include "runtime/rank.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

// The oldest whose attention is right where the number of keys is no multiple of 128.
enum { LEAST_VERSION = 91600 };

static int load(bd_dnn *d) {
  return bd_cuda_symbol(d->library, "cudnnGetVersion", &d->get_version) &&
         bd_cuda_symbol(d->library, "cudnnGetErrorString", &d->get_error_string) &&
         bd_cuda_symbol(d->library, "cudnnGetLastErrorString", &d->get_last_error_string) &&
         bd_cuda_symbol(d->library, "cudnnCreate", &d->create) &&
         bd_cuda_symbol(d->library, "cudnnDestroy", &d->destroy) &&
         bd_cuda_symbol(d->library, "cudnnSetStream", &d->set_stream) &&
         bd_cuda_symbol(d->library, "cudnnBackendCreateDescriptor", &d->create_descriptor) &&
         bd_cuda_symbol(d->library, "cudnnBackendDestroyDescriptor", &d->destroy_descriptor) &&
         bd_cuda_symbol(d->library, "cudnnBackendFinalize", &d->finalize) &&
         bd_cuda_symbol(d->library, "cudnnBackendSetAttribute", &d->set_attribute) &&
         bd_cuda_symbol(d->library, "cudnnBackendGetAttribute", &d->get_attribute) &&
         bd_cuda_symbol(d->library, "cudnnBackendExecute", &d->execute);
}

// The reason why it cannot be used, or NULL.
static const char *refusal(bd_dnn *d, char *why, size_t why_bytes) {
  if (!load(d)) return "the library lacks functions of cuDNN 9";
  d->version = (int)d->get_version();
  if (d->version < LEAST_VERSION) {
    snprintf(why, why_bytes, "cuDNN %d.%d is older than 9.16", d->version / 10000,
             d->version / 100 % 100);
    return why;
  }
  const int status = d->create(&d->handle);
  return status == BD_DNN_SUCCESS ? NULL : d->get_error_string(status);
}

bd_dnn *bd_dnn_open(char *why, size_t why_bytes) {
  bd_dnn *const d = bd_rt_allocate(1, sizeof *d);
  d->library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
  if (!d->library) {
    snprintf(why, why_bytes, "libcudnn.so.9 is not found");
    free(d);
    return NULL;
  }
  const char *const reason = refusal(d, why, why_bytes);
  if (!reason) return d;
  if (reason != why) snprintf(why, why_bytes, "%s", reason);
  dlclose(d->library);
  free(d);
  return NULL;
}

void bd_dnn_close(bd_dnn *dnn) {
  if (!dnn) return;
  dnn->destroy(dnn->handle);
  dlclose(dnn->library);
  free(dnn);
}

int bd_dnn_version(const bd_dnn *dnn) {
  return dnn->version;
}

int bd_dnn_accept(bd_dnn_graph *g, int status, const char *call) {
  char more[BD_DNN_WHY_BYTES / 2] = "";
  if (g->refused || status == BD_DNN_SUCCESS) return !g->refused;
  g->refused = 1;
  g->dnn->get_last_error_string(more, sizeof more);
  snprintf(g->why, sizeof g->why, "%s of %s: %s", g->dnn->get_error_string(status), call, more);
  return 0;
}

bd_dnn_graph *bd_dnn_begin(bd_dnn *dnn) {
  bd_dnn_graph *const g = bd_rt_allocate(1, sizeof *g);
  g->dnn = dnn;
  return g;
}

void bd_dnn_discard(bd_dnn_graph *g) {
  for (int i = g->item_count - 1; i >= 0; i--)
    g->dnn->destroy_descriptor(g->items[i]);
  free(g);
}

bd_dnn_item bd_dnn_create(bd_dnn_graph *g, bd_dnn_kind kind) {
  bd_dnn_item item = NULL;
  if (g->item_count == BD_DNN_MOST_ITEMS)
    bd_rt_fail(BD_RT_EXIT_INTERNAL, "a graph of more than %d descriptors", BD_DNN_MOST_ITEMS);
  if (g->refused ||
      !bd_dnn_accept(g, g->dnn->create_descriptor((int)kind, &item), "a descriptor's creation"))
    return NULL;
  return g->items[g->item_count++] = item;
}

void bd_dnn_set(bd_dnn_graph *g, bd_dnn_item item, const bd_dnn_attribute *a) {
  char call[32];
  snprintf(call, sizeof call, "attribute %d", (int)a->name);
  if (!g->refused)
    bd_dnn_accept(g, g->dnn->set_attribute(item, (int)a->name, (int)a->type, a->count, a->values),
                  call);
}

bd_dnn_item bd_dnn_make(bd_dnn_graph *g, bd_dnn_kind kind, const bd_dnn_attribute *attributes,
                        int count) {
  char call[32];
  const bd_dnn_item item = bd_dnn_create(g, kind);
  for (int i = 0; i < count; i++)
    bd_dnn_set(g, item, &attributes[i]);
  snprintf(call, sizeof call, "descriptor %d", (int)kind);
  if (g->refused || !bd_dnn_accept(g, g->dnn->finalize(item), call)) return NULL;
  return item;
}

void bd_dnn_operation(bd_dnn_graph *g, bd_dnn_kind kind, const bd_dnn_attribute *attributes,
                      int count) {
  if (g->operation_count == BD_DNN_MOST_OPERATIONS)
    bd_rt_fail(BD_RT_EXIT_INTERNAL, "a graph of more than %d operations", BD_DNN_MOST_OPERATIONS);
  const bd_dnn_item item = bd_dnn_make(g, kind, attributes, count);
  if (item) g->operations[g->operation_count++] = item;
}

static bd_dnn_item make_tensor(bd_dnn_graph *g, const bd_dnn_tensor *t, bool inner, bool constant) {
  const int64_t id = ++g->last_id, alignment = t->alignment;
  const int order = BD_DNN_TENSOR_REORDERING_F16x16;
  const bd_dnn_attribute attributes[] = {
      {BD_DNN_TENSOR_UNIQUE_ID, BD_DNN_TYPE_INT64, 1, &id},
      {BD_DNN_TENSOR_DATA_TYPE, BD_DNN_TYPE_DATA_TYPE, 1, &t->data},
      {BD_DNN_TENSOR_BYTE_ALIGNMENT, BD_DNN_TYPE_INT64, 1, &alignment},
      {BD_DNN_TENSOR_DIMENSIONS, BD_DNN_TYPE_INT64, t->rank, t->dims},
      {BD_DNN_TENSOR_STRIDES, BD_DNN_TYPE_INT64, t->rank, t->strides},
      {BD_DNN_TENSOR_IS_VIRTUAL, BD_DNN_TYPE_BOOLEAN, 1, &inner},
      {BD_DNN_TENSOR_IS_BY_VALUE, BD_DNN_TYPE_BOOLEAN, 1, &constant},
      {BD_DNN_TENSOR_REORDERING_MODE, BD_DNN_TYPE_TENSOR_REORDERING_MODE, 1, &order}};
  return bd_dnn_make(g, BD_DNN_TENSOR_DESCRIPTOR, attributes,
                     (int)(sizeof attributes / sizeof *attributes) - !t->reordered);
}

bd_dnn_item bd_dnn_inner(bd_dnn_graph *g, const bd_dnn_tensor *tensor) {
  return make_tensor(g, tensor, true, false);
}

static void expect_room(const bd_dnn_graph *g) {
  if (g->buffer_count + g->constant_count == BD_DNN_MOST_ADDRESSES)
    bd_rt_fail(BD_RT_EXIT_INTERNAL, "a graph of more than %d buffers", BD_DNN_MOST_ADDRESSES);
}

bd_dnn_item bd_dnn_buffer(bd_dnn_graph *g, const bd_dnn_tensor *tensor) {
  expect_room(g);
  const bd_dnn_item item = make_tensor(g, tensor, false, false);
  g->buffer[g->buffer_count++] = g->last_id;
  return item;
}

static bd_dnn_item add_constant(bd_dnn_graph *g, int rank, bd_dnn_data data, bd_dnn_value value) {
  bd_dnn_tensor one = {.data = data, .rank = rank, .alignment = sizeof value};
  expect_room(g);
  for (int i = 0; i < rank; i++)
    one.dims[i] = one.strides[i] = 1;
  const bd_dnn_item item = make_tensor(g, &one, false, true);
  g->value[g->constant_count] = value;
  g->constant[g->constant_count++] = g->last_id;
  return item;
}

bd_dnn_item bd_dnn_constant(bd_dnn_graph *g, int rank, float value) {
  return add_constant(g, rank, BD_DNN_FLOAT, (bd_dnn_value){.real = value});
}

bd_dnn_item bd_dnn_integer(bd_dnn_graph *g, int rank, int32_t value) {
  return add_constant(g, rank, BD_DNN_INT32, (bd_dnn_value){.integer = value});
}

static bd_dnn_attribute link_to(bd_dnn_name name, const bd_dnn_item *item) {
  return (bd_dnn_attribute){name, BD_DNN_TYPE_BACKEND_DESCRIPTOR, 1, item};
}

void bd_dnn_add_pointwise(bd_dnn_graph *g, const bd_dnn_pointwise *op) {
  const bd_dnn_attribute how[] = {{BD_DNN_POINTWISE_MODE, BD_DNN_TYPE_POINTWISE_MODE, 1, &op->mode},
                                  {BD_DNN_POINTWISE_MATH_PREC, BD_DNN_TYPE_DATA_TYPE, 1, &op->math},
                                  {BD_DNN_POINTWISE_AXIS, BD_DNN_TYPE_INT64, 1, &op->axis}};
  const bd_dnn_item mode =
      bd_dnn_make(g, BD_DNN_POINTWISE_DESCRIPTOR, how, op->mode == BD_DNN_GEN_INDEX ? 3 : 2);
  const int back = op->mode == BD_DNN_TANH_BWD;
  const bd_dnn_name y = back ? BD_DNN_OPERATION_POINTWISE_DXDESC : BD_DNN_OPERATION_POINTWISE_YDESC,
                    b = back ? BD_DNN_OPERATION_POINTWISE_DYDESC : BD_DNN_OPERATION_POINTWISE_BDESC;
  bd_dnn_attribute list[5] = {link_to(BD_DNN_OPERATION_POINTWISE_PW_DESCRIPTOR, &mode),
                              link_to(BD_DNN_OPERATION_POINTWISE_XDESC, &op->x),
                              link_to(y, &op->y)};
  int count = 3;
  if (op->b) list[count++] = link_to(b, &op->b);
  if (op->t) list[count++] = link_to(BD_DNN_OPERATION_POINTWISE_TDESC, &op->t);
  bd_dnn_operation(g, BD_DNN_OPERATION_POINTWISE_DESCRIPTOR, list, count);
}

void bd_dnn_add_matmul(bd_dnn_graph *g, bd_dnn_item a, bd_dnn_item b, bd_dnn_item c) {
  const bd_dnn_data math = BD_DNN_FLOAT;
  const bd_dnn_attribute how[] = {{BD_DNN_MATMUL_COMP_TYPE, BD_DNN_TYPE_DATA_TYPE, 1, &math}};
  const bd_dnn_item product = bd_dnn_make(g, BD_DNN_MATMUL_DESCRIPTOR, how, 1);
  const bd_dnn_attribute list[] = {
      link_to(BD_DNN_OPERATION_MATMUL_DESC, &product), link_to(BD_DNN_OPERATION_MATMUL_ADESC, &a),
      link_to(BD_DNN_OPERATION_MATMUL_BDESC, &b), link_to(BD_DNN_OPERATION_MATMUL_CDESC, &c)};
  bd_dnn_operation(g, BD_DNN_OPERATION_MATMUL_DESCRIPTOR, list, 4);
}

void bd_dnn_add_reduction(bd_dnn_graph *g, bd_dnn_reduction op, bd_dnn_item x, bd_dnn_item y) {
  const bd_dnn_data math = BD_DNN_FLOAT;
  const bd_dnn_attribute how[] = {
      {BD_DNN_REDUCTION_OPERATOR, BD_DNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op},
      {BD_DNN_REDUCTION_COMP_TYPE, BD_DNN_TYPE_DATA_TYPE, 1, &math}};
  const bd_dnn_item reduction = bd_dnn_make(g, BD_DNN_REDUCTION_DESCRIPTOR, how, 2);
  const bd_dnn_attribute list[] = {link_to(BD_DNN_OPERATION_REDUCTION_DESC, &reduction),
                                   link_to(BD_DNN_OPERATION_REDUCTION_XDESC, &x),
                                   link_to(BD_DNN_OPERATION_REDUCTION_YDESC, &y)};
  bd_dnn_operation(g, BD_DNN_OPERATION_REDUCTION_DESCRIPTOR, list, 3);
}

void bd_dnn_add_reshape(bd_dnn_graph *g, bd_dnn_item x, bd_dnn_item y) {
  const bd_dnn_attribute list[] = {link_to(BD_DNN_OPERATION_RESHAPE_XDESC, &x),
                                   link_to(BD_DNN_OPERATION_RESHAPE_YDESC, &y)};
  bd_dnn_operation(g, BD_DNN_OPERATION_RESHAPE_DESCRIPTOR, list, 2);
}
