#include "planner/constraints/constraints.h"
#include <string.h>

// Axes of a mesh of pinned degrees, from far to near.
static const bd_cut axis_order[] = {BD_CUT_SAMPLES, BD_CUT_TOKENS, BD_CUT_FEATURES};
enum { AXIS_KINDS = sizeof axis_order / sizeof *axis_order };

// Degrees of all three kinds; false when they do not make up the devices.
static bool find_degrees(const bd_constraints *c, int devices, int64_t out[BD_CUT_COUNT]) {
  bd_cut rest = c->degree[BD_CUT_SAMPLES] ? BD_CUT_FEATURES : BD_CUT_SAMPLES;
  int64_t product = 1;
  for (int i = 0; i < AXIS_KINDS; i++) {
    bd_cut kind = axis_order[i];
    out[kind] = c->degree[kind] ? c->degree[kind] : 1;
    product *= out[kind];
  }
  if (!c->degree[rest] && devices % product == 0) {
    out[rest] = devices / product;
    product = devices;
  }
  return product == devices;
}

bool bd_constraints_mesh(const bd_constraints *c, int devices, bd_mesh *out) {
  int64_t degree[BD_CUT_COUNT];
  if (!find_degrees(c, devices, degree)) return false;
  *out = (bd_mesh){0};
  for (int i = 0; i < AXIS_KINDS; i++)
    if (degree[axis_order[i]] > 1) out->size[out->axes++] = (int)degree[axis_order[i]];
  if (!out->axes) *out = (bd_mesh){1, {1}};
  return true;
}

unsigned bd_constraints_kind_cuts(bd_cut kind) {
  static const unsigned cuts[BD_CUT_COUNT] = {
      [BD_CUT_SAMPLES] = 1u << BD_CUT_NONE | 1u << BD_CUT_SAMPLES,
      [BD_CUT_TOKENS] = 1u << BD_CUT_NONE | 1u << BD_CUT_TOKENS,
      [BD_CUT_FEATURES] = 1u << BD_CUT_NONE | 1u << BD_CUT_TOKENS | 1u << BD_CUT_FEATURES,
  };
  return cuts[kind];
}

unsigned bd_constraints_axis_cuts(const bd_constraints *c, const bd_mesh *mesh, int axis) {
  int64_t degree[BD_CUT_COUNT];
  unsigned all = (1u << BD_CUT_COUNT) - 1;
  if (!bd_constraints_have_degrees(c) || !find_degrees(c, bd_mesh_devices(mesh), degree))
    return all;
  for (int i = 0, at = 0; i < AXIS_KINDS; i++) {
    bool rest = axis_order[i] == BD_CUT_FEATURES;
    if (degree[axis_order[i]] > 1 && (at++ == axis || rest))
      return bd_constraints_kind_cuts(axis_order[i]);
  }
  return all;
}

bool bd_constraints_has_feature_axis(const bd_constraints *c, const bd_mesh *mesh) {
  int64_t degree[BD_CUT_COUNT];
  return find_degrees(c, bd_mesh_devices(mesh), degree) && degree[BD_CUT_FEATURES] > 1;
}

static bool is_forbidden(const bd_constraints *c, int what, int64_t value) {
  for (int i = 0; c && i < c->forbid_count; i++)
    if (c->forbids[i].what == what && bd_forbid_hits(&c->forbids[i], value)) return true;
  return false;
}

bool bd_constraints_allow_stages(const bd_constraints *c, int stages) {
  return !is_forbidden(c, BD_FORBID_STAGES, stages);
}

bool bd_constraints_allow_micro_batch(const bd_constraints *c, const bd_mesh *mesh,
                                      int64_t micro_batch) {
  int64_t degree[BD_CUT_COUNT];
  if (bd_constraints_have_degrees(c) && find_degrees(c, bd_mesh_devices(mesh), degree) &&
      micro_batch % degree[BD_CUT_SAMPLES])
    return false;
  return !is_forbidden(c, BD_FORBID_MICRO_BATCH, micro_batch);
}

bool bd_constraints_allow_zero(const bd_constraints *c, int pinned, int stage) {
  return (pinned < 0 || pinned == stage) && !is_forbidden(c, BD_FORBID_ZERO, stage);
}

bool bd_constraints_split_states(const bd_constraints *c, int pinned) {
  return bd_constraints_allow_zero(c, pinned, 1) || !bd_constraints_allow_zero(c, pinned, 0);
}

static bool allow_axes(const bd_constraints *c, const bd_mesh *mesh, const bd_sharding *form,
                       const bd_cut cut_of_dim[2]) {
  for (int axis = 0; bd_constraints_have_degrees(c) && axis < mesh->axes; axis++)
    if (form->at[axis] >= 0 &&
        !(bd_constraints_axis_cuts(c, mesh, axis) >> cut_of_dim[form->at[axis] > 0] & 1u))
      return false;
  return true;
}

bool bd_constraints_allow_form(const bd_constraints *c, const bd_mesh *mesh,
                               const bd_sharding *form) {
  static const bd_cut cut_of_dim[] = {BD_CUT_SAMPLES, BD_CUT_TOKENS};
  return allow_axes(c, mesh, form, cut_of_dim);
}

bool bd_constraints_allow_tied(const bd_constraints *c, int pinned, const bd_mesh *mesh,
                               const bd_sharding *form) {
  static const bd_cut cut_of_dim[] = {BD_CUT_FEATURES, BD_CUT_FEATURES};
  return bd_constraints_allow_zero(c, pinned, BD_MAX_ZERO) || allow_axes(c, mesh, form, cut_of_dim);
}

void bd_constraints_cuts(bd_ctx *ctx, const bd_constraints *c, int stages, int layers,
                         int **out_least, int **out_most) {
  *out_least = *out_most = NULL;
  for (int i = 0; c && i < c->layer_count; i++) {
    const bd_layer_pin *pin = &c->layers[i];
    if (pin->stage < 0) continue;
    if (!*out_least) {
      *out_least = BD_NEW_ARRAY(ctx->arena, int, stages);
      *out_most = BD_NEW_ARRAY(ctx->arena, int, stages);
      for (int s = 0; s < stages; s++)
        (*out_most)[s] = layers;
    }
    // A layer is on stage s when fewer than all before it are on earlier stages, and it on those up
    // to s.
    for (int s = 0; s < stages; s++) {
      int end = pin->first + pin->count;
      if (s >= pin->stage && (*out_least)[s] < end) (*out_least)[s] = end;
      if (s < pin->stage && (*out_most)[s] > pin->first) (*out_most)[s] = pin->first;
    }
  }
}

bool bd_constraints_name(const bd_constraints *c, int strategy) {
  for (int i = 0; i < c->layer_count; i++)
    if (c->layers[i].strategy == strategy) return true;
  return false;
}

const bd_strategy_pin *bd_constraints_pin_of(const bd_constraints *c, const char *function,
                                             int layer) {
  for (int i = 0; c && i < c->layer_count; i++) {
    const bd_layer_pin *pin = &c->layers[i];
    if (pin->strategy >= 0 && layer >= pin->first && layer < pin->first + pin->count)
      return &c->strategies[pin->strategy];
  }
  for (int i = 0; c && i < c->strategy_count; i++)
    if (strcmp(c->strategies[i].function, function) == 0 && !bd_constraints_name(c, i))
      return &c->strategies[i];
  return NULL;
}
