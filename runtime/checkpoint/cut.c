#include "runtime/checkpoint/cut.h"

#include "runtime/rank.h"

const char *bd_rt_saved_name(int kind) {
  static const char *const names[] = {
      [BD_RT_SAVED_WEIGHT] = "weight",   [BD_RT_SAVED_FIRST] = "first",
      [BD_RT_SAVED_SECOND] = "second",   [BD_RT_SAVED_ROWS] = "rows",
      [BD_RT_SAVED_COLUMNS] = "columns", [BD_RT_SAVED_MEAN] = "mean"};
  return names[kind];
}

int bd_rt_saved_has(const bd_rt_program *program, const bd_rt_weight *weight, int kind) {
  const int optimizer = program->optimizer;
  if (kind == BD_RT_SAVED_WEIGHT) return 1;
  if (weight->gradient_count == 0 || weight->average > 0) return 0;
  switch (kind) {
  case BD_RT_SAVED_FIRST:
    return optimizer == BD_RT_MOMENTUM || optimizer == BD_RT_ADAM || optimizer == BD_RT_ADAMW;
  case BD_RT_SAVED_SECOND:
    return optimizer == BD_RT_ADAM || optimizer == BD_RT_ADAMW;
  case BD_RT_SAVED_COLUMNS:
    return optimizer == BD_RT_ADAFACTOR && weight->factor_dim < weight->layout.rank;
  default:
    return optimizer == BD_RT_ADAFACTOR;
  }
}

// Dimensions [first, end) of a layout.
static bd_rt_layout some_dims(const bd_rt_layout *layout, int first, int end) {
  bd_rt_layout some = {.dtype = BD_RT_F32, .rank = end - first};
  for (int d = first; d < end; d++)
    some.dims[d - first] = layout->dims[d];
  for (int a = 0; a < BD_RT_MAX_AXES; a++) {
    const int at = layout->at[a];
    some.at[a] = at >= first && at < end ? at - first : -1;
  }
  return some;
}

static bd_rt_layout layout_of(const bd_rt_weight *weight, int kind) {
  bd_rt_layout layout = bd_rt_gradient_layout(weight);
  if (kind == BD_RT_SAVED_WEIGHT && !bd_rt_has_master(weight)) return weight->layout;
  if (kind == BD_RT_SAVED_ROWS) return some_dims(&layout, 0, weight->factor_dim);
  if (kind == BD_RT_SAVED_COLUMNS) return some_dims(&layout, weight->factor_dim, layout.rank);
  if (kind == BD_RT_SAVED_MEAN) return some_dims(&layout, 0, 0);
  layout.dtype = BD_RT_F32;
  return layout;
}

// The axes over which the flat elements are in parts: those of the optimizer's elementwise state.
static int flat_axes(const bd_rt_program *program, const bd_rt_weight *weight, int kind) {
  const int own = kind == BD_RT_SAVED_FIRST || kind == BD_RT_SAVED_SECOND ||
                  (kind == BD_RT_SAVED_WEIGHT && bd_rt_has_master(weight));
  return own ? bd_rt_zero_mask(program, weight) : 0;
}

// Narrows the cut to the part of the rank among those that differ in the axes of `mask` alone.
static void take_part(const bd_rt_program *program, int mask, const int *coord, bd_rt_cut *cut) {
  int64_t start;
  int size, index;
  bd_rt_mesh_group(program->axes, program->mesh, mask, coord, &size, &index);
  bd_rt_part(cut->count, size, index, &start, &cut->count);
  cut->start += start;
}

bd_rt_cut bd_rt_cut_held(const bd_rt_program *program, const bd_rt_weight *weight, int kind,
                         const int *coord) {
  const bd_rt_layout layout = layout_of(weight, kind);
  bd_rt_cut cut = {.dtype = layout.dtype};
  cut.local = bd_rt_local_of(&layout, program->axes, program->mesh, coord);
  cut.count = cut.local.elements;
  take_part(program, flat_axes(program, weight, kind), coord, &cut);
  return cut;
}

bd_rt_cut bd_rt_cut_written(const bd_rt_program *program, const bd_rt_weight *weight, int kind,
                            const int *coord) {
  const bd_rt_layout layout = layout_of(weight, kind);
  bd_rt_cut cut = bd_rt_cut_held(program, weight, kind, coord);
  int alike = ~flat_axes(program, weight, kind);
  for (int a = 0; a < program->axes; a++)
    if (layout.at[a] >= 0) alike &= ~(1 << a);
  take_part(program, alike, coord, &cut);
  return cut;
}
