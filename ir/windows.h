// Windows over the last one to three dimensions of a tensor: of convolutions, pools, `unfold` and
// `fold`.
#ifndef BD_IR_WINDOWS_H
#define BD_IR_WINDOWS_H
#include "ir/module.h"

#define BD_MAX_SPATIAL 3

// Along each dimension: element j of window i is element i * stride + j * dilation - before.
typedef struct bd_windows {
  int count; // of dimensions
  int64_t kernel[BD_MAX_SPATIAL], stride[BD_MAX_SPATIAL], dilation[BD_MAX_SPATIAL];
  int64_t before[BD_MAX_SPATIAL], after[BD_MAX_SPATIAL];
} bd_windows;

// Windows of `kernel`, `count` extents, with the attributes strides, dilations and pads (all that
// come before, then all after) of an op that inference has accepted. NULL: those of its attribute
// kernel, as many as it has.
bd_windows bd_windows_of(const bd_op *op, int count, const int64_t *kernel);
// Elements of one window.
int64_t bd_windows_elements(const bd_windows *windows);
// Windows along dimension `d` of `extent` elements; below 1 where none fits.
int64_t bd_windows_along(const bd_windows *windows, int d, int64_t extent);

// Where images have their channels and the first of their extents: [n, c, extents..], or with the
// op's attribute channels_last [n, extents.., c]. Filters are [o, c / groups, k..] either way.
typedef struct bd_image_order {
  int channels, extents;
} bd_image_order;
bd_image_order bd_image_order_of(const bd_op *op, int rank);

// The spatial shape of a convolution or a pool, as three dimensions: in front of fewer stand ones.
typedef struct bd_window_shape {
  int64_t x[BD_MAX_SPATIAL], k[BD_MAX_SPATIAL], y[BD_MAX_SPATIAL]; // extents: in, window, out
  int64_t stride[BD_MAX_SPATIAL], dilation[BD_MAX_SPATIAL], before[BD_MAX_SPATIAL];
} bd_window_shape;
// `x` and `y` are images in the op's order; windows from the filter's type, or where that is NULL
// from the attribute kernel.
bd_window_shape bd_window_shape_of(const bd_op *op, const bd_type *x, const bd_type *filter,
                                   const bd_type *y);
#endif
