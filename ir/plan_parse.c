#include "ir/balance.h"
#include "ir/base/json.h"
#include "ir/name_map.h"
#include "ir/optimizer.h"
#include "ir/parts.h"
#include "ir/plan.h"
#include "ir/plan_predicted.h"
#include <string.h>

#define MAX_COUNT ((int64_t)1 << 24)
#define MAX_CHUNKS 4096

typedef struct plan_reader {
  bd_ctx *ctx;
  const bd_module *train; // NULL: the strategies' insides are skipped
  bd_plan *plan;
} plan_reader;

// One of two names, by its number; without the key it stays as it is.
static bd_status read_choice(plan_reader *r, const bd_json *root, const char *key,
                             const char *const *names, int *choice) {
  const char *name = NULL;
  BD_TRY(bd_json_string(r->ctx, root, key, false, &name));
  for (int i = 0; name && names[i]; i++) {
    if (strcmp(names[i], name) != 0) continue;
    *choice = i;
    return BD_OK;
  }
  if (!name) return BD_OK;
  return bd_fail(r->ctx, BD_INVALID, bd_json_find(root, key)->loc,
                 "unknown %s; known are %s and %s", key, names[0], names[1]);
}

static bd_status read_masters(plan_reader *r, const bd_json *root) {
  int masters = BD_MASTERS_F32;
  BD_TRY(read_choice(r, root, "masters", bd_masters_names(), &masters));
  if (masters == BD_MASTERS_NONE && r->plan->precision != BD_BF16)
    return bd_fail(r->ctx, BD_INVALID, bd_json_find(root, "masters")->loc,
                   "weights have no masters in the precision bf16 alone, not in %s",
                   bd_dtype_name(r->plan->precision));
  r->plan->masters = (bd_masters)masters;
  return BD_OK;
}

static bd_status read_gradients(plan_reader *r, const bd_json *root) {
  int gradients = BD_GRADIENTS_F32;
  BD_TRY(read_choice(r, root, "gradients", bd_gradients_names(), &gradients));
  if (gradients == BD_GRADIENTS_BF16 && r->plan->masters != BD_MASTERS_NONE)
    return bd_fail(r->ctx, BD_INVALID, bd_json_find(root, "gradients")->loc,
                   "gradients are in bf16 where weights have no masters alone");
  r->plan->gradients = (bd_gradients)gradients;
  return BD_OK;
}

static bd_status read_library(plan_reader *r, const bd_json *root) {
  const char *name = NULL;
  BD_TRY(bd_json_string(r->ctx, root, "library", false, &name));
  if (!name) return BD_OK;
  if (strcmp(name, "one_head") || strcmp(r->plan->target, "cuda"))
    return bd_fail(r->ctx, BD_INVALID, bd_json_find(root, "library")->loc,
                   "the library segment may be said to be \"one_head\", for the target cuda");
  r->plan->one_head = true;
  return BD_OK;
}

static bd_status read_head(plan_reader *r, const bd_json *root) {
  bd_ctx *ctx = r->ctx;
  bd_plan *plan = r->plan;
  const char *precision, *schedule;
  int64_t version, threads;
  BD_TRY(bd_json_int(ctx, root, "braid_plan", true, 0, INT32_MAX, &version));
  if (version != BD_PLAN_VERSION)
    return bd_fail(ctx, BD_INVALID, root->loc, "plan version %lld; this braid reads version %d",
                   (long long)version, BD_PLAN_VERSION);
  BD_TRY(bd_json_string(ctx, root, "model", true, &plan->model));
  BD_TRY(bd_json_string(ctx, root, "target", true, &plan->target));
  BD_TRY(bd_json_string(ctx, root, "cluster", false, &plan->cluster));
  BD_TRY(bd_json_string(ctx, root, "optimizer", true, &plan->optimizer));
  BD_TRY(bd_json_string(ctx, root, "precision", true, &precision));
  BD_TRY(bd_json_string(ctx, root, "schedule", true, &schedule));
  BD_TRY(bd_json_int(ctx, root, "global_batch", true, 1, MAX_COUNT, &plan->global_batch));
  BD_TRY(bd_json_int(ctx, root, "micro_batch", true, 1, MAX_COUNT, &plan->micro_batch));
  BD_TRY(bd_json_int(ctx, root, "sequence", true, 0, MAX_COUNT, &plan->sequence));
  BD_TRY(bd_json_int(ctx, root, "threads_per_rank", true, 1, 4096, &threads));
  plan->threads_per_rank = (int)threads;
  if (!bd_precision_parse(precision, &plan->precision))
    return bd_fail(ctx, BD_INVALID, bd_json_find(root, "precision")->loc,
                   "unknown precision; known are f32, bf16, f16 and f8");
  BD_TRY(read_masters(r, root));
  BD_TRY(read_gradients(r, root));
  if (!bd_schedule_parse(schedule, &plan->schedule))
    return bd_fail(ctx, BD_INVALID, bd_json_find(root, "schedule")->loc,
                   "unknown schedule; known are gpipe, 1f1b, interleaved and zero-bubble");
  if (strcmp(plan->target, "cpu") && strcmp(plan->target, "cuda"))
    return bd_fail(ctx, BD_INVALID, bd_json_find(root, "target")->loc,
                   "unknown target; known are cpu and cuda");
  BD_TRY(read_library(r, root));
  if (!bd_optimizer_find(plan->optimizer))
    return bd_fail(ctx, BD_INVALID, bd_json_find(root, "optimizer")->loc,
                   "unknown optimizer; known are adamw, adam, sgd, momentum and adafactor");
  return BD_OK;
}

