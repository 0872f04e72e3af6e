#include "planner/graph/read_internal.h"

// A number or a list of numbers.
static bd_status read_numbers(bd_layers_reader *r, const char *key, int most, const int **out,
                              int *out_count) {
  const bd_json *item = bd_json_find(r->root, key);
  bool list = item && item->kind == BD_JSON_ARRAY;
  size_t count = list ? item->count : 1;
  int *numbers = BD_NEW_ARRAY(r->ctx->arena, int, count);
  if (!item) return BD_OK;
  for (size_t i = 0; i < count; i++) {
    const bd_json *number = list ? &item->items[i] : item;
    int64_t value;
    if (!bd_json_whole(number, 1, most, &value))
      return bd_fail(r->ctx, BD_INVALID, number->loc, "\"%s\": expected a number from 1 to %d", key,
                     most);
    numbers[i] = (int)value;
    for (size_t k = 0; k < i; k++)
      if (numbers[k] == numbers[i])
        return bd_fail(r->ctx, BD_INVALID, number->loc, "\"%s\": %d stands there twice", key,
                       numbers[i]);
  }
  if (!count || count > 64)
    return bd_fail(r->ctx, BD_INVALID, item->loc, "\"%s\": expected 1 to 64 numbers", key);
  *out = numbers;
  *out_count = (int)count;
  return BD_OK;
}

static bd_status read_schedules(bd_layers_reader *r) {
  const bd_json *list = NULL;
  r->problem->schedules = (1u << BD_SCHEDULE_COUNT) - 1;
  BD_TRY(bd_json_array(r->ctx, r->root, "schedules", false, &list));
  if (!list) return BD_OK;
  r->problem->schedules = 0;
  for (size_t i = 0; i < list->count; i++) {
    const bd_json *name = &list->items[i];
    bd_schedule schedule;
    if (name->kind != BD_JSON_STRING || !bd_schedule_parse(name->string, &schedule))
      return bd_fail(r->ctx, BD_INVALID, name->loc,
                     "unknown schedule; known are gpipe, 1f1b, interleaved and zero-bubble");
    r->problem->schedules |= 1u << schedule;
  }
  if (list->count) return BD_OK;
  return bd_fail(r->ctx, BD_INVALID, list->loc, "\"schedules\" names none");
}

// Stages are at most as many as devices and layers.
static bd_status read_choices(bd_layers_reader *r) {
  static const int two[] = {2};
  bd_layers_problem *problem = r->problem;
  int64_t most = BD_LAYERS_MAX_STAGES;
  problem->chunks = two;
  problem->chunk_count = 1;
  if (!bd_json_find(r->root, "micro_batches"))
    return bd_fail(r->ctx, BD_INVALID, r->root->loc, "\"micro_batches\" is missing");
  BD_TRY(read_numbers(r, "micro_batches", BD_LAYERS_MAX_MICRO_BATCHES, &problem->micro_batches,
                      &problem->micro_batch_count));
  BD_TRY(read_numbers(r, "chunks", BD_LAYERS_MAX_CHUNKS, &problem->chunks, &problem->chunk_count));
  BD_TRY(bd_json_int(r->ctx, r->root, "max_stages", false, 1, BD_LAYERS_MAX_STAGES, &most));
  problem->max_stages = (int)most;
  return read_schedules(r);
}

bd_status bd_layers_read(bd_ctx *ctx, const char *file, const char *data, size_t bytes,
                         int64_t cap_bytes, bd_layers_problem *out_problem,
                         bd_layers_names *out_names) {
  static const char *const keys[] = {
      "braid_layers",  "layers",    "edges",  "devices",    "link", "links", "changes",
      "micro_batches", "schedules", "chunks", "max_stages", "name", NULL};
  const bd_json *root;
  const char *name;
  int64_t version;
  *out_problem = (bd_layers_problem){0};
  bd_layers_reader reader = {.ctx = ctx, .problem = out_problem, .names = out_names};
  BD_TRY(bd_json_parse(ctx, file, data, bytes, &root));
  if (root->kind != BD_JSON_OBJECT)
    return bd_fail(ctx, BD_INVALID, root->loc, "a layer graph is a JSON object");
  reader.root = root;
  BD_TRY(bd_json_only(ctx, root, keys));
  BD_TRY(bd_json_int(ctx, root, "braid_layers", true, 0, INT32_MAX, &version));
  if (version != 1)
    return bd_fail(ctx, BD_INVALID, root->loc, "layer graph version %lld; this braid reads 1",
                   (long long)version);
  BD_TRY(bd_json_string(ctx, root, "name", false, &name));
  BD_TRY(read_choices(&reader));
  BD_TRY(bd_layers_read_devices(&reader, cap_bytes));
  BD_TRY(bd_layers_read_layers(&reader));
  return bd_layers_read_edges(&reader);
}
