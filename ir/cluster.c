// Clusters by preset or file.
#include "ir/base/file.h"
#include "ir/base/suggest.h"
#include "ir/cluster_mixed.h"
#include "ir/cluster_read.h"
#include <string.h>

// Decimal digits from `*text` on, at most `most`; moves past them.
static bool read_count(const char **text, int most, int *out) {
  int64_t value = 0;
  const char *at = *text;
  for (; *at >= '0' && *at <= '9' && value <= most; ++at)
    value = 10 * value + (*at - '0');
  if (at == *text || value < 1 || value > most) return false;
  *text = at;
  *out = (int)value;
  return true;
}

static const bd_cluster_preset *find_preset(const char *name) {
  int count = 0;
  const bd_cluster_preset *presets = bd_cluster_presets(&count);
  for (int i = 0; i < count; ++i)
    if (strcmp(presets[i].name, name) == 0) return &presets[i];
  return NULL;
}

static bd_status fail_preset(bd_ctx *ctx, const char *name) {
  int count = 0;
  const bd_cluster_preset *presets = bd_cluster_presets(&count);
  const char **names = BD_NEW_ARRAY(ctx->arena, const char *, count + 1);
  for (int i = 0; i < count; ++i)
    names[i] = presets[i].name;
  const char *meant = bd_suggest(name, names);
  if (meant)
    return bd_fail(ctx, BD_INVALID, BD_NOWHERE,
                   "no cluster preset or file \"%s\"; did you mean \"%s\"?", name, meant);
  return bd_fail(ctx, BD_INVALID, BD_NOWHERE,
                 "no cluster preset or file \"%s\"; `braid presets` lists the presets", name);
}

// One part between `+` signs.
static bd_status read_part(bd_ctx *ctx, const char *spec, const bd_cluster_preset **out_preset,
                           int *out_nodes, int *out_devices) {
  const char *colon = strchr(spec, ':');
  const char *name = colon ? bd_intern(ctx, spec, (size_t)(colon - spec)) : spec;
  const char *at = colon ? colon + 1 : "";
  *out_preset = find_preset(name);
  if (!*out_preset) return fail_preset(ctx, name);
  if (read_count(&at, BD_MAX_NODES, out_nodes) && *at++ == 'x' &&
      read_count(&at, BD_MAX_NODE_DEVICES, out_devices) && *at == 0)
    return BD_OK;
  return bd_fail(ctx, BD_INVALID, BD_NOWHERE,
                 "cluster \"%s\": expected %s:NODESxDEVICES, as in %s:2x8 (at most %d devices, "
                 "%d in a node)",
                 spec, name, name, BD_MAX_DEVICES, BD_MAX_NODE_DEVICES);
}

// Kinds and groups as they are read from a spec.
typedef struct parts {
  int kinds, groups;
  bd_device_kind kind[BD_MAX_GROUPS];
  bd_node_group group[BD_MAX_GROUPS];
} parts;

// A device's share of a link that the devices of a node send over side by side: long messages start
// no earlier than they would alone.
static bd_link share_link(bd_link link, int devices) {
  link.bytes_per_second /= devices;
  link.half_rate_bytes /= devices;
  return link;
}

static bd_status add_part(bd_ctx *ctx, parts *p, const bd_cluster_preset *preset, int nodes,
                          int devices) {
  int kind = 0;
  if (p->groups == BD_MAX_GROUPS)
    return bd_fail(ctx, BD_INVALID, BD_NOWHERE, "a cluster has 1 to %d groups of nodes",
                   BD_MAX_GROUPS);
  while (kind < p->kinds && strcmp(p->kind[kind].name, preset->name) != 0)
    kind++;
  if (kind == p->kinds) p->kind[p->kinds++] = bd_cluster_uniform_kind(&preset->cluster);
  bd_node_group group = bd_cluster_uniform_group(&preset->cluster);
  group.kind = kind;
  group.nodes = nodes;
  group.devices_per_node = devices;
  if (preset->node_inter) group.inter = share_link(group.inter, devices);
  p->group[p->groups++] = group;
  return BD_OK;
}

static bd_status add_spec(bd_ctx *ctx, parts *p, const char *spec) {
  const bd_cluster_preset *preset;
  int nodes = 0, devices = 0;
  BD_TRY(read_part(ctx, spec, &preset, &nodes, &devices));
  const char *const *halves = preset->halves;
  if (!halves[0]) return add_part(ctx, p, preset, nodes, devices);
  if (nodes % 2)
    return bd_fail(
        ctx, BD_INVALID, BD_NOWHERE,
        "cluster \"%s\": %s is half %s and half %s, so it has an even number of nodes; give one, "
        "or the number of each: %s:%dx%d+%s:%dx%d",
        spec, preset->name, halves[0], halves[1], halves[0], nodes - nodes / 2, devices, halves[1],
        nodes / 2 ? nodes / 2 : 1, devices);
  BD_TRY(add_part(ctx, p, find_preset(halves[0]), nodes / 2, devices));
  return add_part(ctx, p, find_preset(halves[1]), nodes / 2, devices);
}

static bd_status load_presets(bd_ctx *ctx, const char *spec, bd_cluster *out) {
  parts *p = BD_NEW_ARRAY(ctx->arena, parts, 1);
  bd_cluster c = {.name = bd_intern_z(ctx, spec)};
  for (const char *plus; (plus = strchr(spec, '+')); spec = plus + 1)
    BD_TRY(add_spec(ctx, p, bd_intern(ctx, spec, (size_t)(plus - spec))));
  BD_TRY(add_spec(ctx, p, spec));
  if (p->groups == 1) {
    c.name = p->kind[0].name;
    bd_cluster_set_uniform(&c, &p->kind[0], &p->group[0]);
    BD_TRY(bd_cluster_check(ctx, &c, BD_NOWHERE));
  } else {
    c.kind_count = p->kinds;
    c.kinds = p->kind;
    c.group_count = p->groups;
    c.groups = p->group;
    c.between = bd_cluster_slower_between(ctx, &c);
    BD_TRY(bd_cluster_check(ctx, &c, BD_NOWHERE));
    bd_cluster_summarize(&c);
  }
  *out = c;
  return BD_OK;
}

bd_status bd_cluster_load(bd_ctx *ctx, const char *spec, bd_cluster *out_cluster) {
  size_t length = strlen(spec);
  bool is_path = strchr(spec, '/') || (length > 5 && strcmp(spec + length - 5, ".json") == 0) ||
                 bd_file_exists(spec);
  if (!is_path) return load_presets(ctx, spec, out_cluster);
  const bd_json *json = NULL;
  BD_TRY(bd_json_read(ctx, bd_intern_z(ctx, spec), &json));
  return bd_cluster_read(ctx, json, out_cluster);
}
