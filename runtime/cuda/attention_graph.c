// Graphs of attention, in the form that cuDNN's engines for it recognize: tensors are [batch, head,
// row, column], and keys enter products as columns.
#include "runtime/cuda/attention.h"

#include <math.h>

typedef struct drawing {
  bd_dnn_graph *graph;
  const bd_cuda_attention *shape;
  int64_t heads;
  bd_dnn_data data; // of operands and results
} drawing;

enum { OPERAND_ALIGNMENT = 16, NUMBER_ALIGNMENT = 4, WIDE_ROWS = 128 };

static drawing begin(bd_dnn_graph *graph, const bd_cuda_attention *s) {
  return (drawing){graph, s, s->kv_heads * s->group,
                   s->dtype == BD_RT_F16 ? BD_DNN_HALF : BD_DNN_BFLOAT16};
}

// What has rows of heads: gradients lie as what they are of.
typedef enum rows_of { QUERIES, KEYS, VALUES, RESULTS } rows_of;

static int64_t width_of(const drawing *d, rows_of what) {
  return what == QUERIES || what == KEYS ? d->shape->d : d->shape->d_v;
}

// [batch, head, row, column].
static bd_dnn_tensor tensor_of(const drawing *d, rows_of what) {
  const bd_cuda_attention *const s = d->shape;
  const int by_key = what == KEYS || what == VALUES;
  const int64_t strides[][2] = {[QUERIES] = {s->q_batch, s->q_row},
                                [KEYS] = {s->k_batch, s->k_row},
                                [VALUES] = {s->v_batch, s->v_row},
                                [RESULTS] = {s->out_batch, s->out_row}};
  const int64_t width = width_of(d, what);
  return (bd_dnn_tensor){
      .data = d->data,
      .rank = 4,
      .alignment = OPERAND_ALIGNMENT,
      .dims = {s->batch, by_key ? s->kv_heads : d->heads, by_key ? s->tk : s->tq, width},
      .strides = {strides[what][0], width, strides[what][1], 1}};
}

static bd_dnn_item rows(const drawing *d, rows_of what) {
  const bd_dnn_tensor tensor = tensor_of(d, what);
  return bd_dnn_buffer(d->graph, &tensor);
}

// Keys or values as columns.
static bd_dnn_item columns(const drawing *d, rows_of what) {
  const bd_dnn_tensor rows = tensor_of(d, what);
  bd_dnn_tensor tensor = rows;
  tensor.dims[2] = rows.dims[3], tensor.dims[3] = rows.dims[2];
  tensor.strides[2] = rows.strides[3], tensor.strides[3] = rows.strides[2];
  return bd_dnn_buffer(d->graph, &tensor);
}

// A number per row, as the log-sum-exp lies.
static bd_dnn_item numbers(const drawing *d) {
  const bd_cuda_attention *const s = d->shape;
  const bd_dnn_tensor tensor = {.data = BD_DNN_FLOAT,
                                .rank = 4,
                                .alignment = NUMBER_ALIGNMENT,
                                .dims = {s->batch, d->heads, s->tq, 1},
                                .strides = {s->lse_batch, 1, s->lse_row, 1}};
  return bd_dnn_buffer(d->graph, &tensor);
}

static bd_dnn_tensor packed(const drawing *d, bd_dnn_data data, int64_t height, int64_t width) {
  return (bd_dnn_tensor){.data = data,
                         .rank = 4,
                         .alignment = OPERAND_ALIGNMENT,
                         .dims = {d->shape->batch, d->heads, height, width},
                         .strides = {d->heads * height * width, height * width, width, 1}};
}

// The gradient of rows.
static bd_dnn_item result_rows(const drawing *d, rows_of what) {
  bd_dnn_tensor tensor = tensor_of(d, what);
  if (d->shape->apart) {
    tensor.strides[2] = tensor.dims[3];
    tensor.strides[1] = tensor.dims[2] * tensor.strides[2];
    tensor.strides[0] = tensor.dims[1] * tensor.strides[1];
  }
  return bd_dnn_buffer(d->graph, &tensor);
}

