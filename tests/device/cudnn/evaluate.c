// A graph, operation by operation in f32, each result rounded to its type.
#include "tests/device/cudnn/descriptor.h"
#include "tests/device/fake/half.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// A tensor's values by their places; those between its elements are no numbers.
typedef struct values {
  fake_tensor shape;
  float *data;
  int known;
} values;

typedef struct evaluation {
  int count;
  values tensors[FAKE_MOST_TENSORS];
} evaluation;

static bd_fake_half half_of(const fake_tensor *t) {
  return t->data == CUDNN_DATA_BFLOAT16 ? bd_fake_bf16 : bd_fake_f16;
}

static int is_half(const fake_tensor *t) {
  return t->data == CUDNN_DATA_BFLOAT16 || t->data == CUDNN_DATA_HALF;
}

static float rounded(const fake_tensor *t, float value) {
  return is_half(t) ? bd_fake_of_half(half_of(t), bd_fake_to_half(half_of(t), value)) : value;
}

// Goes to the next index of a tensor; 0 after the last.
static int next(const fake_tensor *t, int64_t *index) {
  for (int i = t->rank - 1; i >= 0; i--) {
    if (++index[i] < t->dims[i]) return 1;
    index[i] = 0;
  }
  return 0;
}

// Where the element for an index of a tensor of `like` lies: shared dimensions are shorter.
static int64_t place(const fake_tensor *t, const fake_tensor *like, const int64_t *index) {
  int64_t at = 0;
  for (int i = 0; i < t->rank; i++)
    at += (like->dims[i] == t->dims[i] ? index[i] : index[i] / (like->dims[i] / t->dims[i])) *
          t->strides[i];
  return at;
}

