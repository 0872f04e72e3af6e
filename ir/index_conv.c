// Index rules of convolutions and pools, over images [n, c, one to three more dimensions], or with
// channels last [n, one to three, c], by filters [o, c, as many].
#include "ir/index_rule.h"

// Extents of an image and of what windows make of it.
typedef struct image_shape {
  bd_windows windows;
  bd_image_order at;
  int64_t n, c, x[BD_MAX_SPATIAL], y[BD_MAX_SPATIAL];
} image_shape;

// Reads windows over an image of `type`, whose extents are those in `x` where it is not NULL, and
// counts them.
static bd_status read_image(const bd_inference *inference, const bd_type *type, const int64_t *x,
                            const int64_t *kernel, image_shape *out) {
  int count = type->rank - 2;
  out->at = bd_image_order_of(inference->op, type->rank);
  BD_TRY(bd_inference_read_windows(inference, count, kernel, &out->windows));
  out->n = type->dims[0];
  out->c = type->dims[out->at.channels];
  for (int d = 0; d < count; ++d) {
    out->x[d] = x ? x[d] : type->dims[out->at.extents + d];
    BD_TRY(bd_inference_count_windows(inference, &out->windows, d, out->x[d], &out->y[d]));
  }
  return BD_OK;
}

// An image has one to three dimensions after the first two, and the batch at most in front.
static bd_status check_image(const bd_inference *inference, int operand) {
  int rank = inference->in[operand]->rank;
  if (rank < 3 || rank > 2 + BD_MAX_SPATIAL)
    return bd_inference_fail(inference, "operand %d must have 3 to %d dimensions, not %s",
                             operand + 1, 2 + BD_MAX_SPATIAL,
                             bd_type_describe(inference->ctx, inference->in[operand]));
  return bd_inference_check_static(inference, operand, rank, 1);
}

// The dimensions of an image in their order.
static void put_in_order(const image_shape *shape, int64_t channels, const int64_t *rest,
                         int64_t *dims) {
  dims[0] = shape->n;
  dims[shape->at.channels] = channels;
  for (int d = 0; d < shape->windows.count; ++d)
    dims[shape->at.extents + d] = rest[d];
}

static void set_result(bd_inference *inference, const image_shape *shape, int64_t channels,
                       const int64_t *rest) {
  inference->out[0].rank = 2 + shape->windows.count;
  put_in_order(shape, channels, rest, inference->out[0].dims);
}

static bd_status check_result_image(const bd_inference *inference, int operand, int64_t channels,
                                    const image_shape *shape) {
  int64_t dims[2 + BD_MAX_SPATIAL];
  put_in_order(shape, channels, shape->y, dims);
  return bd_inference_check_shape(inference, operand, 2 + shape->windows.count, dims);
}

static void add_window_loops(bd_inference *inference, const image_shape *shape) {
  int count = shape->windows.count, first = BD_MAX_SPATIAL - count;
  const char *points = &"zyx"[first], *window = &"hij"[first];
  for (int d = 0; d < count; ++d)
    bd_inference_add_loop(inference, points[d], BD_LOOP_WHOLE, shape->y[d]);
  for (int d = 0; d < count; ++d)
    bd_inference_add_loop(inference, window[d], BD_LOOP_WHOLE, shape->windows.kernel[d]);
}

enum { SAMPLES, FILTERS, CHANNELS };

// Loops n, o and c of a convolution with `channels` input and `filters` output channels. Groups, of
// which there are several, are a loop g of their own, inside which o and c are whole. The three
// maps say which loop (n, o, c) indexes the first dimension and the channels of operand 0, operand
// 1 and the result; g indexes what o and c do, in a filter the first alone.
static bd_status add_conv_loops(bd_inference *inference, const image_shape *shape, int64_t channels,
                                int64_t filters, const int8_t maps[3][2]) {
  bd_index_map *map = inference->map;
  int64_t groups = bd_op_int(inference->op, "groups", 1);
  if (channels % groups != 0 || filters % groups != 0)
    return bd_inference_fail(inference,
                             "%lld groups do not divide %lld input and %lld output channels",
                             (long long)groups, (long long)channels, (long long)filters);
  int8_t *dims[] = {map->in[0], map->in[1], map->out[0]};
  int64_t extents[] = {shape->n, filters / groups, channels / groups};
  int grouped = groups > 1 ? bd_inference_add_loop(inference, 'g', BD_LOOP_PARALLEL, groups) : -1;
  if (grouped >= 0) map->loop[grouped].exact = true;
  for (int8_t which = SAMPLES; which <= CHANNELS; ++which) {
    bool carried = maps[2][0] == which || maps[2][1] == which;
    bool inside = grouped >= 0 && which != SAMPLES;
    bd_loop_kind kind = inside ? BD_LOOP_WHOLE : carried ? BD_LOOP_PARALLEL : BD_LOOP_SUM;
    int loop = bd_inference_add_loop(inference, "noc"[which], kind, extents[which]);
    map->loop[loop].exact = which != SAMPLES;
    for (int tensor = 0; tensor < 3; ++tensor)
      for (int d = 0; d < 2; ++d) {
        bool filter = maps[tensor][0] == FILTERS && maps[tensor][1] == CHANNELS;
        if (maps[tensor][d] != which || (inside && filter && d == 1)) continue;
        dims[tensor][d && !filter ? shape->at.channels : d] = (int8_t)(inside ? grouped : loop);
      }
  }
  add_window_loops(inference, shape);
  return BD_OK;
}