static bd_dnn_item inner(const drawing *d, bd_dnn_data data, int64_t height, int64_t width) {
  const bd_dnn_tensor tensor = packed(d, data, height, width);
  return bd_dnn_inner(d->graph, &tensor);
}

// A number per query and key.
static bd_dnn_item scores(const drawing *d, bd_dnn_data data) {
  return inner(d, data, d->shape->tq, d->shape->tk);
}

static bd_dnn_item per_row(const drawing *d) {
  return inner(d, BD_DNN_FLOAT, d->shape->tq, 1);
}

// Scores with queries as columns.
static bd_dnn_item turned(const drawing *d, bd_dnn_item scores_of) {
  const int64_t tq = d->shape->tq, tk = d->shape->tk;
  bd_dnn_tensor tensor = packed(d, d->data, tk, tq);
  tensor.strides[2] = 1;
  tensor.strides[3] = tk;
  const bd_dnn_item out = bd_dnn_inner(d->graph, &tensor);
  bd_dnn_add_reshape(d->graph, scores_of, out);
  return out;
}

static bd_dnn_item apply(const drawing *d, bd_dnn_mode mode, bd_dnn_item x, bd_dnn_item b,
                         bd_dnn_item y) {
  const bd_dnn_pointwise op = {.mode = mode, .math = BD_DNN_FLOAT, .x = x, .b = b, .y = y};
  bd_dnn_add_pointwise(d->graph, &op);
  return y;
}

static bd_dnn_item index_along(const drawing *d, bd_dnn_item like, int64_t axis) {
  const bd_dnn_item y = scores(d, BD_DNN_INT32);
  const bd_dnn_pointwise op = {
      .mode = BD_DNN_GEN_INDEX, .math = BD_DNN_INT32, .axis = axis, .x = like, .y = y};
  bd_dnn_add_pointwise(d->graph, &op);
  return y;
}

// The numbers of the queries among all, in the form in which the library knows a diagonal that ends
// in the last query and the last key.
static bd_dnn_item queries(const drawing *d, bd_dnn_item like) {
  const bd_dnn_item here = index_along(d, like, 2);
  if (d->shape->first == 0) return here;
  const bd_dnn_item behind = scores(d, BD_DNN_INT32), query = scores(d, BD_DNN_INT32);
  const bd_dnn_pointwise add = {.mode = BD_DNN_ADD,
                                .math = BD_DNN_INT32,
                                .x = here,
                                .b = bd_dnn_integer(d->graph, 4, (int32_t)d->shape->tk),
                                .y = behind};
  const bd_dnn_pointwise subtract = {.mode = BD_DNN_SUB,
                                     .math = BD_DNN_INT32,
                                     .x = behind,
                                     .b = bd_dnn_integer(d->graph, 4, (int32_t)d->shape->tq),
                                     .y = query};
  bd_dnn_add_pointwise(d->graph, &add);
  bd_dnn_add_pointwise(d->graph, &subtract);
  return query;
}

// Scores become the least number but where `left` compares with `right`.
static bd_dnn_item where(const drawing *d, bd_dnn_item x, bd_dnn_mode mode, bd_dnn_item left,
                         bd_dnn_item right) {
  const bd_dnn_item seen = scores(d, BD_DNN_BOOLEAN), y = scores(d, BD_DNN_FLOAT);
  const bd_dnn_item least = bd_dnn_constant(d->graph, 4, -INFINITY);
  const bd_dnn_pointwise compare = {
      .mode = mode, .math = BD_DNN_BOOLEAN, .x = left, .b = right, .y = seen};
  const bd_dnn_pointwise select = {
      .mode = BD_DNN_BINARY_SELECT, .math = BD_DNN_FLOAT, .x = x, .b = least, .t = seen, .y = y};
  bd_dnn_add_pointwise(d->graph, &compare);
  bd_dnn_add_pointwise(d->graph, &select);
  return y;
}

