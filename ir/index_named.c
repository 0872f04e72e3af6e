#include "ir/index_rule.h"
#include <assert.h>
#include <string.h>

// Every dimension of an operand but the first `free` must be a number.
static bd_status check_static(const bd_inference *inference, int operand, int rank, int free) {
  const bd_type *type = inference->in[operand];
  if (type->rank != rank)
    return bd_inference_fail(inference, "operand %d must have %d dimensions, not %s", operand + 1,
                             rank, bd_type_describe(inference->ctx, type));
  for (int d = free; d < rank; ++d)
    if (type->dims[d] == BD_DIM_BATCH)
      return bd_inference_fail(inference, "dimension %d of operand %d may not be the batch", d + 1,
                               operand + 1);
  return BD_OK;
}

static bd_status check_extent(const bd_inference *inference, int operand, int dim, int64_t wanted) {
  int64_t extent = inference->in[operand]->dims[dim];
  if (extent == wanted) return BD_OK;
  return bd_inference_fail(inference, "dimension %d of operand %d has extent %s, expected %s",
                           dim + 1, operand + 1, bd_extent_print(extent).text,
                           bd_extent_print(wanted).text);
}

static bd_status check_shape(const bd_inference *inference, int operand, int rank,
                             const int64_t *dims) {
  BD_TRY(check_static(inference, operand, rank, 1));
  for (int d = 0; d < rank; ++d)
    BD_TRY(check_extent(inference, operand, d, dims[d]));
  return BD_OK;
}

// Row-major elements of dims[from..rank), and how many of them are symbolic.
static bool count_elements(const int64_t *dims, int from, int rank, int64_t *out_elements,
                           int *out_symbolic) {
  *out_elements = 1;
  *out_symbolic = 0;
  for (int d = from; d < rank; ++d) {
    if (dims[d] == BD_DIM_BATCH)
      ++*out_symbolic;
    else if (__builtin_mul_overflow(*out_elements, dims[d], out_elements) ||
             *out_elements > BD_MAX_ELEMENTS)
      return false;
  }
  return true;
}

static bd_status infer_reshape(bd_inference *inference) {
  const bd_type *in = inference->in[0];
  const bd_attr *dims = bd_op_find_attr(inference->op, "dims");
  if (dims->count > BD_MAX_RANK)
    return bd_inference_fail(inference, "dims has %d extents, more than %d", dims->count,
                             BD_MAX_RANK);
  for (int d = 0; d < dims->count; ++d)
    if (dims->ints[d] < 1 && dims->ints[d] != BD_DIM_BATCH)
      return bd_inference_fail(inference, "dims holds %lld: extents are positive, or -1 for B",
                               (long long)dims->ints[d]);
  inference->out[0] = bd_type_make(in->dtype, dims->count, dims->ints);
  int prefix = 0;
  while (prefix < in->rank && prefix < dims->count && in->dims[prefix] == dims->ints[prefix]) {
    bd_inference_add_loop(inference, (char)('A' + prefix), BD_LOOP_PARALLEL, in->dims[prefix]);
    inference->map->in[0][prefix] = inference->map->out[0][prefix] = (int8_t)prefix;
    ++prefix;
  }
  int64_t old_elements, new_elements;
  int old_symbolic, new_symbolic;
  bool counted = count_elements(in->dims, prefix, in->rank, &old_elements, &old_symbolic) &&
                 count_elements(dims->ints, prefix, dims->count, &new_elements, &new_symbolic);
  if (!counted || old_elements != new_elements || old_symbolic != new_symbolic)
    return bd_inference_fail(inference, "%s does not have as many elements as %s",
                             bd_type_describe(inference->ctx, in),
                             bd_type_describe(inference->ctx, &inference->out[0]));
  return BD_OK;
}

// A split of v gives each part the rows it owns: parallel, although indexed by data.
static bd_status infer_embed_dw(bd_inference *inference) {
  const bd_type *dout = inference->in[0];
  if (dout->rank < 1)
    return bd_inference_fail(inference, "operand 1 must have at least 1 dimension");
  int64_t dims[2] = {bd_op_int(inference->op, "rows", 0), dout->dims[dout->rank - 1]};
  return bd_inference_apply(inference, "...c,...->vc|gather v", 2, dims);
}