static bd_status read_sizes(plan_reader *r, const bd_json *mesh, bd_mesh *out) {
  int64_t devices = 1, parts;
  if (mesh->kind != BD_JSON_ARRAY)
    return bd_fail(r->ctx, BD_INVALID, mesh->loc, "a mesh is a list of sizes");
  if (mesh->count > BD_MAX_AXES)
    return bd_fail(r->ctx, BD_INVALID, mesh->loc, "a mesh has at most %d axes", BD_MAX_AXES);
  for (size_t i = 0; i < mesh->count; i++) {
    const bd_json *size = &mesh->items[i];
    if (!bd_json_whole(size, 1, BD_MAX_DEVICES, &parts) || (devices *= parts) > BD_MAX_DEVICES)
      return bd_fail(r->ctx, BD_INVALID, size->loc, "mesh sizes are 1 or more, %d devices at most",
                     BD_MAX_DEVICES);
    out->size[out->axes++] = (int)parts;
  }
  return BD_OK;
}

static bd_status read_stage_meshes(plan_reader *r, const bd_json *root) {
  const bd_json *list = NULL;
  BD_TRY(bd_json_array(r->ctx, root, "stage_meshes", false, &list));
  if (!list) return BD_OK;
  if (list->count != (size_t)r->plan->stages)
    return bd_fail(r->ctx, BD_INVALID, list->loc, "meshes of %zu stages for a plan of %d",
                   list->count, r->plan->stages);
  bd_mesh *meshes = BD_NEW_ARRAY(r->ctx->arena, bd_mesh, list->count);
  for (size_t s = 0; s < list->count; s++) {
    BD_TRY(read_sizes(r, &list->items[s], &meshes[s]));
    if (meshes[s].axes != r->plan->mesh.axes)
      return bd_fail(r->ctx, BD_INVALID, list->items[s].loc,
                     "every stage's mesh has as many axes as 'mesh'; sizes may be 1");
  }
  for (int axis = 0; axis < r->plan->mesh.axes; axis++)
    if (meshes[0].size[axis] != r->plan->mesh.size[axis])
      return bd_fail(r->ctx, BD_INVALID, list->items[0].loc,
                     "the mesh of the first stage is not 'mesh'");
  r->plan->stage_mesh = meshes;
  return BD_OK;
}

// Stages may share no device.
static bd_status check_devices(plan_reader *r, const bd_json *list, const int *first) {
  for (int s = 0; s < r->plan->stages; s++)
    for (int t = 0; t < s; t++)
      if (first[s] < first[t] + bd_mesh_devices(bd_plan_mesh(r->plan, t)) &&
          first[t] < first[s] + bd_mesh_devices(bd_plan_mesh(r->plan, s)))
        return bd_fail(r->ctx, BD_INVALID, list->items[s].loc,
                       "stages %d and %d stand on the same devices", t, s);
  return BD_OK;
}

