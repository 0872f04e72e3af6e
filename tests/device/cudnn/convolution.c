// Convolutions of the fake cuDNN: what the library asks of them, which it has engines for, and
// their sums.
#include "tests/device/cudnn/descriptor.h"

#include <string.h>

enum { CHANNEL_UNIT = 8 };

static void read_list(const fake_descriptor *d, cudnnBackendAttributeName_t name, int spatial,
                      int64_t least, int64_t *out) {
  const fake_attribute *const a = fake_get(d, name);
  if (a->count != spatial)
    bd_fake_fault("a convolution", "attribute %d has %lld numbers for %d dimensions", (int)name,
                  (long long)a->count, spatial);
  memcpy(out, a->values, (size_t)spatial * sizeof *out);
  for (int i = 0; i < spatial; i++)
    if (out[i] < least)
      bd_fake_fault("a convolution", "attribute %d holds %lld", (int)name, (long long)out[i]);
}

static void read_windows(const fake_descriptor *d, fake_convolution *c) {
  c->spatial = (int)fake_integer(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 0);
  if (c->spatial < 2 || c->spatial > 3) bd_fake_fault("a convolution", "%d dimensions", c->spatial);
  read_list(d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, c->spatial, 1, c->stride);
  read_list(d, CUDNN_ATTR_CONVOLUTION_DILATIONS, c->spatial, 1, c->dilation);
  read_list(d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, c->spatial, 0, c->before);
  read_list(d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, c->spatial, 0, c->after);
}

void fake_check_windows(const fake_descriptor *d) {
  fake_convolution c;
  read_windows(d, &c);
  if (fake_integer(d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, -1) != CUDNN_DATA_FLOAT ||
      fake_integer(d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, -1) != CUDNN_CROSS_CORRELATION)
    bd_fake_fault("a convolution", "its type, or its mode");
}

int fake_convolution_of(const fake_descriptor *op, fake_convolution *out) {
  static const struct {
    cudnnBackendDescriptorType_t kind;
    cudnnBackendAttributeName_t windows, x, w, y;
  } kinds[] = {
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
  };
  for (int i = 0; i < 3; i++) {
    if (op->kind != kinds[i].kind) continue;
    memset(out, 0, sizeof *out);
    out->kind = i;
    read_windows(fake_link(op, kinds[i].windows), out);
    out->x = fake_tensor_of(fake_link(op, kinds[i].x));
    out->w = fake_tensor_of(fake_link(op, kinds[i].w));
    out->y = fake_tensor_of(fake_link(op, kinds[i].y));
    return 1;
  }
  return 0;
}

static float number_of(const fake_descriptor *d, cudnnBackendAttributeName_t name) {
  return *(const float *)fake_get(d, name)->values;
}

void fake_check_convolution(const fake_descriptor *d) {
  static const char call[] = "a convolution";
  static const cudnnBackendAttributeName_t alphas[] = {
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA};
  fake_convolution c;
  fake_convolution_of(d, &c);
  if (number_of(d, alphas[c.kind]) != 1 || number_of(d, alphas[c.kind] + 1) != 0)
    bd_fake_fault(call, "alpha is not 1, or beta not 0");
  if (c.x.rank != c.spatial + 2 || c.w.rank != c.x.rank || c.y.rank != c.x.rank)
    bd_fake_fault(call, "ranks of %d, %d and %d", c.x.rank, c.w.rank, c.y.rank);
  if (c.x.dims[0] != c.y.dims[0] || c.w.dims[0] != c.y.dims[1] || c.x.dims[1] % c.w.dims[1] ||
      c.w.dims[0] % (c.x.dims[1] / c.w.dims[1]))
    bd_fake_fault(call, "numbers of images or of channels that do not fit");
  for (int i = 0; i < c.spatial; i++) {
    const int64_t reach = (c.w.dims[2 + i] - 1) * c.dilation[i] + 1;
    const int64_t room = c.x.dims[2 + i] + c.before[i] + c.after[i] - reach;
    if (room < 0 || room / c.stride[i] + 1 != c.y.dims[2 + i])
      bd_fake_fault(call, "%lld windows along dimension %d", (long long)c.y.dims[2 + i], i);
  }
}