// Loops of attention: b and the key-value heads k split; k indexes dimension 2 of every tensor,
// which holds g query heads per key-value head in query-shaped ones.
static bd_status add_attention_loops(bd_inference *inference, int query, int key) {
  BD_TRY(check_static(inference, query, 4, 1));
  BD_TRY(check_static(inference, key, 4, 1));
  const int64_t *q = inference->in[query]->dims, *k = inference->in[key]->dims;
  BD_TRY(check_extent(inference, key, 0, q[0]));
  BD_TRY(check_extent(inference, key, 3, q[3]));
  BD_TRY(check_shape(inference, key + 1, 4, k));
  if (q[2] % k[2] != 0)
    return bd_inference_fail(inference,
                             "%lld query heads are not a multiple of %lld key-value heads",
                             (long long)q[2], (long long)k[2]);
  bd_index_map *map = inference->map;
  bd_inference_add_loop(inference, 'b', BD_LOOP_PARALLEL, q[0]);
  int head = bd_inference_add_loop(inference, 'k', BD_LOOP_PARALLEL, k[2]);
  map->loop[head].exact = q[2] != k[2];
  bd_inference_add_loop(inference, 'g', BD_LOOP_WHOLE, q[2] / k[2]);
  bd_inference_add_loop(inference, 't', BD_LOOP_WHOLE, q[1]);
  bd_inference_add_loop(inference, 's', BD_LOOP_WHOLE, k[1]);
  bd_inference_add_loop(inference, 'd', BD_LOOP_WHOLE, q[3]);
  for (int i = 0; i < inference->op->in_count; ++i) {
    map->in[i][0] = 0;
    map->in[i][2] = (int8_t)head;
  }
  for (int i = 0; i < inference->op->out_count; ++i) {
    map->out[i][0] = 0;
    map->out[i][2] = (int8_t)head;
  }
  return BD_OK;
}

static bd_status infer_attention(bd_inference *inference) {
  BD_TRY(add_attention_loops(inference, 0, 1));
  inference->out[0] = *inference->in[0];
  inference->out[1] = bd_type_make(BD_F32, 3, inference->in[0]->dims);
  return BD_OK;
}

static bd_status infer_attention_grad(bd_inference *inference) {
  BD_TRY(add_attention_loops(inference, 1, 2));
  BD_TRY(check_shape(inference, 0, 4, inference->in[1]->dims));
  BD_TRY(check_shape(inference, 4, 4, inference->in[1]->dims));
  BD_TRY(check_shape(inference, 5, 3, inference->in[1]->dims));
  for (int i = 0; i < 3; ++i)
    inference->out[i] = *inference->in[i + 1];
  return BD_OK;
}

typedef struct window_shape {
  int64_t n, c, h, w;   // of the input image
  int64_t kh, kw, y, x; // of the window and of the output image
} window_shape;

// Output extent of a window along one dimension, or a diagnostic when the window does not fit.
static bd_status window_extent(const bd_inference *inference, int64_t in, int64_t kernel,
                               const char *stride_name, const char *pad_name, int64_t *out_extent) {
  int64_t room = in + 2 * bd_op_int(inference->op, pad_name, 0) - kernel;
  if (room < 0)
    return bd_inference_fail(inference, "a window of %lld does not fit in %lld with %s %lld",
                             (long long)kernel, (long long)in, pad_name,
                             (long long)bd_op_int(inference->op, pad_name, 0));
  *out_extent = room / bd_op_int(inference->op, stride_name, 1) + 1;
  return BD_OK;
}

static bd_status window_output(const bd_inference *inference, window_shape *shape) {
  BD_TRY(window_extent(inference, shape->h, shape->kh, "stride_h", "pad_h", &shape->y));
  return window_extent(inference, shape->w, shape->kw, "stride_w", "pad_w", &shape->x);
}

