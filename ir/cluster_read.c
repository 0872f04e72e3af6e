#include "ir/cluster_read.h"
#include "ir/cluster_mixed.h"
#include "ir/cluster_precision.h"
#include <string.h>

#define KIND_KEYS                                                                                  \
  "memory_bytes", "reserved_bytes", "flops_f32", "flops_bf16", "flops_f16", "flops_f8",            \
      "memory_bytes_per_second", "kernel_seconds", "precisions", "work", "gpu",                    \
      "threads_per_device"
#define GROUP_KEYS                                                                                 \
  "nodes", "devices_per_node", "intra", "inter", "island_devices", "island", "switch_sum",         \
      "host_memory_bytes", "host_bytes_per_second"

static bd_status read_int(bd_ctx *ctx, const bd_json *json, const char *key, bool required,
                          int *out) {
  int64_t value = *out;
  BD_TRY(bd_json_int(ctx, json, key, required, 1, BD_MAX_DEVICES, &value));
  *out = (int)value;
  return BD_OK;
}

static bd_status read_link_members(bd_ctx *ctx, const bd_json *link, bd_link *out) {
  BD_TRY(bd_json_real(ctx, link, "latency_seconds", true, 0, 10, &out->latency_seconds));
  BD_TRY(
      bd_json_real(ctx, link, "bytes_per_second", true, 1, BD_MOST_RATE, &out->bytes_per_second));
  return bd_json_real(ctx, link, "half_rate_bytes", false, 0, 1e12, &out->half_rate_bytes);
}

static bd_status read_link(bd_ctx *ctx, const bd_json *json, const char *key, bool required,
                           bd_link *out_link) {
  static const char *const keys[] = {"latency_seconds", "bytes_per_second", "half_rate_bytes",
                                     NULL};
  const bd_json *link = NULL;
  BD_TRY(bd_json_object(ctx, json, key, required, &link));
  if (!link) return BD_OK;
  BD_TRY(bd_json_only(ctx, link, keys));
  *out_link = (bd_link){0};
  return read_link_members(ctx, link, out_link);
}

static bd_status read_points(bd_ctx *ctx, const bd_json *work, bd_work_rates *out) {
  const bd_json *points = NULL;
  const char *names[BD_OP_KIND_COUNT + 1] = {0};
  BD_TRY(bd_json_object(ctx, work, "point_seconds", false, &points));
  if (!points) return BD_OK;
  for (int kind = 0; kind < BD_OP_KIND_COUNT; kind++)
    names[kind] = bd_op_get_info((bd_op_kind)kind)->name;
  BD_TRY(bd_json_only(ctx, points, names));
  for (int kind = 0; kind < BD_OP_KIND_COUNT; kind++)
    BD_TRY(bd_json_real(ctx, points, names[kind], false, 0, 1, &out->point_seconds[kind]));
  return BD_OK;
}

static bd_status read_work(bd_ctx *ctx, const bd_json *json, bd_work_rates *out) {
  static const char *const keys[] = {"product_edge",
                                     "product_depth",
                                     "product_wave",
                                     "attention_forward",
                                     "attention_backward",
                                     "attention_tokens",
                                     "attention_width",
                                     "attention_generated",
                                     "attention_generated_f32",
                                     "attention_materialized",
                                     "transcendental_seconds",
                                     "update_bytes_per_second",
                                     "product_beside",
                                     "gradients_exposed",
                                     "point_seconds",
                                     NULL};
  const struct {
    const char *key;
    double most, *value;
  } reals[] = {
      {"product_edge", 1e6, &out->product_edge},
      {"product_depth", 1e6, &out->product_depth},
      {"product_wave", 1e12, &out->product_wave},
      {"attention_forward", 10, &out->attention_forward},
      {"attention_backward", 10, &out->attention_backward},
      {"attention_tokens", 1e6, &out->attention_tokens},
      {"attention_width", 1e6, &out->attention_width},
      {"attention_generated", 100, &out->attention_generated},
      {"attention_generated_f32", 10, &out->attention_generated_f32},
      {"transcendental_seconds", 1, &out->transcendental_seconds},
      {"update_bytes_per_second", BD_MOST_RATE, &out->update_bytes_per_second},
      {"product_beside", 1, &out->product_beside},
      {"gradients_exposed", 1, &out->gradients_exposed},
  };
  const bd_json *work = NULL;
  BD_TRY(bd_json_object(ctx, json, "work", false, &work));
  if (!work) return BD_OK;
  BD_TRY(bd_json_only(ctx, work, keys));
  for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
    BD_TRY(bd_json_real(ctx, work, reals[i].key, false, 0, reals[i].most, reals[i].value));
  BD_TRY(read_points(ctx, work, out));
  return bd_json_bool(ctx, work, "attention_materialized", false, &out->attention_materialized);
}