// Of keys after the query; then of those before its window, in the form that the library knows for
// a left bound beside a right one: f32, and of queries counted from the part's first.
static bd_dnn_item masked(const drawing *d, bd_dnn_item x) {
  const bd_cuda_attention *const s = d->shape;
  if (!s->causal) return x;
  bd_dnn_item query = queries(d, x), key = index_along(d, x, 3);
  x = where(d, x, BD_DNN_CMP_GE, query, key);
  if (!s->window) return x;
  query = index_along(d, x, 2), key = index_along(d, x, 3);
  const bd_dnn_item bound = bd_dnn_constant(d->graph, 4, (float)(s->window - s->first));
  key = apply(d, BD_DNN_ADD, key, bound, scores(d, BD_DNN_FLOAT));
  return where(d, x, BD_DNN_CMP_GT, key, query);
}

// Scores over the cap.
static bd_dnn_item share_of_cap(const drawing *d, bd_dnn_item s) {
  const bd_dnn_item cap = bd_dnn_constant(d->graph, 4, (float)d->shape->softcap);
  return apply(d, BD_DNN_DIV, s, cap, scores(d, BD_DNN_FLOAT));
}

static bd_dnn_item capped(const drawing *d, bd_dnn_item share) {
  const bd_dnn_item cap = bd_dnn_constant(d->graph, 4, (float)d->shape->softcap);
  const bd_dnn_item within = apply(d, BD_DNN_TANH_FWD, share, NULL, scores(d, BD_DNN_FLOAT));
  return apply(d, BD_DNN_MUL, within, cap, scores(d, BD_DNN_FLOAT));
}

static bd_dnn_item scaled_product(const drawing *d, bd_dnn_item q, bd_dnn_item k,
                                  bd_dnn_item scale) {
  const bd_dnn_item product = scores(d, BD_DNN_FLOAT);
  bd_dnn_add_matmul(d->graph, q, k, product);
  return apply(d, BD_DNN_MUL, product, scale, scores(d, BD_DNN_FLOAT));
}

void bd_cuda_attention_graph(bd_dnn_graph *graph, const bd_cuda_attention *shape) {
  const drawing d = begin(graph, shape);
  const bd_dnn_item q = rows(&d, QUERIES), k = columns(&d, KEYS), v = rows(&d, VALUES),
                    out = rows(&d, RESULTS), lse = numbers(&d),
                    scale = bd_dnn_constant(graph, 4, shape->scale);
  bd_dnn_item s = scaled_product(&d, q, k, scale);
  if (shape->softcap > 0) s = capped(&d, share_of_cap(&d, s));
  s = masked(&d, s);
  const bd_dnn_item most = per_row(&d), sum = per_row(&d), weights = scores(&d, d.data);
  bd_dnn_add_reduction(graph, BD_DNN_REDUCE_MAX, s, most);
  const bd_dnn_item below = apply(&d, BD_DNN_SUB, s, most, scores(&d, BD_DNN_FLOAT));
  const bd_dnn_item powers = apply(&d, BD_DNN_EXP, below, NULL, scores(&d, BD_DNN_FLOAT));
  bd_dnn_add_reduction(graph, BD_DNN_REDUCE_ADD, powers, sum);
  apply(&d, BD_DNN_ADD, most, apply(&d, BD_DNN_LOG, sum, NULL, per_row(&d)), lse);
  apply(&d, BD_DNN_DIV, powers, sum, weights);
  bd_dnn_add_matmul(graph, weights, v, out);
}

// left' x right, summed over the query heads that share a key-value head: of keys, or of values.
static void add_key_gradient(const drawing *d, rows_of what, bd_dnn_item left, bd_dnn_item right,
                             bd_dnn_item out) {
  if (d->shape->group == 1) {
    bd_dnn_add_matmul(d->graph, left, right, out);
    return;
  }
  const bd_dnn_item each = inner(d, d->data, d->shape->tk, width_of(d, what));
  bd_dnn_add_matmul(d->graph, left, right, each);
  bd_dnn_add_reduction(d->graph, BD_DNN_REDUCE_ADD, each, out);
}

// Keys as rows again.
static bd_dnn_item key_rows(const drawing *d, bd_dnn_item k) {
  const bd_dnn_tensor tensor = tensor_of(d, KEYS);
  const bd_dnn_item out = bd_dnn_inner(d->graph, &tensor);
  bd_dnn_add_reshape(d->graph, k, out);
  return out;
}