static bd_status read_stage_devices(plan_reader *r, const bd_json *root) {
  const bd_json *list = NULL;
  BD_TRY(bd_json_array(r->ctx, root, "stage_devices", false, &list));
  if (!list) return BD_OK;
  if (list->count != (size_t)r->plan->stages)
    return bd_fail(r->ctx, BD_INVALID, list->loc, "first devices of %zu stages for a plan of %d",
                   list->count, r->plan->stages);
  int *first = BD_NEW_ARRAY(r->ctx->arena, int, list->count);
  for (size_t s = 0; s < list->count; s++) {
    const bd_json *item = &list->items[s];
    int64_t device;
    if (!bd_json_whole(item, 0, MAX_COUNT, &device))
      return bd_fail(r->ctx, BD_INVALID, item->loc, "a device is a number from 0 to %lld",
                     (long long)MAX_COUNT);
    first[s] = (int)device;
  }
  BD_TRY(check_devices(r, list, first));
  r->plan->stage_device = first;
  return BD_OK;
}

static bd_status read_mesh(plan_reader *r, const bd_json *root) {
  bd_ctx *ctx = r->ctx;
  const bd_json *mesh, *zero;
  int64_t stages, chunks = 1, number;
  BD_TRY(bd_json_int(ctx, root, "stages", true, 1, BD_MAX_STAGES, &stages));
  BD_TRY(bd_json_int(ctx, root, "chunks", false, 1, MAX_CHUNKS, &chunks));
  BD_TRY(bd_json_array(ctx, root, "mesh", true, &mesh));
  BD_TRY(bd_json_array(ctx, root, "zero_axes", true, &zero));
  r->plan->stages = (int)stages;
  r->plan->chunks = (int)chunks;
  BD_TRY(read_sizes(r, mesh, &r->plan->mesh));
  for (size_t i = 0; i < zero->count; i++) {
    const bd_json *axis = &zero->items[i];
    if (!bd_json_whole(axis, 0, r->plan->mesh.axes - 1, &number))
      return bd_fail(ctx, BD_INVALID, axis->loc, "not an axis of the mesh");
    if (r->plan->zero_axes >> number & 1u)
      return bd_fail(ctx, BD_INVALID, axis->loc, "axis %d stands in \"zero_axes\" twice",
                     (int)number);
    r->plan->zero_axes |= 1u << number;
  }
  BD_TRY(read_stage_meshes(r, root));
  return read_stage_devices(r, root);
}

// Of every item of a list.
static bd_status read_only(plan_reader *r, const bd_json *list, const char *const *keys) {
  for (size_t i = 0; i < list->count; i++)
    BD_TRY(bd_json_only(r->ctx, &list->items[i], keys));
  return BD_OK;
}

static bd_status read_parts(plan_reader *r, const bd_json *item, int op, bd_strategy *out) {
  for (int pass = 0; pass < BD_PARTS_PASSES; pass++) {
    const char *key = bd_parts_key(pass);
    int64_t parts = 1;
    BD_TRY(bd_json_int(r->ctx, item, key, false, 1, BD_MAX_PARTS, &parts));
    if (!bd_parts_valid(parts))
      return bd_fail(r->ctx, BD_INVALID, bd_json_find(item, key)->loc, "'%s' is 1, 2, 4 or 8", key);
    if (parts == 1) continue;
    if (strcmp(r->plan->target, "cuda"))
      return bd_fail(r->ctx, BD_INVALID, bd_json_find(item, key)->loc,
                     "'%s': products are done in parts by programs for the target cuda alone", key);
    if (!out->parts)
      out->parts = bd_arena_array(r->ctx->arena, (size_t)out->op_count, sizeof *out->parts);
    out->parts[op][pass] = (unsigned char)parts;
  }
  return BD_OK;
}

static bd_status parse_product(bd_ctx *ctx, const bd_json *word, unsigned char *set) {
  for (int i = 0; word->kind == BD_JSON_STRING && i < BD_PRODUCT_COUNT; i++) {
    if (strcmp(bd_product_name((bd_product_of)i), word->string) != 0) continue;
    if (*set >> i & 1)
      return bd_fail(ctx, BD_INVALID, word->loc, "'bf16' lists \"%s\" twice", word->string);
    *set |= (unsigned char)(1u << i);
    return BD_OK;
  }
  return bd_fail(ctx, BD_INVALID, word->loc,
                 "'bf16' lists products of the op: \"forward\", \"input\" and \"weight\"");
}