static void add_window_loops(bd_inference *inference, const window_shape *shape) {
  bd_inference_add_loop(inference, 'y', BD_LOOP_WHOLE, shape->y);
  bd_inference_add_loop(inference, 'x', BD_LOOP_WHOLE, shape->x);
  bd_inference_add_loop(inference, 'i', BD_LOOP_WHOLE, shape->kh);
  bd_inference_add_loop(inference, 'j', BD_LOOP_WHOLE, shape->kw);
}

static void set_result(bd_inference *inference, int64_t a, int64_t b, int64_t c, int64_t d) {
  inference->out[0] = bd_type_make(inference->in[0]->dtype, 4, (const int64_t[]){a, b, c, d});
}

// Loops n, o and c of a convolution with `channels` input channels and `filters` output channels.
// Groups couple both channel dimensions, so then only n splits. The three maps say which loop (0 n,
// 1 o, 2 c) indexes the first two dimensions of operand 0, operand 1 and the result.
static bd_status add_conv_loops(bd_inference *inference, const window_shape *shape, int64_t filters,
                                const int8_t maps[3][2]) {
  int64_t groups = bd_op_int(inference->op, "groups", 1);
  if (shape->c % groups != 0 || filters % groups != 0)
    return bd_inference_fail(inference,
                             "%lld groups do not divide %lld input and %lld output channels",
                             (long long)groups, (long long)shape->c, (long long)filters);
  int64_t extents[3] = {shape->n, filters, shape->c / groups};
  for (int loop = 0; loop < 3; ++loop) {
    bool carried = maps[2][0] == loop || maps[2][1] == loop;
    bool coupled = groups > 1 && loop > 0;
    bd_loop_kind kind = coupled ? BD_LOOP_WHOLE : carried ? BD_LOOP_PARALLEL : BD_LOOP_SUM;
    bd_inference_add_loop(inference, "noc"[loop], kind, extents[loop]);
    inference->map->loop[loop].exact = loop > 0;
    for (int d = 0; d < 2 && !coupled; ++d) {
      if (maps[0][d] == loop) inference->map->in[0][d] = (int8_t)loop;
      if (maps[1][d] == loop) inference->map->in[1][d] = (int8_t)loop;
      if (maps[2][d] == loop) inference->map->out[0][d] = (int8_t)loop;
    }
  }
  add_window_loops(inference, shape);
  return BD_OK;
}

static bd_status infer_conv2d(bd_inference *inference) {
  static const int8_t maps[3][2] = {{0, 2}, {1, 2}, {0, 1}};
  BD_TRY(check_static(inference, 0, 4, 1));
  BD_TRY(check_static(inference, 1, 4, 0));
  const int64_t *x = inference->in[0]->dims, *w = inference->in[1]->dims;
  window_shape shape = {.n = x[0], .c = x[1], .h = x[2], .w = x[3], .kh = w[2], .kw = w[3]};
  BD_TRY(window_output(inference, &shape));
  BD_TRY(add_conv_loops(inference, &shape, w[0], maps));
  BD_TRY(check_extent(inference, 1, 1, inference->map->loop[2].extent));
  set_result(inference, x[0], w[0], shape.y, shape.x);
  return BD_OK;
}

static bd_status infer_conv2d_dx(bd_inference *inference) {
  static const int8_t maps[3][2] = {{0, 1}, {1, 2}, {0, 2}};
  BD_TRY(check_static(inference, 0, 4, 1));
  BD_TRY(check_static(inference, 1, 4, 0));
  const int64_t *dy = inference->in[0]->dims, *w = inference->in[1]->dims;
  window_shape shape = {.n = dy[0],
                        .h = bd_op_int(inference->op, "h", 0),
                        .w = bd_op_int(inference->op, "w", 0),
                        .kh = w[2],
                        .kw = w[3]};
  if (__builtin_mul_overflow(w[1], bd_op_int(inference->op, "groups", 1), &shape.c))
    return bd_inference_fail(inference, "too many channels");
  BD_TRY(window_output(inference, &shape));
  BD_TRY(add_conv_loops(inference, &shape, w[0], maps));
  BD_TRY(check_shape(inference, 0, 4, (const int64_t[]){dy[0], w[0], shape.y, shape.x}));
  set_result(inference, dy[0], shape.c, shape.h, shape.w);
  return BD_OK;
}