static bd_status read_kind(bd_ctx *ctx, const bd_json *json, bd_device_kind *out) {
  out->threads_per_device = 1;
  BD_TRY(read_int(ctx, json, "threads_per_device", false, &out->threads_per_device));
  BD_TRY(bd_json_bool(ctx, json, "gpu", true, &out->gpu));
  BD_TRY(bd_json_int(ctx, json, "memory_bytes", true, 1, BD_MOST_MEMORY_BYTES, &out->memory_bytes));
  BD_TRY(bd_json_int(ctx, json, "reserved_bytes", false, 0, BD_MOST_MEMORY_BYTES,
                     &out->reserved_bytes));
  BD_TRY(bd_json_real(ctx, json, "flops_f32", true, 1, BD_MOST_RATE, &out->flops.f32));
  out->flops.bf16 = out->flops.f32;
  BD_TRY(bd_json_real(ctx, json, "flops_bf16", false, 1, BD_MOST_RATE, &out->flops.bf16));
  out->flops.f16 = out->flops.bf16;
  BD_TRY(bd_json_real(ctx, json, "flops_f16", false, 1, BD_MOST_RATE, &out->flops.f16));
  BD_TRY(bd_json_real(ctx, json, "flops_f8", false, 1, BD_MOST_RATE, &out->flops.f8));
  BD_TRY(bd_json_real(ctx, json, "memory_bytes_per_second", true, 1, BD_MOST_RATE,
                      &out->memory_bytes_per_second));
  BD_TRY(bd_json_real(ctx, json, "kernel_seconds", false, 0, 10, &out->kernel_seconds));
  BD_TRY(bd_cluster_precisions_read(ctx, json, &out->lacks));
  return read_work(ctx, json, &out->work);
}

static bd_status read_group(bd_ctx *ctx, const bd_json *json, bd_node_group *out) {
  bd_node_parts *node = &out->node;
  BD_TRY(read_int(ctx, json, "nodes", true, &out->nodes));
  BD_TRY(read_int(ctx, json, "devices_per_node", true, &out->devices_per_node));
  BD_TRY(read_link(ctx, json, "intra", true, &out->intra));
  out->inter = out->intra;
  BD_TRY(read_link(ctx, json, "inter", out->nodes > 1, &out->inter));
  BD_TRY(read_int(ctx, json, "island_devices", false, &node->island_devices));
  BD_TRY(read_link(ctx, json, "island", node->island_devices > 0, &node->island));
  if (bd_json_find(json, "island") && node->island_devices == 0)
    return bd_fail(ctx, BD_INVALID, bd_json_find(json, "island")->loc,
                   "\"island\" needs \"island_devices\"");
  BD_TRY(read_link(ctx, json, "switch_sum", false, &node->switch_sum));
  BD_TRY(bd_json_int(ctx, json, "host_memory_bytes", false, 0, BD_MOST_MEMORY_BYTES,
                     &node->host_memory_bytes));
  return bd_json_real(ctx, json, "host_bytes_per_second", false, 0, BD_MOST_RATE,
                      &node->host_bytes_per_second);
}

static bd_status read_uniform(bd_ctx *ctx, const bd_json *json, bd_cluster *c) {
  static const char *const keys[] = {"braid_cluster", "name", KIND_KEYS, GROUP_KEYS, NULL};
  bd_device_kind kind = {0};
  bd_node_group group = {0};
  BD_TRY(bd_json_only(ctx, json, keys));
  BD_TRY(read_group(ctx, json, &group));
  BD_TRY(read_kind(ctx, json, &kind));
  bd_cluster_set_uniform(c, &kind, &group);
  return bd_cluster_check(ctx, c, json->loc);
}

static bd_status read_kinds(bd_ctx *ctx, const bd_json *json, bd_cluster *c) {
  static const char *const keys[] = {KIND_KEYS, NULL};
  const bd_json *list = NULL;
  BD_TRY(bd_json_object(ctx, json, "kinds", true, &list));
  bd_device_kind *kinds = BD_NEW_ARRAY(ctx->arena, bd_device_kind, list->count + 1);
  if (list->count > BD_MAX_GROUPS)
    return bd_fail(ctx, BD_INVALID, list->loc, "a cluster has at most %d kinds of devices",
                   BD_MAX_GROUPS);
  for (size_t k = 0; k < list->count; k++) {
    const bd_json *item = &list->items[k];
    kinds[k].name = bd_intern_z(ctx, list->keys[k]);
    if (item->kind != BD_JSON_OBJECT)
      return bd_fail(ctx, BD_INVALID, item->loc, "the kind \"%s\" must be an object",
                     kinds[k].name);
    BD_TRY(bd_json_only(ctx, item, keys));
    BD_TRY(read_kind(ctx, item, &kinds[k]));
  }
  c->kinds = kinds;
  c->kind_count = (int)list->count;
  return BD_OK;
}

