#include "ir/cluster.h"
#include "ir/base/file.h"
#include "ir/base/json.h"
#include "ir/base/suggest.h"
#include <string.h>

enum { MOST_NODES = 100000, MOST_DEVICES_PER_NODE = 1024, MOST_DEVICES = 1 << 20 };
enum { MOST_THREADS = 4096 };
#define MOST_BYTES ((int64_t)1 << 50)
#define MOST_RATE 1e21

static bd_status check_positive(bd_ctx *ctx, bd_loc loc, const char *what, double value) {
  if (value > 0 && value <= MOST_RATE) return BD_OK;
  return bd_fail(ctx, BD_INVALID, loc, "the cluster's \"%s\" must lie above 0 and below 1e21",
                 what);
}

static bd_status check_seconds(bd_ctx *ctx, bd_loc loc, const char *what, double value) {
  if (value >= 0 && value <= 10) return BD_OK;
  return bd_fail(ctx, BD_INVALID, loc, "the cluster's \"%s\" must lie between 0 and 10", what);
}

static bd_status check_counts(bd_ctx *ctx, const bd_cluster *c, bd_loc loc) {
  if (c->nodes < 1 || c->nodes > MOST_NODES || c->devices_per_node < 1 ||
      c->devices_per_node > MOST_DEVICES_PER_NODE)
    return bd_fail(ctx, BD_INVALID, loc,
                   "a cluster has 1 to %d nodes of 1 to %d devices, not %d of %d", MOST_NODES,
                   MOST_DEVICES_PER_NODE, c->nodes, c->devices_per_node);
  if ((int64_t)c->nodes * c->devices_per_node > MOST_DEVICES)
    return bd_fail(ctx, BD_INVALID, loc, "a cluster has at most %d devices", MOST_DEVICES);
  if (c->threads_per_device < 1 || c->threads_per_device > MOST_THREADS)
    return bd_fail(ctx, BD_INVALID, loc, "a device has 1 to %d threads, not %d", MOST_THREADS,
                   c->threads_per_device);
  return BD_OK;
}

bd_status bd_cluster_check(bd_ctx *ctx, const bd_cluster *c, bd_loc loc) {
  BD_TRY(check_counts(ctx, c, loc));
  if (c->memory_bytes < 1 || c->memory_bytes > MOST_BYTES)
    return bd_fail(ctx, BD_INVALID, loc,
                   "the cluster's \"memory_bytes\" must lie between 1 and "
                   "2^50");
  if (c->reserved_bytes < 0 || c->reserved_bytes >= c->memory_bytes)
    return bd_fail(ctx, BD_INVALID, loc,
                   "the cluster's \"reserved_bytes\" must be below \"memory_bytes\"");
  BD_TRY(check_positive(ctx, loc, "flops_f32", c->flops_f32));
  BD_TRY(check_positive(ctx, loc, "flops_bf16", c->flops_bf16));
  BD_TRY(check_positive(ctx, loc, "memory_bytes_per_second", c->memory_bytes_per_second));
  BD_TRY(check_seconds(ctx, loc, "kernel_seconds", c->kernel_seconds));
  BD_TRY(check_positive(ctx, loc, "intra.bytes_per_second", c->intra.bytes_per_second));
  BD_TRY(check_seconds(ctx, loc, "intra.latency_seconds", c->intra.latency_seconds));
  BD_TRY(check_positive(ctx, loc, "inter.bytes_per_second", c->inter.bytes_per_second));
  return check_seconds(ctx, loc, "inter.latency_seconds", c->inter.latency_seconds);
}

static bd_status read_int(bd_ctx *ctx, const bd_json *json, const char *key, bool required,
                          int *out) {
  int64_t value = *out;
  BD_TRY(bd_json_int(ctx, json, key, required, 1, MOST_DEVICES, &value));
  *out = (int)value;
  return BD_OK;
}

static bd_status read_link(bd_ctx *ctx, const bd_json *json, const char *key, bd_link *out_link) {
  static const char *const keys[] = {"latency_seconds", "bytes_per_second", NULL};
  const bd_json *link = NULL;
  BD_TRY(bd_json_object(ctx, json, key, true, &link));
  BD_TRY(bd_json_only(ctx, link, keys));
  BD_TRY(bd_json_real(ctx, link, "latency_seconds", true, 0, 10, &out_link->latency_seconds));
  return bd_json_real(ctx, link, "bytes_per_second", true, 1, MOST_RATE,
                      &out_link->bytes_per_second);
}

static bd_status read_rates(bd_ctx *ctx, const bd_json *json, bd_cluster *c) {
  BD_TRY(bd_json_real(ctx, json, "flops_f32", true, 1, MOST_RATE, &c->flops_f32));
  c->flops_bf16 = c->flops_f32;
  BD_TRY(bd_json_real(ctx, json, "flops_bf16", false, 1, MOST_RATE, &c->flops_bf16));
  BD_TRY(bd_json_real(ctx, json, "memory_bytes_per_second", true, 1, MOST_RATE,
                      &c->memory_bytes_per_second));
  BD_TRY(bd_json_real(ctx, json, "kernel_seconds", false, 0, 10, &c->kernel_seconds));
  BD_TRY(read_link(ctx, json, "intra", &c->intra));
  c->inter = c->intra;
  if (c->nodes > 1 || bd_json_find(json, "inter")) BD_TRY(read_link(ctx, json, "inter", &c->inter));
  return BD_OK;
}

