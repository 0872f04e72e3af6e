#include "ir/mesh.h"
#include <stdlib.h>

int bd_mesh_devices(const bd_mesh *mesh) {
  int devices = 1;
  for (int axis = 0; axis < mesh->axes; ++axis)
    devices *= mesh->size[axis];
  return devices;
}

bool bd_mesh_same(const bd_mesh *a, const bd_mesh *b) {
  if (a->axes != b->axes) return false;
  for (int axis = 0; axis < a->axes; axis++)
    if (a->size[axis] != b->size[axis]) return false;
  return true;
}

void bd_mesh_coords(const bd_mesh *mesh, int rank, int out_coords[BD_MAX_AXES]) {
  for (int axis = mesh->axes; axis < BD_MAX_AXES; ++axis)
    out_coords[axis] = 0;
  for (int axis = mesh->axes - 1; axis >= 0; --axis) {
    out_coords[axis] = rank % mesh->size[axis];
    rank /= mesh->size[axis];
  }
}

bd_sharding bd_sharding_replicated(void) {
  bd_sharding sharding;
  for (int axis = 0; axis < BD_MAX_AXES; ++axis)
    sharding.at[axis] = BD_REPLICATED;
  return sharding;
}

bool bd_sharding_equal(const bd_sharding *a, const bd_sharding *b) {
  for (int axis = 0; axis < BD_MAX_AXES; ++axis)
    if (a->at[axis] != b->at[axis]) return false;
  return true;
}

bool bd_sharding_has_partial(const bd_sharding *sharding) {
  for (int axis = 0; axis < BD_MAX_AXES; ++axis)
    if (sharding->at[axis] <= BD_PARTIAL_SUM) return true;
  return false;
}

int bd_sharding_parts(const bd_mesh *mesh, const bd_sharding *sharding, int dim) {
  int parts = 1;
  for (int axis = 0; axis < mesh->axes; ++axis)
    if (sharding->at[axis] == dim) parts *= mesh->size[axis];
  return parts;
}

static bool divides(const bd_sharding *sharding, const bd_mesh *mesh, const bd_type *type,
                    int dim) {
  return type->dims[dim] == BD_DIM_BATCH ||
         type->dims[dim] % bd_sharding_parts(mesh, sharding, dim) == 0;
}

bd_sharding bd_sharding_for_type(const bd_sharding *sharding, const bd_mesh *mesh,
                                 const bd_type *type) {
  bd_sharding out = *sharding;
  for (int axis = 0; axis < BD_MAX_AXES; axis++) {
    int dim = sharding->at[axis];
    if (dim >= type->rank || (dim >= 0 && !divides(sharding, mesh, type, dim)))
      out.at[axis] = BD_REPLICATED;
  }
  return out;
}

int64_t bd_local_extent(const bd_mesh *mesh, const bd_sharding *sharding, int dim, int64_t extent) {
  int64_t parts = bd_sharding_parts(mesh, sharding, dim);
  return extent / parts + (extent % parts != 0);
}

bool bd_parts_are_filled(int64_t extent, int64_t parts) {
  int64_t part = extent / parts + (extent % parts != 0);
  return (parts - 1) * part < extent;
}

void bd_local_range(const bd_mesh *mesh, const bd_sharding *sharding, int dim, int64_t extent,
                    int rank, int64_t *out_start, int64_t *out_count) {
  int coords[BD_MAX_AXES];
  bd_mesh_coords(mesh, rank, coords);
  int64_t part = 0;
  for (int axis = 0; axis < mesh->axes; ++axis)
    if (sharding->at[axis] == dim) part = part * mesh->size[axis] + coords[axis];
  int64_t size = bd_local_extent(mesh, sharding, dim, extent);
  int64_t start = part * size;
  if (start > extent) start = extent;
  *out_start = start;
  *out_count = extent - start < size ? extent - start : size;
}

bd_type bd_local_type(const bd_mesh *mesh, const bd_sharding *sharding, const bd_type *type,
                      int64_t batch) {
  bd_type local = *type;
  for (int i = 0; i < type->rank; ++i)
    local.dims[i] = bd_local_extent(mesh, sharding, i, bd_extent(type->dims[i], batch));
  return local;
}

int64_t bd_local_elements(const bd_mesh *mesh, const bd_sharding *sharding, const bd_type *type,
                          int64_t batch) {
  int64_t parts[BD_MAX_RANK], elements = 1;
  for (int i = 0; i < type->rank; ++i)
    parts[i] = 1;
  for (int axis = 0; axis < mesh->axes; ++axis)
    if (sharding->at[axis] >= 0 && sharding->at[axis] < type->rank)
      parts[sharding->at[axis]] *= mesh->size[axis];
  for (int i = 0; i < type->rank; ++i) {
    int64_t extent = bd_extent(type->dims[i], batch);
    if (parts[i] > 1) extent = extent / parts[i] + (extent % parts[i] != 0);
    if (__builtin_mul_overflow(elements, extent, &elements)) return INT64_MAX;
  }
  return elements;
}

const char *bd_mesh_words(bd_ctx *ctx, const bd_mesh *mesh) {
  const char *words = "";
  for (int a = 0; a < mesh->axes; a++)
    words = bd_intern_f(ctx, "%s%s%d", words, a ? "x" : "", mesh->size[a]);
  return words;
}

bool bd_mesh_parse(const char *text, bd_mesh *out) {
  long devices = 1;
  *out = (bd_mesh){0};
  for (const char *at = text; at;) {
    char *end;
    long size = strtol(at, &end, 10);
    if (end == at || *at < '0' || *at > '9' || size < 1 || size > BD_MAX_DEVICES ||
        out->axes == BD_MAX_AXES || (*end && *end != 'x') || (devices *= size) > BD_MAX_DEVICES)
      return false;
    out->size[out->axes++] = (int)size;
    at = *end ? end + 1 : NULL;
  }
  return true;
}