static bd_status find_kind(bd_ctx *ctx, const bd_json *json, const bd_cluster *c, int *out) {
  const char *name = NULL;
  BD_TRY(bd_json_string(ctx, json, "kind", true, &name));
  for (int k = 0; k < c->kind_count; k++)
    if (strcmp(c->kinds[k].name, name) == 0) {
      *out = k;
      return BD_OK;
    }
  return bd_fail(ctx, BD_INVALID, bd_json_find(json, "kind")->loc, "\"kinds\" has no kind \"%s\"",
                 name);
}

static bd_status read_groups(bd_ctx *ctx, const bd_json *json, bd_cluster *c) {
  static const char *const keys[] = {"kind", GROUP_KEYS, NULL};
  const bd_json *list = NULL;
  BD_TRY(bd_json_array(ctx, json, "groups", true, &list));
  if (list->count < 1 || list->count > BD_MAX_GROUPS)
    return bd_fail(ctx, BD_INVALID, list->loc, "a cluster has 1 to %d groups of nodes",
                   BD_MAX_GROUPS);
  bd_node_group *groups = BD_NEW_ARRAY(ctx->arena, bd_node_group, list->count);
  for (size_t g = 0; g < list->count; g++) {
    const bd_json *item = &list->items[g];
    if (item->kind != BD_JSON_OBJECT)
      return bd_fail(ctx, BD_INVALID, item->loc, "a group of nodes must be an object");
    BD_TRY(bd_json_only(ctx, item, keys));
    BD_TRY(read_group(ctx, item, &groups[g]));
    BD_TRY(find_kind(ctx, item, c, &groups[g].kind));
  }
  c->groups = groups;
  c->group_count = (int)list->count;
  return BD_OK;
}

// The two groups of one entry of "between".
static bd_status read_pair(bd_ctx *ctx, const bd_json *item, const bd_cluster *c, int pair[2]) {
  const bd_json *groups = NULL;
  BD_TRY(bd_json_array(ctx, item, "groups", true, &groups));
  bool good = groups->count == 2;
  for (size_t i = 0; good && i < 2; i++) {
    const bd_json *number = &groups->items[i];
    int64_t value;
    good = bd_json_whole(number, 0, c->group_count - 1, &value);
    if (good) pair[i] = (int)value;
  }
  if (good && pair[0] != pair[1]) return BD_OK;
  return bd_fail(ctx, BD_INVALID, groups->loc,
                 "\"groups\" must be two different groups, numbered from 0");
}

static bd_status read_between(bd_ctx *ctx, const bd_json *json, bd_cluster *c) {
  static const char *const keys[] = {"groups", "latency_seconds", "bytes_per_second",
                                     "half_rate_bytes", NULL};
  const bd_json *list = NULL;
  bd_link *between = bd_cluster_slower_between(ctx, c);
  bool *given = BD_NEW_ARRAY(ctx->arena, bool, c->group_count * c->group_count);
  c->between = between;
  BD_TRY(bd_json_array(ctx, json, "between", false, &list));
  for (size_t i = 0; list && i < list->count; i++) {
    const bd_json *item = &list->items[i];
    int pair[2];
    bd_link link = {0};
    if (item->kind != BD_JSON_OBJECT)
      return bd_fail(ctx, BD_INVALID, item->loc, "a link between groups must be an object");
    BD_TRY(bd_json_only(ctx, item, keys));
    BD_TRY(read_pair(ctx, item, c, pair));
    int forth = pair[0] * c->group_count + pair[1], back = pair[1] * c->group_count + pair[0];
    if (given[forth])
      return bd_fail(ctx, BD_INVALID, item->loc, "groups %d and %d have a link already", pair[0],
                     pair[1]);
    BD_TRY(read_link_members(ctx, item, &link));
    given[forth] = given[back] = true;
    between[forth] = between[back] = link;
  }
  return BD_OK;
}

static bd_status read_mixed(bd_ctx *ctx, const bd_json *json, bd_cluster *c) {
  static const char *const keys[] = {"braid_cluster", "name", "kinds", "groups", "between", NULL};
  BD_TRY(bd_json_only(ctx, json, keys));
  BD_TRY(read_kinds(ctx, json, c));
  BD_TRY(read_groups(ctx, json, c));
  BD_TRY(read_between(ctx, json, c));
  BD_TRY(bd_cluster_check(ctx, c, json->loc));
  bd_cluster_summarize(c);
  return BD_OK;
}

bd_status bd_cluster_read(bd_ctx *ctx, const bd_json *json, bd_cluster *out_cluster) {
  bd_cluster c = {.name = "cluster"};
  int64_t version = 0;
  BD_TRY(bd_json_int(ctx, json, "braid_cluster", true, 1, 1, &version));
  BD_TRY(bd_json_string(ctx, json, "name", false, &c.name));
  c.name = bd_intern_z(ctx, c.name);
  BD_TRY(bd_json_find(json, "kinds") ? read_mixed(ctx, json, &c) : read_uniform(ctx, json, &c));
  *out_cluster = c;
  return BD_OK;
}
