// Windows over the last one to three dimensions of a tensor, as `unfold` and `fold` have them.
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

// The attributes kernel, strides, dilations and pads (all that come before, then all after) of an
// op that inference has accepted.
bd_windows bd_windows_of(const bd_op *op);
// Elements of one window.
int64_t bd_windows_elements(const bd_windows *windows);
// Windows along dimension `d` of `extent` elements; below 1 where none fits.
int64_t bd_windows_along(const bd_windows *windows, int d, int64_t extent);
#endif