bd_status bd_products_parse(bd_ctx *ctx, const bd_json *op, unsigned char *out_set) {
  const bd_json *list = NULL;
  *out_set = 0;
  BD_TRY(bd_json_array(ctx, op, "bf16", false, &list));
  for (size_t i = 0; list && i < list->count; i++)
    BD_TRY(parse_product(ctx, &list->items[i], out_set));
  return BD_OK;
}

static bd_status read_bf16(plan_reader *r, const bd_json *item, int op, bd_strategy *out) {
  unsigned char set;
  BD_TRY(bd_products_parse(r->ctx, item, &set));
  if (!set) return BD_OK;
  if (!out->bf16)
    out->bf16 = bd_arena_array(r->ctx->arena, (size_t)out->op_count, sizeof *out->bf16);
  out->bf16[op] = set;
  return BD_OK;
}

static bd_status read_balanced(plan_reader *r, const bd_json *item, int op, bd_strategy *out) {
  bool balanced = false;
  BD_TRY(bd_json_bool(r->ctx, item, BD_BALANCED_ATTR, false, &balanced));
  if (!balanced) return BD_OK;
  if (!out->balanced) out->balanced = BD_NEW_ARRAY(r->ctx->arena, bool, out->op_count);
  out->balanced[op] = true;
  return BD_OK;
}

// Where each item of a list is.
static const bd_loc *places_of(bd_ctx *ctx, const bd_json *list) {
  bd_loc *places = BD_NEW_ARRAY(ctx->arena, bd_loc, list->count);
  for (size_t i = 0; i < list->count; i++)
    places[i] = list->items[i].loc;
  return places;
}

static bd_status read_ops(plan_reader *r, const bd_json *ops, const bd_function *function,
                          bd_strategy *out) {
  bd_ctx *ctx = r->ctx;
  if ((int64_t)ops->count != function->op_count)
    return bd_fail(ctx, BD_INVALID, ops->loc, "function '%s' has %d ops, here are %zu",
                   function->name, function->op_count, ops->count);
  out->op_count = function->op_count;
  out->op_loc = places_of(ctx, ops);
  out->split = bd_arena_array(ctx->arena, ops->count, sizeof *out->split);
  for (int i = 0; i < out->op_count; i++) {
    const bd_json *item = &ops->items[i];
    const char *result, *split;
    BD_TRY(bd_json_string(ctx, item, "result", true, &result));
    BD_TRY(bd_json_string(ctx, item, "split", true, &split));
    const char *expected = function->values[function->ops[i].out[0]].name;
    if (strcmp(result, expected))
      return bd_fail(ctx, BD_INVALID, item->loc, "op %d of '%s' makes '%s', not '%s'", i,
                     function->name, expected, result);
    if (strlen(split) != (size_t)r->plan->mesh.axes)
      return bd_fail(ctx, BD_INVALID, item->loc, "'split' wants one letter or '-' per mesh axis");
    memset(out->split[i], '-', BD_MAX_AXES);
    memcpy(out->split[i], split, (size_t)r->plan->mesh.axes);
    BD_TRY(read_parts(r, item, i, out));
    BD_TRY(read_bf16(r, item, i, out));
    BD_TRY(read_balanced(r, item, i, out));
  }
  return BD_OK;
}

// `*out` stays as it is where the key may be missing and is.
static bd_status read_form(plan_reader *r, const bd_json *item, const char *key, bool required,
                           int rank, bd_sharding *out) {
  const bd_json *dims = NULL;
  BD_TRY(bd_json_array(r->ctx, item, key, required, &dims));
  if (!dims) return BD_OK;
  if ((int)dims->count != r->plan->mesh.axes)
    return bd_fail(r->ctx, BD_INVALID, dims->loc, "'%s' wants a dimension or null per mesh axis",
                   key);
  *out = bd_sharding_replicated();
  for (size_t axis = 0; axis < dims->count; axis++) {
    const bd_json *dim = &dims->items[axis];
    if (dim->kind == BD_JSON_NULL) continue;
    int64_t number;
    if (!bd_json_whole(dim, 0, rank - 1, &number))
      return bd_fail(r->ctx, BD_INVALID, dim->loc, "not a dimension of the value (rank %d)", rank);
    out->at[axis] = (int8_t)number;
  }
  return BD_OK;
}

