#include "ir/partition_values.h"

#include "ir/reshard.h"
#include <assert.h>

void bd_versions_add(bd_versions *versions, bd_id source, int stage, bd_id id) {
  bd_version *version = BD_NEW(versions->ctx->arena, bd_version);
  *version = (bd_version){.id = id, .stage = stage};
  bd_version **end = &versions->of[source];
  while (*end)
    end = &(*end)->next;
  *end = version;
}

bd_id bd_versions_first(const bd_versions *versions, bd_id source, int stage) {
  for (const bd_version *v = versions->of[source]; v; v = v->next)
    if (stage < 0 || v->stage == stage) return v->id;
  return BD_NO_ID;
}

bd_status bd_versions_get(bd_versions *versions, bd_id source, int stage, const bd_sharding *to,
                          bd_loc loc, bd_id *out_id) {
  bd_id best = BD_NO_ID;
  int best_rank = 0;
  for (const bd_version *v = versions->of[source]; v; v = v->next) {
    const bd_sharding *from = &versions->function->values[v->id].sharding;
    if (v->stage != stage) continue;
    if (bd_sharding_equal(from, to)) {
      *out_id = v->id;
      return BD_OK;
    }
    int rank = bd_reshard_rank(&versions->module->mesh, from, to);
    if (rank < 0 || (best != BD_NO_ID && rank >= best_rank)) continue;
    best = v->id;
    best_rank = rank;
  }
  assert(best != BD_NO_ID);
  BD_TRY(bd_reshard(versions->ctx, versions->module, versions->function, best, to, loc, out_id));
  bd_versions_add(versions, source, stage, *out_id);
  return BD_OK;
}

static int sum_along(int axis, int count, const bd_sharding *const *shardings) {
  int shared = shardings[0]->at[axis], cut = BD_REPLICATED;
  bool same = true;
  for (int i = 0; i < count; ++i) {
    int at = shardings[i]->at[axis];
    same = same && at == shared;
    if (cut == BD_REPLICATED && at >= 0) cut = at;
  }
  return same && shared >= BD_PARTIAL_SUM ? shared : cut;
}

bd_sharding bd_sum_sharding(const bd_module *module, const bd_type *type, int count,
                            const bd_sharding *const *shardings) {
  const bd_mesh *mesh = &module->mesh;
  bd_sharding sum = bd_sharding_replicated();
  for (int axis = 0; axis < mesh->axes; ++axis)
    sum.at[axis] = (int8_t)sum_along(axis, count, shardings);
  for (int axis = 0; axis < mesh->axes; ++axis) {
    int dim = sum.at[axis], sharers = 0;
    if (dim < 0) continue;
    for (int other = 0; other < mesh->axes; ++other)
      sharers += sum.at[other] == dim;
    int64_t extent = bd_extent(type->dims[dim], module->micro_batch);
    if (sharers > 1 && extent % bd_sharding_parts(mesh, &sum, dim) != 0)
      sum.at[axis] = BD_REPLICATED;
  }
  return sum;
}

// A name that a value has, and the last number that was tried behind it.
typedef struct name_slot {
  const char *name;
  int tries;
} name_slot;

// Interned names, hashed by address with open addressing: they are fewer than half the slots.
typedef struct name_set {
  size_t slots;
  name_slot *slot;
} name_set;

static name_slot *find_name(const name_set *set, const char *interned) {
  size_t at = (size_t)((uintptr_t)interned * UINT64_C(0x9e3779b97f4a7c15) >> 32) % set->slots;
  while (set->slot[at].name && set->slot[at].name != interned)
    at = (at + 1) % set->slots;
  return &set->slot[at];
}

void bd_make_names_unique(bd_ctx *ctx, bd_function *function) {
  name_set taken = {.slots = 4 * (size_t)function->value_count + 1};
  taken.slot = bd_arena_array(ctx->arena, taken.slots, sizeof *taken.slot);
  for (bd_id v = 0; v < function->value_count; ++v) {
    const char *base = function->values[v].name, *name = base;
    name_slot *first = find_name(&taken, base);
    while (find_name(&taken, name)->name)
      name = bd_intern_f(ctx, "%s.%d", base, ++first->tries);
    function->values[v].name = find_name(&taken, name)->name = name;
  }
}
