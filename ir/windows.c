#include "ir/windows.h"

static int64_t entry_of(const bd_op *op, const char *name, int i, int64_t absent) {
  const bd_attr *attr = bd_op_find_attr(op, name);
  return attr ? attr->ints[i] : absent;
}

bd_windows bd_windows_of(const bd_op *op, int count, const int64_t *kernel) {
  bd_windows w = {.count = kernel ? count : bd_op_find_attr(op, "kernel")->count};
  for (int d = 0; d < w.count; ++d) {
    w.kernel[d] = kernel ? kernel[d] : entry_of(op, "kernel", d, 1);
    w.stride[d] = entry_of(op, "strides", d, 1);
    w.dilation[d] = entry_of(op, "dilations", d, 1);
    w.before[d] = entry_of(op, "pads", d, 0);
    w.after[d] = entry_of(op, "pads", d + w.count, 0);
  }
  return w;
}

int64_t bd_windows_elements(const bd_windows *windows) {
  int64_t elements = 1;
  for (int d = 0; d < windows->count; ++d)
    elements *= windows->kernel[d];
  return elements;
}

int64_t bd_windows_along(const bd_windows *windows, int d, int64_t extent) {
  int64_t reach = (windows->kernel[d] - 1) * windows->dilation[d] + 1;
  int64_t room = extent + windows->before[d] + windows->after[d] - reach;
  return room < 0 ? 0 : room / windows->stride[d] + 1;
}

bd_image_order bd_image_order_of(const bd_op *op, int rank) {
  bool last = bd_op_int(op, "channels_last", 0) != 0;
  return (bd_image_order){.channels = last ? rank - 1 : 1, .extents = last ? 1 : 2};
}

bd_window_shape bd_window_shape_of(const bd_op *op, const bd_type *x, const bd_type *filter,
                                   const bd_type *y) {
  int first = bd_image_order_of(op, x->rank).extents;
  bd_windows w = bd_windows_of(op, x->rank - 2, filter ? filter->dims + 2 : NULL);
  bd_window_shape s;
  for (int d = 0; d < BD_MAX_SPATIAL; ++d) {
    int from = d - (BD_MAX_SPATIAL - w.count);
    bool there = from >= 0;
    s.x[d] = there ? x->dims[first + from] : 1;
    s.y[d] = there ? y->dims[first + from] : 1;
    s.k[d] = there ? w.kernel[from] : 1;
    s.stride[d] = there ? w.stride[from] : 1;
    s.dilation[d] = there ? w.dilation[from] : 1;
    s.before[d] = there ? w.before[from] : 0;
  }
  return s;
}
