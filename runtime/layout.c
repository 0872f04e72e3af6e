#include "runtime/layout.h"

void bd_rt_mesh_coord(int axes, const int32_t *mesh, int number, int *out_coord) {
  for (int a = axes - 1; a >= 0; a--) {
    out_coord[a] = number % mesh[a];
    number /= mesh[a];
  }
}

void bd_rt_mesh_group(int axes, const int32_t *mesh, int mask, const int *coord, int *out_size,
                      int *out_rank) {
  *out_size = 1;
  *out_rank = 0;
  for (int a = 0; a < axes; a++)
    if (mask >> a & 1) {
      *out_size *= mesh[a];
      *out_rank = *out_rank * mesh[a] + coord[a];
    }
}

bd_rt_local bd_rt_local_of(const bd_rt_layout *layout, int axes, const int32_t *mesh,
                           const int *coord) {
  bd_rt_local local = {.rank = layout->rank, .elements = 1};
  for (int d = 0; d < layout->rank; d++) {
    int64_t parts = 1, index = 0;
    for (int a = 0; a < axes; a++)
      if (layout->at[a] == d) {
        parts *= mesh[a];
        index = index * mesh[a] + coord[a];
      }
    const int64_t extent = layout->dims[d], part = (extent + parts - 1) / parts;
    const int64_t start = part * index < extent ? part * index : extent;
    local.dims[d] = extent;
    local.extent[d] = part;
    local.start[d] = start;
    local.count[d] = extent - start < part ? extent - start : part;
    local.elements *= part;
  }
  return local;
}

bd_rt_layout bd_rt_gradient_layout(const bd_rt_weight *weight) {
  bd_rt_layout layout = weight->layout;
  if (weight->cut_axis) layout.at[weight->cut_axis - 1] = weight->cut_dim;
  return layout;
}

int bd_rt_zero_mask(const bd_rt_program *program, const bd_rt_weight *weight) {
  int mask = 0;
  for (int a = 0; a < program->axes && !weight->cut_axis; a++)
    if (program->zero_axes >> a & 1 && weight->layout.at[a] < 0) mask |= 1 << a;
  return mask;
}

int bd_rt_has_master(const bd_rt_weight *weight) {
  return weight->layout.dtype != BD_RT_F32 && !weight->rounded;
}

int bd_rt_local_padded(const bd_rt_local *local) {
  for (int d = 0; d < local->rank; d++)
    if (local->count[d] != local->extent[d]) return 1;
  return 0;
}

// Logical element of the row that starts at `at` in the buffer, or -1 when it is padding.
static int64_t row_of(const bd_rt_local *local, int64_t at) {
  int64_t flat = 0, stride = 1;
  for (int d = local->rank - 1; d >= 0; d--) {
    const int64_t index = at % local->extent[d];
    if (index >= local->count[d]) return -1;
    flat += (local->start[d] + index) * stride;
    stride *= local->dims[d];
    at /= local->extent[d];
  }
  return flat;
}

void bd_rt_local_window(const bd_rt_local *local, int64_t first, int64_t count, bd_rt_row_body body,
                        void *args) {
  const int last = local->rank - 1;
  const int64_t row = last < 0 ? 1 : local->extent[last], valid = last < 0 ? 1 : local->count[last];
  const int64_t end = first + count;
  for (int64_t at = row > 0 ? first / row * row : end; at < end; at += row) {
    const int64_t flat = row_of(local, at);
    const int64_t from = at < first ? first : at, to = at + valid < end ? at + valid : end;
    if (flat >= 0 && from < to) body(args, flat + (from - at), from, to - from);
  }
}

void bd_rt_local_rows(const bd_rt_local *local, bd_rt_row_body body, void *args) {
  bd_rt_local_window(local, 0, local->elements, body, args);
}

int64_t bd_rt_stored_elements(const bd_rt_weight *weight) {
  int64_t elements = 1;
  for (int d = 0; d < weight->stored_rank; d++)
    elements *= weight->stored_dims[d];
  return elements;
}

int bd_rt_stored_count(const bd_rt_weight *weight) {
  return weight->stack > 0 ? weight->stack : 1;
}

const char *bd_rt_stored_name(const bd_rt_weight *weight, int number) {
  return weight->stack > 0 ? weight->stack_names[number] : weight->stored_name;
}