static bd_status read_kept(plan_reader *r, const bd_json *item, int value, bd_strategy *out) {
  const char *name = NULL;
  BD_TRY(bd_json_string(r->ctx, item, "kept", false, &name));
  if (!name) return BD_OK;
  int kept = 1;
  while (kept < BD_KEPT_COUNT && strcmp(bd_kept_name((bd_kept)kept), name))
    kept++;
  if (kept == BD_KEPT_COUNT || !out->saved[value])
    return bd_fail(r->ctx, BD_INVALID, item->loc,
                   "'kept' is compressed or offloaded, and for values that are saved");
  if (!out->kept) out->kept = BD_NEW_ARRAY(r->ctx->arena, unsigned char, out->value_count);
  out->kept[value] = (unsigned char)kept;
  return BD_OK;
}

static bd_status read_values(plan_reader *r, const bd_json *values, const bd_function *function,
                             bd_strategy *out) {
  bd_ctx *ctx = r->ctx;
  if ((int64_t)values->count != function->value_count)
    return bd_fail(ctx, BD_INVALID, values->loc, "function '%s' has %d values, here are %zu",
                   function->name, function->value_count, values->count);
  out->value_count = function->value_count;
  out->value_loc = places_of(ctx, values);
  out->form = BD_NEW_ARRAY(ctx->arena, bd_sharding, values->count);
  out->gradient = BD_NEW_ARRAY(ctx->arena, bd_sharding, values->count);
  out->saved = BD_NEW_ARRAY(ctx->arena, bool, values->count);
  for (int i = 0; i < out->value_count; i++) {
    const bd_json *item = &values->items[i];
    const char *name;
    BD_TRY(bd_json_string(ctx, item, "value", true, &name));
    if (strcmp(name, function->values[i].name))
      return bd_fail(ctx, BD_INVALID, item->loc, "value %d of '%s' is '%s', not '%s'", i,
                     function->name, function->values[i].name, name);
    int rank = function->values[i].type.rank;
    BD_TRY(read_form(r, item, "dims", true, rank, &out->form[i]));
    out->gradient[i] = out->form[i];
    BD_TRY(read_form(r, item, "gradient", false, rank, &out->gradient[i]));
    BD_TRY(bd_json_bool(ctx, item, "saved", true, &out->saved[i]));
    BD_TRY(read_kept(r, item, i, out));
  }
  return BD_OK;
}

static bd_status read_lists(plan_reader *r, const bd_json *item, const bd_json **out_ops,
                            const bd_json **out_values) {
  const char *const op_keys[] = {"op",
                                 "result",
                                 "split",
                                 "cuts",
                                 "recomputed",
                                 bd_parts_key(BD_PARTS_FORWARD),
                                 bd_parts_key(BD_PARTS_BACKWARD),
                                 "bf16",
                                 BD_BALANCED_ATTR,
                                 NULL};
  static const char *const value_keys[] = {"value", "dims", "gradient", "saved", "kept", NULL};
  BD_TRY(bd_json_array(r->ctx, item, "ops", true, out_ops));
  BD_TRY(bd_json_array(r->ctx, item, "values", true, out_values));
  BD_TRY(read_only(r, *out_ops, op_keys));
  return read_only(r, *out_values, value_keys);
}