static values *find(evaluation *e, const fake_descriptor *operation, int index) {
  const fake_descriptor *const at = fake_operand(operation, index);
  if (!at) return NULL;
  const int64_t id = fake_integer(at, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
  for (int i = 0; i < e->count; i++)
    if (e->tensors[i].shape.id == id) return &e->tensors[i];
  abort();
}

static float apply(int mode, float x, float b, float t) {
  switch (mode) {
  case CUDNN_POINTWISE_IDENTITY:
    return x;
  case CUDNN_POINTWISE_ADD:
    return x + b;
  case CUDNN_POINTWISE_SUB:
    return x - b;
  case CUDNN_POINTWISE_MUL:
    return x * b;
  case CUDNN_POINTWISE_DIV:
    return x / b;
  case CUDNN_POINTWISE_EXP:
    return expf(x);
  case CUDNN_POINTWISE_LOG:
    return logf(x);
  case CUDNN_POINTWISE_TANH_FWD:
    return tanhf(x);
  case CUDNN_POINTWISE_TANH_BWD:
    return b * (1 - tanhf(x) * tanhf(x));
  case CUDNN_POINTWISE_CMP_GT:
    return x > b;
  case CUDNN_POINTWISE_CMP_GE:
    return x >= b;
  case CUDNN_POINTWISE_BINARY_SELECT:
    return t != 0 ? x : b;
  default:
    bd_fake_fault("a pointwise operation", "mode %d", mode);
  }
}

static void pointwise(evaluation *e, const fake_descriptor *op) {
  const fake_descriptor *const how = fake_link(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  const int mode = (int)fake_integer(how, CUDNN_ATTR_POINTWISE_MODE, -1);
  const int64_t axis = fake_integer(how, CUDNN_ATTR_POINTWISE_AXIS, 0);
  values *const y = find(e, op, 0);
  const values *from[FAKE_MOST_OPERANDS] = {NULL};
  for (int i = 1; i < FAKE_MOST_OPERANDS; i++)
    from[i] = find(e, op, i);
  int64_t index[FAKE_MOST_RANK] = {0};
  do {
    float in[FAKE_MOST_OPERANDS] = {0};
    for (int i = 1; i < FAKE_MOST_OPERANDS; i++)
      if (from[i]) in[i] = from[i]->data[place(&from[i]->shape, &y->shape, index)];
    y->data[place(&y->shape, &y->shape, index)] =
        mode == CUDNN_POINTWISE_GEN_INDEX ? (float)index[axis]
                                          : rounded(&y->shape, apply(mode, in[1], in[2], in[3]));
  } while (next(&y->shape, index));
}

static void matmul(evaluation *e, const fake_descriptor *op) {
  values *const c = find(e, op, 0);
  const values *const a = find(e, op, 1), *const b = find(e, op, 2);
  const int last = c->shape.rank - 1;
  int64_t index[FAKE_MOST_RANK] = {0};
  do {
    // Heads of b may be shared; the two last dimensions differ from c's.
    int64_t from_a = 0, from_b = 0;
    float *const out = &c->data[place(&c->shape, &c->shape, index)];
    float sum = c->shape.reordered ? *out : 0;
    for (int i = 0; i < last - 1; i++) {
      from_a += index[i] * a->shape.strides[i];
      from_b += index[i] / (c->shape.dims[i] / b->shape.dims[i]) * b->shape.strides[i];
    }
    from_a += index[last - 1] * a->shape.strides[last - 1];
    from_b += index[last] * b->shape.strides[last];
    for (int64_t k = 0; k < a->shape.dims[last]; k++)
      sum += a->data[from_a + k * a->shape.strides[last]] *
             b->data[from_b + k * b->shape.strides[last - 1]];
    *out = rounded(&c->shape, sum);
  } while (next(&c->shape, index));
}

static void reduce(evaluation *e, const fake_descriptor *op) {
  const fake_descriptor *const how = fake_link(op, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
  const int adds = fake_integer(how, CUDNN_ATTR_REDUCTION_OPERATOR, -1) == CUDNN_REDUCE_TENSOR_ADD;
  values *const y = find(e, op, 0);
  const values *const x = find(e, op, 1);
  int64_t index[FAKE_MOST_RANK] = {0};
  for (int64_t i = 0; i < y->shape.extent; i++)
    y->data[i] = adds ? 0 : -INFINITY;
  do {
    float *const to = &y->data[place(&y->shape, &x->shape, index)];
    const float from = x->data[place(&x->shape, &x->shape, index)];
    *to = adds ? *to + from : fmaxf(*to, from);
  } while (next(&x->shape, index));
  for (int64_t i = 0; i < y->shape.extent; i++)
    y->data[i] = rounded(&y->shape, y->data[i]);
}

static void reshape(evaluation *e, const fake_descriptor *op) {
  values *const y = find(e, op, 0);
  memcpy(y->data, find(e, op, 1)->data, (size_t)y->shape.extent * sizeof *y->data);
}

// The windows of a convolution, its result rounded.
static void convolve(evaluation *e, const fake_descriptor *op, const fake_convolution *c) {
  values *const made = find(e, op, 0), *const a = find(e, op, 1), *const b = find(e, op, 2);
  if (c->kind == FAKE_FORWARD)
    fake_convolve(c, a->data, b->data, made->data);
  else if (c->kind == FAKE_BACKWARD_DATA)
    fake_convolve(c, made->data, a->data, b->data);
  else
    fake_convolve(c, a->data, made->data, b->data);
  for (int64_t i = 0; i < made->shape.extent; i++)
    made->data[i] = rounded(&made->shape, made->data[i]);
}

static int ready(evaluation *e, const fake_descriptor *op) {
  for (int i = 1; i < FAKE_MOST_OPERANDS; i++) {
    const values *const x = find(e, op, i);
    if (x && !x->known) return 0;
  }
  return !find(e, op, 0)->known;
}

static void run(evaluation *e, const fake_descriptor *op) {
  fake_convolution windows;
  if (fake_convolution_of(op, &windows))
    convolve(e, op, &windows);
  else if (op->kind == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
    pointwise(e, op);
  else if (op->kind == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
    matmul(e, op);
  else if (op->kind == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
    reduce(e, op);
  else
    reshape(e, op);
  find(e, op, 0)->known = 1;
}

static float load(const fake_tensor *t, const char *at, int64_t place_of) {
  if (t->data == CUDNN_DATA_INT32) return (float)((const int32_t *)(const void *)at)[place_of];
  return is_half(t) ? bd_fake_of_half(half_of(t), ((const uint16_t *)(const void *)at)[place_of])
                    : ((const float *)(const void *)at)[place_of];
}

static void store(const fake_tensor *t, char *at, int64_t place_of, float value) {
  if (is_half(t))
    ((uint16_t *)(void *)at)[place_of] = bd_fake_to_half(half_of(t), value);
  else
    ((float *)(void *)at)[place_of] = value;
}

static void copy(const values *v, char *at, int out) {
  int64_t index[FAKE_MOST_RANK] = {0};
  do {
    const int64_t i = place(&v->shape, &v->shape, index);
    if (out)
      store(&v->shape, at, i, v->data[i]);
    else
      v->data[i] = load(&v->shape, at, i);
  } while (next(&v->shape, index));
}

static void open(evaluation *e, const fake_descriptor *graph, void *const *at) {
  fake_tensor shapes[FAKE_MOST_TENSORS];
  const fake_attribute *const ops = fake_get(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
  const long long clears = bd_fake_setting("BD_FAKE_CUDNN_CLEARS", 0); // what it adds up in
  memset(shapes, 0, sizeof shapes);
  e->count = fake_tensors_of(graph, shapes);
  for (int i = 0; i < e->count; i++)
    e->tensors[i].shape = shapes[i];
  for (int i = 0; i < e->count; i++) {
    values *const v = &e->tensors[i];
    *v = (values){shapes[i], malloc((size_t)shapes[i].extent * sizeof(float)), !shapes[i].inner};
    if (!v->data) abort();
    for (int64_t k = 0; k < shapes[i].extent; k++)
      v->data[k] = NAN;
    for (int64_t o = 0; o < ops->count; o++)
      if (find(e, ((fake_descriptor *const *)ops->values)[o], 0) == v) v->known = 0;
    if (v->known || v->shape.reordered) copy(v, at[i], 0);
    for (int64_t k = 0; v->shape.reordered && clears && k < shapes[i].extent; k++)
      v->data[k] = 0;
  }
}

void fake_evaluate(const fake_descriptor *graph, void *const *at) {
  const fake_attribute *const ops = fake_get(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
  fake_descriptor *const *const list = ops->values;
  evaluation *const e = calloc(1, sizeof *e);
  int64_t done = 0;
  if (!e) abort();
  open(e, graph, at);
  while (done < ops->count) {
    const int64_t before = done;
    for (int64_t o = 0; o < ops->count; o++)
      if (ready(e, list[o])) {
        run(e, list[o]);
        done++;
      }
    if (done == before) bd_fake_fault("a graph", "operations wait for each other");
  }
  for (int i = 0; i < e->count; i++) {
    values *const v = &e->tensors[i];
    int made = 0;
    for (int64_t o = 0; o < ops->count; o++)
      made |= find(e, list[o], 0) == v;
    if (made && !v->shape.inner) copy(v, at[i], 1);
    free(v->data);
  }
  free(e);
}
