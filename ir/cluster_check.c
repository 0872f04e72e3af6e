#include "ir/cluster_mixed.h"

enum { MOST_THREADS = 4096 };
// Where a number stands: `owner` is the cluster, a kind or a group of it, with its article and
// name.
typedef struct place {
  bd_ctx *ctx;
  bd_loc loc;
  const char *owner;
} place;

static bd_status check_rate(const place *at, const char *what, double value) {
  if (value > 0 && value <= BD_MOST_RATE) return BD_OK;
  return bd_fail(at->ctx, BD_INVALID, at->loc, "%s's \"%s\" must lie above 0 and below 1e21",
                 at->owner, what);
}

static bd_status check_range(const place *at, const char *what, double value, double most) {
  if (value >= 0 && value <= most) return BD_OK;
  return bd_fail(at->ctx, BD_INVALID, at->loc, "%s's \"%s\" must lie between 0 and %g", at->owner,
                 what, most);
}

static bd_status check_link(const place *at, const char *name, const bd_link *link) {
  bd_ctx *ctx = at->ctx;
  BD_TRY(check_rate(at, bd_intern_f(ctx, "%s.bytes_per_second", name), link->bytes_per_second));
  BD_TRY(check_range(at, bd_intern_f(ctx, "%s.latency_seconds", name), link->latency_seconds, 10));
  return check_range(at, bd_intern_f(ctx, "%s.half_rate_bytes", name), link->half_rate_bytes, 1e12);
}

static bd_status check_work(const place *at, const bd_work_rates *work) {
  BD_TRY(check_range(at, "product_edge", work->product_edge, 1e6));
  BD_TRY(check_range(at, "product_depth", work->product_depth, 1e6));
  BD_TRY(check_range(at, "product_wave", work->product_wave, 1e12));
  BD_TRY(check_range(at, "attention_forward", work->attention_forward, 10));
  BD_TRY(check_range(at, "attention_backward", work->attention_backward, 10));
  BD_TRY(check_range(at, "attention_tokens", work->attention_tokens, 1e6));
  BD_TRY(check_range(at, "attention_width", work->attention_width, 1e6));
  BD_TRY(check_range(at, "attention_generated", work->attention_generated, 100));
  BD_TRY(check_range(at, "attention_generated_f32", work->attention_generated_f32, 10));
  for (int kind = 0; kind < BD_OP_KIND_COUNT; kind++)
    BD_TRY(check_range(at, "point_seconds", work->point_seconds[kind], 1));
  BD_TRY(check_range(at, "product_beside", work->product_beside, 1));
  BD_TRY(check_range(at, "gradients_exposed", work->gradients_exposed, 1));
  BD_TRY(check_range(at, "update_bytes_per_second", work->update_bytes_per_second, BD_MOST_RATE));
  return check_range(at, "transcendental_seconds", work->transcendental_seconds, 1);
}

static bd_status check_kind(const place *at, const bd_device_kind *kind) {
  if (kind->memory_bytes < 1 || kind->memory_bytes > BD_MOST_MEMORY_BYTES)
    return bd_fail(at->ctx, BD_INVALID, at->loc,
                   "%s's \"memory_bytes\" must lie between 1 and 2^50", at->owner);
  if (kind->reserved_bytes < 0 || kind->reserved_bytes >= kind->memory_bytes)
    return bd_fail(at->ctx, BD_INVALID, at->loc,
                   "%s's \"reserved_bytes\" must be below \"memory_bytes\"", at->owner);
  if (kind->threads_per_device < 1 || kind->threads_per_device > MOST_THREADS)
    return bd_fail(at->ctx, BD_INVALID, at->loc, "a device has 1 to %d threads, not %d",
                   MOST_THREADS, kind->threads_per_device);
  BD_TRY(check_rate(at, "flops_f32", kind->flops.f32));
  BD_TRY(check_rate(at, "flops_bf16", kind->flops.bf16));
  BD_TRY(check_rate(at, "flops_f16", kind->flops.f16));
  BD_TRY(check_range(at, "flops_f8", kind->flops.f8, BD_MOST_RATE));
  BD_TRY(check_rate(at, "memory_bytes_per_second", kind->memory_bytes_per_second));
  BD_TRY(check_range(at, "kernel_seconds", kind->kernel_seconds, 10));
  return check_work(at, &kind->work);
}