static bd_status infer_conv2d_dw(bd_inference *inference) {
  static const int8_t maps[3][2] = {{0, 2}, {0, 1}, {1, 2}};
  BD_TRY(check_static(inference, 0, 4, 1));
  BD_TRY(check_static(inference, 1, 4, 1));
  const int64_t *x = inference->in[0]->dims, *dy = inference->in[1]->dims;
  window_shape shape = {.n = x[0],
                        .c = x[1],
                        .h = x[2],
                        .w = x[3],
                        .kh = bd_op_int(inference->op, "kh", 0),
                        .kw = bd_op_int(inference->op, "kw", 0)};
  BD_TRY(window_output(inference, &shape));
  BD_TRY(add_conv_loops(inference, &shape, dy[1], maps));
  BD_TRY(check_shape(inference, 1, 4, (const int64_t[]){x[0], dy[1], shape.y, shape.x}));
  set_result(inference, dy[1], inference->map->loop[2].extent, shape.kh, shape.kw);
  return BD_OK;
}

static bd_status add_pool_loops(bd_inference *inference, window_shape *shape) {
  BD_TRY(check_static(inference, 0, 4, 1));
  const bd_op *op = inference->op;
  const int64_t *x = inference->in[0]->dims;
  *shape = (window_shape){.n = x[0],
                          .c = x[1],
                          .h = x[2],
                          .w = x[3],
                          .kh = bd_op_int(op, "kh", 0),
                          .kw = bd_op_int(op, "kw", 0)};
  if (bd_op_int(op, "pad_h", 0) >= shape->kh || bd_op_int(op, "pad_w", 0) >= shape->kw)
    return bd_inference_fail(inference, "padding must be smaller than the window");
  BD_TRY(window_output(inference, shape));
  bd_inference_add_loop(inference, 'n', BD_LOOP_PARALLEL, shape->n);
  bd_inference_add_loop(inference, 'c', BD_LOOP_PARALLEL, shape->c);
  inference->map->loop[1].exact = true;
  add_window_loops(inference, shape);
  for (int8_t d = 0; d < 2; ++d) {
    for (int i = 0; i < op->in_count; ++i)
      inference->map->in[i][d] = d;
    inference->map->out[0][d] = d;
  }
  return BD_OK;
}

static bd_status infer_pool2d(bd_inference *inference) {
  window_shape shape;
  BD_TRY(add_pool_loops(inference, &shape));
  set_result(inference, shape.n, shape.c, shape.y, shape.x);
  return BD_OK;
}

static bd_status infer_pool2d_grad(bd_inference *inference) {
  window_shape shape;
  BD_TRY(add_pool_loops(inference, &shape));
  BD_TRY(check_shape(inference, 1, 4, (const int64_t[]){shape.n, shape.c, shape.y, shape.x}));
  inference->out[0] = *inference->in[0];
  return BD_OK;
}

bd_named_rule bd_named_rule_find(const char *name) {
  static const struct {
    const char *name;
    bd_named_rule rule;
  } rules[] = {
      {"reshape", infer_reshape},
      {"slice", bd_infer_slice},
      {"concat", bd_infer_concat},
      {"cumsum", bd_infer_cumsum},
      {"gather", bd_infer_gather},
      {"gather_dx", bd_infer_gather_dx},
      {"scatter", bd_infer_scatter},
      {"topk", bd_infer_topk},
      {"unfold", bd_infer_unfold},
      {"fold", bd_infer_fold},
      {"constant", bd_infer_constant},
      {"iota", bd_infer_iota},
      {"embed_dw", infer_embed_dw},
      {"attention", infer_attention},
      {"attention_grad", infer_attention_grad},
      {"conv2d", infer_conv2d},
      {"conv2d_dx", infer_conv2d_dx},
      {"conv2d_dw", infer_conv2d_dw},
      {"pool2d", infer_pool2d},
      {"pool2d_grad", infer_pool2d_grad},
  };
  size_t i = 0;
  while (i < sizeof rules / sizeof rules[0] && strcmp(rules[i].name, name) != 0)
    ++i;
  assert(i < sizeof rules / sizeof rules[0]);
  return rules[i].rule;
}