static int64_t group_channels(const bd_inference *inference, int64_t channels) {
  return channels / bd_op_int(inference->op, "groups", 1);
}

bd_status bd_infer_conv(bd_inference *inference) {
  static const int8_t maps[3][2] = {{SAMPLES, CHANNELS}, {FILTERS, CHANNELS}, {SAMPLES, FILTERS}};
  image_shape shape;
  const bd_type *x = inference->in[0], *w = inference->in[1];
  BD_TRY(check_image(inference, 0));
  BD_TRY(bd_inference_check_static(inference, 1, x->rank, 0));
  BD_TRY(read_image(inference, x, NULL, w->dims + 2, &shape));
  BD_TRY(add_conv_loops(inference, &shape, shape.c, w->dims[0], maps));
  BD_TRY(bd_inference_check_extent(inference, 1, 1, group_channels(inference, shape.c)));
  set_result(inference, &shape, w->dims[0], shape.y);
  return BD_OK;
}

bd_status bd_infer_conv_dx(bd_inference *inference) {
  static const int8_t maps[3][2] = {{SAMPLES, FILTERS}, {FILTERS, CHANNELS}, {SAMPLES, CHANNELS}};
  image_shape shape;
  const bd_type *dy = inference->in[0], *w = inference->in[1];
  int64_t channels;
  BD_TRY(check_image(inference, 0));
  BD_TRY(bd_inference_check_static(inference, 1, dy->rank, 0));
  BD_TRY(bd_inference_check_list(inference, "dims", dy->rank - 2, 1));
  const int64_t *extents = bd_op_find_attr(inference->op, "dims")->ints;
  BD_TRY(read_image(inference, dy, extents, w->dims + 2, &shape));
  if (__builtin_mul_overflow(w->dims[1], bd_op_int(inference->op, "groups", 1), &channels))
    return bd_inference_fail(inference, "too many channels");
  BD_TRY(add_conv_loops(inference, &shape, channels, w->dims[0], maps));
  BD_TRY(check_result_image(inference, 0, w->dims[0], &shape));
  set_result(inference, &shape, channels, extents);
  return BD_OK;
}

bd_status bd_infer_conv_dw(bd_inference *inference) {
  static const int8_t maps[3][2] = {{SAMPLES, CHANNELS}, {SAMPLES, FILTERS}, {FILTERS, CHANNELS}};
  image_shape shape;
  const bd_type *x = inference->in[0], *dy = inference->in[1];
  BD_TRY(check_image(inference, 0));
  BD_TRY(check_image(inference, 1));
  BD_TRY(read_image(inference, x, NULL, NULL, &shape));
  int64_t filters = dy->dims[shape.at.channels];
  BD_TRY(add_conv_loops(inference, &shape, shape.c, filters, maps));
  BD_TRY(check_result_image(inference, 1, filters, &shape));
  bd_type *dw = &inference->out[0];
  dw->rank = 2 + shape.windows.count;
  dw->dims[0] = filters;
  dw->dims[1] = group_channels(inference, shape.c);
  for (int d = 0; d < shape.windows.count; ++d)
    dw->dims[2 + d] = shape.windows.kernel[d];
  return BD_OK;
}

static bd_status add_pool_loops(bd_inference *inference, image_shape *shape) {
  BD_TRY(check_image(inference, 0));
  BD_TRY(read_image(inference, inference->in[0], NULL, NULL, shape));
  bd_inference_add_loop(inference, 'n', BD_LOOP_PARALLEL, shape->n);
  bd_inference_add_loop(inference, 'c', BD_LOOP_PARALLEL, shape->c);
  inference->map->loop[1].exact = true;
  add_window_loops(inference, shape);
  for (int8_t loop = 0; loop < 2; ++loop) {
    int d = loop ? shape->at.channels : 0;
    for (int i = 0; i < inference->op->in_count; ++i)
      inference->map->in[i][d] = loop;
    inference->map->out[0][d] = loop;
  }
  return BD_OK;
}

bd_status bd_infer_maxpool(bd_inference *inference) {
  image_shape shape;
  BD_TRY(add_pool_loops(inference, &shape));
  set_result(inference, &shape, shape.c, shape.y);
  return BD_OK;
}

bd_status bd_infer_maxpool_grad(bd_inference *inference) {
  image_shape shape;
  BD_TRY(add_pool_loops(inference, &shape));
  BD_TRY(check_result_image(inference, 1, shape.c, &shape));
  inference->out[0] = *inference->in[0];
  return BD_OK;
}