static bd_status check_node(const place *at, const bd_node_group *group) {
  const bd_node_parts *node = &group->node;
  if (node->island_devices < 0 ||
      (node->island_devices > 0 && group->devices_per_node % node->island_devices != 0))
    return bd_fail(at->ctx, BD_INVALID, at->loc,
                   "%s's \"island_devices\" of %d must divide \"devices_per_node\" of %d",
                   at->owner, node->island_devices, group->devices_per_node);
  if (node->island_devices > 0) BD_TRY(check_link(at, "island", &node->island));
  if (node->switch_sum.bytes_per_second != 0)
    BD_TRY(check_link(at, "switch_sum", &node->switch_sum));
  if (node->host_memory_bytes < 0 || node->host_memory_bytes > BD_MOST_MEMORY_BYTES)
    return bd_fail(at->ctx, BD_INVALID, at->loc,
                   "%s's \"host_memory_bytes\" must lie between 0 and 2^50", at->owner);
  return check_range(at, "host_bytes_per_second", node->host_bytes_per_second, BD_MOST_RATE);
}

static bd_status check_group(const place *at, const bd_node_group *group) {
  if (group->nodes < 1 || group->nodes > BD_MAX_NODES || group->devices_per_node < 1 ||
      group->devices_per_node > BD_MAX_NODE_DEVICES)
    return bd_fail(at->ctx, BD_INVALID, at->loc,
                   "a cluster has 1 to %d nodes of 1 to %d devices, not %d of %d", BD_MAX_NODES,
                   BD_MAX_NODE_DEVICES, group->nodes, group->devices_per_node);
  if ((int64_t)group->nodes * group->devices_per_node > BD_MAX_DEVICES)
    return bd_fail(at->ctx, BD_INVALID, at->loc, "a cluster has at most %d devices",
                   BD_MAX_DEVICES);
  BD_TRY(check_link(at, "intra", &group->intra));
  BD_TRY(check_link(at, "inter", &group->inter));
  return check_node(at, group);
}

static bd_status check_mixed(bd_ctx *ctx, const bd_cluster *c, bd_loc loc) {
  int64_t devices = 0;
  for (int k = 0; k < c->kind_count; k++) {
    place at = {ctx, loc, bd_intern_f(ctx, "the kind \"%s\"", c->kinds[k].name)};
    BD_TRY(check_kind(&at, &c->kinds[k]));
    if (c->kinds[k].gpu != c->kinds[0].gpu)
      return bd_fail(ctx, BD_INVALID, loc,
                     "the kind \"%s\" is a GPU and \"%s\" is not: a program runs on one or the "
                     "other",
                     c->kinds[c->kinds[k].gpu ? k : 0].name,
                     c->kinds[c->kinds[k].gpu ? 0 : k].name);
  }
  for (int g = 0; g < c->group_count; g++) {
    place at = {ctx, loc, bd_intern_f(ctx, "group %d", g)};
    BD_TRY(check_group(&at, &c->groups[g]));
    devices += (int64_t)c->groups[g].nodes * c->groups[g].devices_per_node;
    for (int other = 0; other < g; other++)
      BD_TRY(check_link(&at, "between", &c->between[g * c->group_count + other]));
  }
  if (devices > BD_MAX_DEVICES)
    return bd_fail(ctx, BD_INVALID, loc, "a cluster has at most %d devices", BD_MAX_DEVICES);
  return BD_OK;
}

bd_status bd_cluster_check(bd_ctx *ctx, const bd_cluster *c, bd_loc loc) {
  if (bd_cluster_is_mixed(c)) return check_mixed(ctx, c, loc);
  place at = {ctx, loc, "the cluster"};
  bd_device_kind kind = bd_cluster_uniform_kind(c);
  bd_node_group group = bd_cluster_uniform_group(c);
  BD_TRY(check_group(&at, &group));
  return check_kind(&at, &kind);
}