// Engines for halves compute in channels last, and make the other order of images, and channels
// that are no multiples of 8, in the workspace; filters in f32 from halves are made inside a graph
// alone, of such channels and with them last.
int fake_convolution_taken(const fake_convolution *c, int inner, int64_t *out_workspace) {
  const fake_tensor *const made = c->kind == FAKE_FORWARD         ? &c->y
                                  : c->kind == FAKE_BACKWARD_DATA ? &c->x
                                                                  : &c->w;
  const fake_tensor *const first = c->kind == FAKE_BACKWARD_DATA ? &c->y : &c->x;
  const fake_tensor *const second = c->kind == FAKE_BACKWARD_FILTER ? &c->y : &c->w;
  const int wide = first->data == CUDNN_DATA_FLOAT;
  const int odd = !wide && (c->x.dims[1] % CHANNEL_UNIT || c->y.dims[1] % CHANNEL_UNIT);
  const int last = c->x.strides[1] == 1 && c->y.strides[1] == 1;
  const int64_t bytes = (c->x.extent + c->y.extent) * (int64_t)fake_element_bytes(first);
  *out_workspace = (!last || odd) * bytes * bd_fake_setting("BD_FAKE_CUDNN_GROWS", 1);
  if (first->data != second->data) return 0;
  if (!inner) return made->data == first->data;
  return c->kind == FAKE_BACKWARD_FILTER && !wide && made->data == CUDNN_DATA_FLOAT && !odd &&
         last && made->strides[1] == 1;
}

// Where window point `k` of output point `y` lies in the image, by extents; 0: outside.
static int place(const fake_convolution *c, int64_t y, int64_t k, int64_t *in, int64_t *window,
                 int64_t *out) {
  *in = *window = *out = 0;
  for (int i = c->spatial - 1; i >= 0; i--) {
    const int64_t at = y % c->y.dims[2 + i], of = k % c->w.dims[2 + i];
    const int64_t from = at * c->stride[i] + of * c->dilation[i] - c->before[i];
    if (from < 0 || from >= c->x.dims[2 + i]) return 0;
    *in += from * c->x.strides[2 + i];
    *window += of * c->w.strides[2 + i];
    *out += at * c->y.strides[2 + i];
    y /= c->y.dims[2 + i];
    k /= c->w.dims[2 + i];
  }
  return 1;
}

static int64_t points_of(const fake_tensor *t) {
  int64_t points = 1;
  for (int i = 2; i < t->rank; i++)
    points *= t->dims[i];
  return points;
}

// All channels of an image at one point of a window.
static void add_channels(const fake_convolution *c, int64_t image, const int64_t at[3], float *x,
                         float *w, float *y) {
  const int64_t channels = c->w.dims[1], outputs = c->w.dims[0] / (c->x.dims[1] / channels);
  for (int64_t o = 0; o < c->w.dims[0]; o++)
    for (int64_t i = 0; i < channels; i++) {
      const int64_t from = o / outputs * channels + i;
      float *const px = x + image * c->x.strides[0] + from * c->x.strides[1] + at[0];
      float *const pw = w + o * c->w.strides[0] + i * c->w.strides[1] + at[1];
      float *const py = y + image * c->y.strides[0] + o * c->y.strides[1] + at[2];
      if (c->kind == FAKE_FORWARD)
        *py += *px * *pw;
      else if (c->kind == FAKE_BACKWARD_DATA)
        *px += *py * *pw;
      else
        *pw += *px * *py;
    }
}

void fake_convolve(const fake_convolution *c, float *x, float *w, float *y) {
  const int64_t extents[] = {c->y.extent, c->x.extent, c->w.extent};
  float *const made = c->kind == FAKE_FORWARD ? y : c->kind == FAKE_BACKWARD_DATA ? x : w;
  for (int64_t i = 0; i < extents[c->kind]; i++)
    made[i] = 0;
  for (int64_t image = 0; image < c->x.dims[0]; image++)
    for (int64_t p = 0; p < points_of(&c->y); p++)
      for (int64_t k = 0; k < points_of(&c->w); k++) {
        int64_t at[3];
        if (place(c, p, k, &at[0], &at[1], &at[2])) add_channels(c, image, at, x, w, y);
      }
}