// D, in memory: two of the graph's kernels meet there.
static bd_dnn_item row_sums(const drawing *d, bd_dnn_item dout, bd_dnn_item out, bd_dnn_item sums) {
  const bd_dnn_item sum = per_row(d);
  const bd_dnn_item products =
      apply(d, BD_DNN_MUL, dout, out, inner(d, BD_DNN_FLOAT, d->shape->tq, d->shape->d_v));
  bd_dnn_add_reduction(d->graph, BD_DNN_REDUCE_ADD, products, sum);
  return apply(d, BD_DNN_MUL, sum, bd_dnn_constant(d->graph, 4, 1), sums);
}

static bd_dnn_tensor wide(const drawing *d) {
  bd_dnn_tensor tensor = packed(d, BD_DNN_FLOAT, d->shape->tq, d->shape->d);
  tensor.reordered = 1;
  return tensor;
}

int64_t bd_cuda_attention_wide_bytes(const bd_cuda_attention *s) {
  const int64_t rows = (s->tq + WIDE_ROWS - 1) / WIDE_ROWS * WIDE_ROWS;
  return s->any_order ? s->batch * s->kv_heads * s->group * rows * s->d * (int64_t)sizeof(float)
                      : 0;
}

// That a buffer lies between the product and dq tells the library to add in any order.
static void add_query_gradient(const drawing *d, bd_dnn_item ds, bd_dnn_item k, bd_dnn_item dq) {
  if (!d->shape->any_order) {
    bd_dnn_add_matmul(d->graph, ds, key_rows(d, k), dq);
    return;
  }
  const bd_dnn_tensor sum_of = wide(d);
  const bd_dnn_item sum = bd_dnn_buffer(d->graph, &sum_of);
  bd_dnn_allow_any_order(d->graph);
  bd_dnn_add_matmul(d->graph, ds, key_rows(d, k), sum);
  apply(d, BD_DNN_IDENTITY, sum, NULL, dq);
}

void bd_cuda_attention_grad_graph(bd_dnn_graph *graph, const bd_cuda_attention *shape) {
  const drawing d = begin(graph, shape);
  const bd_dnn_tensor sums_of = packed(&d, BD_DNN_FLOAT, shape->tq, 1);
  const bd_dnn_item dout = rows(&d, RESULTS), q = rows(&d, QUERIES), k = columns(&d, KEYS),
                    v = columns(&d, VALUES), out = rows(&d, RESULTS), lse = numbers(&d),
                    dq = result_rows(&d, QUERIES), dk = result_rows(&d, KEYS),
                    dv = result_rows(&d, VALUES),
                    sums = row_sums(&d, dout, out, bd_dnn_buffer(graph, &sums_of)),
                    scale = bd_dnn_constant(graph, 4, shape->scale);
  bd_dnn_item s = scaled_product(&d, q, k, scale), share = NULL;
  if (shape->softcap > 0) s = capped(&d, share = share_of_cap(&d, s));
  s = masked(&d, apply(&d, BD_DNN_SUB, s, lse, scores(&d, BD_DNN_FLOAT)));
  const bd_dnn_item p = apply(&d, BD_DNN_EXP, s, NULL, scores(&d, BD_DNN_FLOAT));
  add_key_gradient(&d, VALUES, turned(&d, p), dout, dv);
  bd_dnn_item ds = scores(&d, BD_DNN_FLOAT);
  bd_dnn_add_matmul(graph, dout, v, ds);
  ds = apply(&d, BD_DNN_SUB, ds, sums, scores(&d, BD_DNN_FLOAT));
  ds = apply(&d, BD_DNN_MUL, ds, p, scores(&d, BD_DNN_FLOAT));
  if (share) ds = apply(&d, BD_DNN_TANH_BWD, share, ds, scores(&d, BD_DNN_FLOAT));
  ds = apply(&d, BD_DNN_MUL, ds, scale, scores(&d, d.data));
  add_key_gradient(&d, KEYS, turned(&d, ds), q, dk);
  add_query_gradient(&d, ds, k, dq);
}