static bd_status read_strategies(plan_reader *r, const bd_json *root) {
  static const char *const keys[] = {"name", "function", "ops", "values", NULL};
  bd_ctx *ctx = r->ctx;
  const bd_json *list, *ops, *values;
  BD_TRY(bd_json_array(ctx, root, "strategies", true, &list));
  BD_TRY(read_only(r, list, keys));
  r->plan->strategy_count = (int)list->count;
  r->plan->strategies = BD_NEW_ARRAY(ctx->arena, bd_strategy, list->count);
  for (size_t i = 0; i < list->count; i++) {
    const bd_json *item = &list->items[i];
    bd_strategy *out = &r->plan->strategies[i];
    out->loc = item->loc;
    BD_TRY(bd_json_string(ctx, item, "name", true, &out->name));
    BD_TRY(bd_json_string(ctx, item, "function", true, &out->function));
    if (!bd_is_identifier(out->name))
      return bd_fail(ctx, BD_INVALID, bd_json_find(item, "name")->loc,
                     "a strategy's name is made of letters, digits, _ and .");
    BD_TRY(read_lists(r, item, &ops, &values));
    for (size_t j = 0; j < i; j++)
      if (strcmp(r->plan->strategies[j].name, out->name) == 0)
        return bd_fail(ctx, BD_INVALID, item->loc, "two strategies are called '%s'", out->name);
    if (!r->train) continue;
    const bd_function *function = bd_module_find(r->train, out->function);
    if (!function || function->role != BD_ROLE_FORWARD)
      return bd_fail(ctx, BD_INVALID, item->loc, "the model has no function '%s'", out->function);
    BD_TRY(read_ops(r, ops, function, out));
    BD_TRY(read_values(r, values, function, out));
  }
  return BD_OK;
}

static bd_status read_layers(plan_reader *r, const bd_json *root) {
  static const char *const keys[] = {"first", "count", "stage", "chunk", "strategy", NULL};
  bd_ctx *ctx = r->ctx;
  const bd_json *list;
  BD_TRY(bd_json_array(ctx, root, "layers", true, &list));
  BD_TRY(read_only(r, list, keys));
  r->plan->range_count = (int)list->count;
  r->plan->ranges = BD_NEW_ARRAY(ctx->arena, bd_layer_range, list->count);
  for (size_t i = 0; i < list->count; i++) {
    const bd_json *item = &list->items[i];
    int64_t first, count, stage, chunk = 0;
    const char *strategy;
    BD_TRY(bd_json_int(ctx, item, "first", true, 0, MAX_COUNT, &first));
    BD_TRY(bd_json_int(ctx, item, "count", true, 1, MAX_COUNT, &count));
    BD_TRY(bd_json_int(ctx, item, "stage", true, 0, r->plan->stages - 1, &stage));
    BD_TRY(bd_json_int(ctx, item, "chunk", false, 0, r->plan->chunks - 1, &chunk));
    BD_TRY(bd_json_string(ctx, item, "strategy", true, &strategy));
    int found = r->plan->strategy_count - 1;
    while (found >= 0 && strcmp(r->plan->strategies[found].name, strategy))
      found--;
    if (found < 0)
      return bd_fail(ctx, BD_INVALID, item->loc, "no strategy is called '%s'", strategy);
    r->plan->ranges[i] =
        (bd_layer_range){(int)first, (int)count, found, (int)stage, (int)chunk, item->loc};
  }
  return BD_OK;
}

bd_status bd_plan_parse(bd_ctx *ctx, const char *file, const char *data, size_t bytes,
                        const bd_module *train, bd_plan *out_plan) {
  static const char *const keys[] = {
      "braid_plan",    "model",    "target",     "optimizer", "precision", "global_batch",
      "micro_batch",   "sequence", "schedule",   "stages",    "mesh",      "threads_per_rank",
      "zero_axes",     "layers",   "strategies", "predicted", "chunks",    "stage_meshes",
      "stage_devices", "cluster",  "masters",    "library",   "gradients", NULL};
  const bd_json *root;
  *out_plan = (bd_plan){0};
  plan_reader reader = {ctx, train, out_plan};
  BD_TRY(bd_json_parse(ctx, file, data, bytes, &root));
  if (root->kind != BD_JSON_OBJECT)
    return bd_fail(ctx, BD_INVALID, root->loc, "a plan is a JSON object");
  if (!bd_json_find(root, "braid_plan"))
    return bd_fail(
        ctx, BD_INVALID, root->loc,
        "the file is no plan: \"braid_plan\", the version, is missing; 'braid compile --emit plan' "
        "writes one");
  BD_TRY(bd_json_only(ctx, root, keys));
  out_plan->loc = root->loc;
  BD_TRY(read_head(&reader, root));
  if (train) BD_TRY(bd_plan_check_sequence(ctx, train, out_plan));
  BD_TRY(read_mesh(&reader, root));
  BD_TRY(read_strategies(&reader, root));
  BD_TRY(read_layers(&reader, root));
  BD_TRY(bd_plan_predicted_parse(ctx, root, out_plan));
  return bd_plan_check_shape(ctx, out_plan);
}
