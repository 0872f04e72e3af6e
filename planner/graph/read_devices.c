#include "planner/graph/devices.h"
#include "planner/graph/read_internal.h"
#include <math.h>
#include <string.h>

static bd_status read_link(bd_layers_reader *r, const bd_json *link, bool between,
                           bd_layers_link *out) {
  static const char *const keys[] = {"latency_seconds", "bytes_per_second", NULL};
  static const char *const pair_keys[] = {"latency_seconds", "bytes_per_second", "between", NULL};
  BD_TRY(bd_json_only(r->ctx, link, between ? pair_keys : keys));
  out->latency_seconds = 0;
  BD_TRY(bd_json_real(r->ctx, link, "latency_seconds", false, 0, BD_LAYERS_MAX_SECONDS,
                      &out->latency_seconds));
  return bd_json_real(r->ctx, link, "bytes_per_second", true, 1e-3, 1e18, &out->bytes_per_second);
}

static bd_status read_group(bd_layers_reader *r, const bd_json *item, int g, int64_t cap_bytes,
                            bd_layers_link *inside) {
  static const char *const keys[] = {"kind", "name", "count", "cap_bytes", "speed", "link", NULL};
  bd_layers_group *group = &r->groups[g];
  const bd_json *link = NULL;
  int64_t count;
  if (item->kind != BD_JSON_OBJECT)
    return bd_fail(r->ctx, BD_INVALID, item->loc, "a group of devices is an object");
  BD_TRY(bd_json_only(r->ctx, item, keys));
  BD_TRY(bd_json_string(r->ctx, item, "kind", true, &r->kinds[g]));
  group->name = r->kinds[g];
  BD_TRY(bd_json_string(r->ctx, item, "name", false, &group->name));
  BD_TRY(bd_json_int(r->ctx, item, "count", true, 1, BD_LAYERS_MAX_DEVICES, &count));
  BD_TRY(bd_json_int(r->ctx, item, "cap_bytes", true, 0, (int64_t)1 << 50, &group->cap_bytes));
  r->speeds[g] = 1;
  BD_TRY(bd_json_real(r->ctx, item, "speed", false, 1e-6, 1e6, &r->speeds[g]));
  BD_TRY(bd_json_object(r->ctx, item, "link", false, &link));
  group->count = (int)count;
  if (cap_bytes) group->cap_bytes = cap_bytes;
  for (int i = 0; i < g; i++)
    if (strcmp(r->groups[i].name, group->name) == 0)
      return bd_fail(r->ctx, BD_INVALID, item->loc,
                     "two groups of devices are called '%s'; give them a \"name\" each",
                     group->name);
  return link ? read_link(r, link, false, inside) : BD_OK;
}

static int find_group(const bd_layers_reader *r, const bd_json *name) {
  for (int g = 0; name->kind == BD_JSON_STRING && g < r->problem->group_count; g++)
    if (strcmp(r->groups[g].name, name->string) == 0) return g;
  return -1;
}

static bd_status read_pair(bd_layers_reader *r, const bd_json *item) {
  const bd_json *between;
  bd_layers_link link;
  if (item->kind != BD_JSON_OBJECT)
    return bd_fail(r->ctx, BD_INVALID, item->loc, "a link is an object");
  BD_TRY(read_link(r, item, true, &link));
  BD_TRY(bd_json_array(r->ctx, item, "between", true, &between));
  int a = between->count == 2 ? find_group(r, &between->items[0]) : -1;
  int b = between->count == 2 ? find_group(r, &between->items[1]) : -1;
  if (a < 0 || b < 0)
    return bd_fail(r->ctx, BD_INVALID, between->loc,
                   "\"between\" wants the names of two groups of \"devices\"");
  r->links[a * r->problem->group_count + b] = r->links[b * r->problem->group_count + a] = link;
  return BD_OK;
}

bd_status bd_layers_read_devices(bd_layers_reader *r, int64_t cap_bytes) {
  bd_ctx *ctx = r->ctx;
  const bd_json *list, *link = NULL, *pairs = NULL;
  bd_layers_link any = {0, INFINITY};
  BD_TRY(bd_json_array(ctx, r->root, "devices", true, &list));
  BD_TRY(bd_json_object(ctx, r->root, "link", false, &link));
  BD_TRY(bd_json_array(ctx, r->root, "links", false, &pairs));
  if (!list->count || list->count > BD_LAYERS_MAX_GROUPS)
    return bd_fail(ctx, BD_INVALID, list->loc, "\"devices\" wants 1 to %d groups",
                   BD_LAYERS_MAX_GROUPS);
  if (link) BD_TRY(read_link(r, link, false, &any));
  int groups = r->problem->group_count = (int)list->count;
  r->problem->groups = r->groups = BD_NEW_ARRAY(ctx->arena, bd_layers_group, groups);
  r->kinds = BD_NEW_ARRAY(ctx->arena, const char *, groups);
  r->speeds = BD_NEW_ARRAY(ctx->arena, double, groups);
  r->links = BD_NEW_ARRAY(ctx->arena, bd_layers_link, groups * groups);
  for (int i = 0; i < groups * groups; i++)
    r->links[i] = any;
  for (int g = 0; g < groups; g++)
    BD_TRY(read_group(r, &list->items[g], g, cap_bytes, &r->links[g * groups + g]));
  for (size_t i = 0; pairs && i < pairs->count; i++)
    BD_TRY(read_pair(r, &pairs->items[i]));
  return BD_OK;
}
