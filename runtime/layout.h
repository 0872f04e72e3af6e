// Where the elements of a weight are: in the model, on a rank, in the stored tensor.
#ifndef BD_RT_LAYOUT_H
#define BD_RT_LAYOUT_H
#include "runtime/braid_rt_abi.h"

// Functions that kernels of a device call as well.
#ifdef __CUDACC__
#define BD_RT_ANYWHERE static inline __host__ __device__
#else
#define BD_RT_ANYWHERE static inline
#endif

// A rank's part: per dimension the first logical element, the valid ones, and the padded extent.
typedef struct bd_rt_local {
  int32_t rank;
  int64_t dims[BD_RT_MAX_RANK], start[BD_RT_MAX_RANK], count[BD_RT_MAX_RANK],
      extent[BD_RT_MAX_RANK];
  int64_t elements; // of the buffer, padding included
} bd_rt_local;

// Coordinates of rank `number` of a mesh, lower axes slower.
void bd_rt_mesh_coord(int axes, const int32_t *mesh, int number, int *out_coord);

// Ranks of a mesh that differ only in the axes in `mask`, lower axes slower: how many they are, and
// which of them is at `coord`.
void bd_rt_mesh_group(int axes, const int32_t *mesh, int mask, const int *coord, int *out_size,
                      int *out_rank);

bd_rt_local bd_rt_local_of(const bd_rt_layout *layout, int axes, const int32_t *mesh,
                           const int *coord);

// Where the accumulators of a weight's gradients lie: as the weight, or cut further.
bd_rt_layout bd_rt_gradient_layout(const bd_rt_weight *weight);
// The axes over which ranks share the update of a weight that they all hold (ZeRO-1), as a mask. Of
// `program` axes and zero_axes count, of `weight` layout and cut_axis.
int bd_rt_zero_mask(const bd_rt_program *program, const bd_rt_weight *weight);

// Whether updates are of a copy of the weight in f32.
int bd_rt_has_master(const bd_rt_weight *weight);

// Whether the buffer holds elements that are none of the model's.
int bd_rt_local_padded(const bd_rt_local *local);

// Position in the rank's buffer of the logical element `flat`, or -1 when another rank holds it.
BD_RT_ANYWHERE int64_t bd_rt_local_find(const bd_rt_local *local, int64_t flat) {
  int64_t at = 0, stride = 1;
  for (int d = local->rank - 1; d >= 0; d--) {
    const int64_t index = flat % local->dims[d] - local->start[d];
    if (index < 0 || index >= local->count[d]) return -1;
    flat /= local->dims[d];
    at += index * stride;
    stride *= local->extent[d];
  }
  return at;
}

// Runs body for each row of valid elements: `count` of them from logical element `flat`, at `at` in
// the buffer.
typedef void (*bd_rt_row_body)(void *args, int64_t flat, int64_t at, int64_t count);
void bd_rt_local_rows(const bd_rt_local *local, bd_rt_row_body body, void *args);
// The same within positions [first, first + count) of the buffer; rows may be cut.
void bd_rt_local_window(const bd_rt_local *local, int64_t first, int64_t count, bd_rt_row_body body,
                        void *args);

// The stored tensors that the weight is a stack of, at least one, and the name of each.
int bd_rt_stored_count(const bd_rt_weight *weight);
const char *bd_rt_stored_name(const bd_rt_weight *weight, int number);

// Elements of one stored tensor, and the logical element of stored element `flat`, or -1 outside
// the slice. Elements of a stack's tensors are numbered one tensor after another.
int64_t bd_rt_stored_elements(const bd_rt_weight *weight);
BD_RT_ANYWHERE int64_t bd_rt_stored_to_logical(const bd_rt_weight *weight, int64_t flat) {
  int64_t dims[BD_RT_MAX_RANK], at[BD_RT_MAX_RANK];
  const int rank = weight->stored_rank;
  for (int d = rank - 1; d >= 0; d--) {
    dims[d] = weight->stored_dims[d];
    at[d] = flat % dims[d];
    flat /= dims[d];
  }
  if (weight->slice_dim >= 0) {
    const int d = weight->slice_dim;
    const int64_t size = weight->slice_size, every = weight->slice_every;
    const int64_t turn = every > 0 ? at[d] / every : 0;
    at[d] -= turn * every + weight->slice_start;
    if (at[d] < 0 || at[d] >= size) return -1;
    at[d] += turn * size;
    dims[d] = every > 0 ? dims[d] / every * size : size;
  }
  if (weight->transpose && rank == 2) return (flat * dims[1] + at[1]) * dims[0] + at[0];
  int64_t logical = flat; // what is left of it: the number of the tensor in its stack
  for (int d = 0; d < rank; d++)
    logical = logical * dims[d] + at[d];
  return logical;
}
#endif