static bd_status read_cluster(bd_ctx *ctx, const bd_json *json, bd_cluster *out_cluster) {
  static const char *const keys[] = {
      "braid_cluster",  "name",      "nodes",      "devices_per_node",        "memory_bytes",
      "reserved_bytes", "flops_f32", "flops_bf16", "memory_bytes_per_second", "kernel_seconds",
      "intra",          "inter",     "gpu",        "threads_per_device",      NULL};
  bd_cluster c = {.name = "cluster", .threads_per_device = 1};
  int64_t version = 0;
  BD_TRY(bd_json_only(ctx, json, keys));
  BD_TRY(bd_json_int(ctx, json, "braid_cluster", true, 1, 1, &version));
  BD_TRY(bd_json_string(ctx, json, "name", false, &c.name));
  c.name = bd_intern_z(ctx, c.name);
  BD_TRY(read_int(ctx, json, "nodes", true, &c.nodes));
  BD_TRY(read_int(ctx, json, "devices_per_node", true, &c.devices_per_node));
  BD_TRY(read_int(ctx, json, "threads_per_device", false, &c.threads_per_device));
  BD_TRY(bd_json_bool(ctx, json, "gpu", true, &c.gpu));
  BD_TRY(bd_json_int(ctx, json, "memory_bytes", true, 1, MOST_BYTES, &c.memory_bytes));
  BD_TRY(bd_json_int(ctx, json, "reserved_bytes", false, 0, MOST_BYTES, &c.reserved_bytes));
  BD_TRY(read_rates(ctx, json, &c));
  BD_TRY(bd_cluster_check(ctx, &c, json->loc));
  *out_cluster = c;
  return BD_OK;
}

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

static bd_status load_preset(bd_ctx *ctx, const char *spec, bd_cluster *out_cluster) {
  const char *colon = strchr(spec, ':');
  const char *name = colon ? bd_intern(ctx, spec, (size_t)(colon - spec)) : spec;
  int count = 0;
  const bd_cluster_preset *presets = bd_cluster_presets(&count), *found = NULL;
  for (int i = 0; i < count; ++i) {
    if (strcmp(presets[i].name, name) == 0) found = &presets[i];
  }
  if (!found) return fail_preset(ctx, name);
  bd_cluster cluster = found->cluster;
  const char *at = colon ? colon + 1 : "";
  bool good = read_count(&at, MOST_NODES, &cluster.nodes) && *at++ == 'x' &&
              read_count(&at, MOST_DEVICES_PER_NODE, &cluster.devices_per_node) && *at == 0;
  if (!good)
    return bd_fail(ctx, BD_INVALID, BD_NOWHERE,
                   "cluster \"%s\": expected %s:NODESxDEVICES, as in %s:2x8 (at most %d nodes of "
                   "%d devices)",
                   spec, name, name, MOST_NODES, MOST_DEVICES_PER_NODE);
  BD_TRY(bd_cluster_check(ctx, &cluster, BD_NOWHERE));
  *out_cluster = cluster;
  return BD_OK;
}

bd_status bd_cluster_load(bd_ctx *ctx, const char *spec, bd_cluster *out_cluster) {
  size_t length = strlen(spec);
  bool is_path = strchr(spec, '/') || (length > 5 && strcmp(spec + length - 5, ".json") == 0) ||
                 bd_file_exists(spec);
  if (!is_path) return load_preset(ctx, spec, out_cluster);
  const bd_json *json = NULL;
  BD_TRY(bd_json_read(ctx, bd_intern_z(ctx, spec), &json));
  return read_cluster(ctx, json, out_cluster);
}

static void add_link(bd_text *text, const char *key, const bd_link *link) {
  bd_text_addf(text, "  \"%s\": {\"latency_seconds\": ", key);
  bd_text_add_double(text, link->latency_seconds);
  bd_text_add(text, ", \"bytes_per_second\": ");
  bd_text_add_double(text, link->bytes_per_second);
  bd_text_add(text, "},\n");
}

static void add_real(bd_text *text, const char *key, double value) {
  bd_text_addf(text, "  \"%s\": ", key);
  bd_text_add_double(text, value);
  bd_text_add(text, ",\n");
}

void bd_cluster_print(const bd_cluster *c, bd_text *text) {
  bd_text_add(text, "{\n  \"braid_cluster\": 1,\n  \"name\": ");
  bd_text_add_json_string(text, c->name);
  bd_text_addf(text, ",\n  \"nodes\": %d,\n  \"devices_per_node\": %d,\n", c->nodes,
               c->devices_per_node);
  bd_text_addf(text, "  \"memory_bytes\": %lld,\n  \"reserved_bytes\": %lld,\n",
               (long long)c->memory_bytes, (long long)c->reserved_bytes);
  add_real(text, "flops_f32", c->flops_f32);
  add_real(text, "flops_bf16", c->flops_bf16);
  add_real(text, "memory_bytes_per_second", c->memory_bytes_per_second);
  add_real(text, "kernel_seconds", c->kernel_seconds);
  add_link(text, "intra", &c->intra);
  add_link(text, "inter", &c->inter);
  bd_text_addf(text, "  \"gpu\": %s,\n  \"threads_per_device\": %d\n}\n", c->gpu ? "true" : "false",
               c->threads_per_device);
}
