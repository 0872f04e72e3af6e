#include "ir/cluster_mixed.h"
#include "ir/base/number.h"

bd_link bd_link_slower(bd_link a, bd_link b) {
  bd_link out = a.bytes_per_second <= b.bytes_per_second ? a : b;
  const bd_link *other = a.bytes_per_second <= b.bytes_per_second ? &b : &a;
  if (other->latency_seconds > out.latency_seconds) out.latency_seconds = other->latency_seconds;
  if (other->half_rate_bytes > out.half_rate_bytes) out.half_rate_bytes = other->half_rate_bytes;
  return out;
}

bd_device_kind bd_cluster_uniform_kind(const bd_cluster *c) {
  return (bd_device_kind){.name = c->name,
                          .memory_bytes = c->memory_bytes,
                          .reserved_bytes = c->reserved_bytes,
                          .flops = c->flops,
                          .memory_bytes_per_second = c->memory_bytes_per_second,
                          .kernel_seconds = c->kernel_seconds,
                          .lacks = c->lacks,
                          .work = c->work,
                          .gpu = c->gpu,
                          .threads_per_device = c->threads_per_device};
}

bd_node_group bd_cluster_uniform_group(const bd_cluster *c) {
  return (bd_node_group){.nodes = c->nodes,
                         .devices_per_node = c->devices_per_node,
                         .intra = c->intra,
                         .inter = c->inter,
                         .node = c->node};
}

static double least(double a, double b) {
  return a < b ? a : b;
}

static double most(double a, double b) {
  return a > b ? a : b;
}

// A part of a rate of 0 stands for 1.
static double least_part(double a, double b) {
  return a == 0 ? b : b == 0 ? a : least(a, b);
}

// One of 0 stands for `otherwise`.
static double least_part_or(double a, double b, double otherwise) {
  if (a == 0 && b == 0) return 0;
  return least(bd_part_or(a, otherwise), bd_part_or(b, otherwise));
}

static bd_work_rates slower_work(bd_work_rates a, bd_work_rates b) {
  a.product_edge = most(a.product_edge, b.product_edge);
  a.product_depth = most(a.product_depth, b.product_depth);
  a.product_wave = most(a.product_wave, b.product_wave);
  a.attention_forward = least_part(a.attention_forward, b.attention_forward);
  a.attention_backward = least_part(a.attention_backward, b.attention_backward);
  a.attention_tokens = most(a.attention_tokens, b.attention_tokens);
  a.attention_width = most(a.attention_width, b.attention_width);
  a.attention_generated =
      least_part_or(a.attention_generated, b.attention_generated, BD_ATTENTION_GENERATED);
  a.attention_generated_f32 = least_part_or(a.attention_generated_f32, b.attention_generated_f32,
                                            BD_ATTENTION_GENERATED_F32);
  a.attention_materialized |= b.attention_materialized;
  a.transcendental_seconds = most(a.transcendental_seconds, b.transcendental_seconds);
  for (int kind = 0; kind < BD_OP_KIND_COUNT; kind++)
    a.point_seconds[kind] = most(a.point_seconds[kind], b.point_seconds[kind]);
  a.product_beside = least(a.product_beside, b.product_beside);
  if (a.gradients_exposed > 0 || b.gradients_exposed > 0)
    a.gradients_exposed = most(bd_part_or(a.gradients_exposed, BD_GRADIENTS_EXPOSED),
                               bd_part_or(b.gradients_exposed, BD_GRADIENTS_EXPOSED));
  a.update_bytes_per_second = least_part(a.update_bytes_per_second, b.update_bytes_per_second);
  return a;
}

static void set_kind(bd_cluster *c, const bd_device_kind *kind) {
  c->memory_bytes = kind->memory_bytes;
  c->reserved_bytes = kind->reserved_bytes;
  c->flops = kind->flops;
  c->memory_bytes_per_second = kind->memory_bytes_per_second;
  c->kernel_seconds = kind->kernel_seconds;
  c->lacks = kind->lacks;
  c->work = kind->work;
  c->gpu = kind->gpu;
  c->threads_per_device = kind->threads_per_device;
}

static void slow_to_kind(bd_cluster *c, const bd_device_kind *kind) {
  if (kind->memory_bytes - kind->reserved_bytes < c->memory_bytes - c->reserved_bytes) {
    c->memory_bytes = kind->memory_bytes;
    c->reserved_bytes = kind->reserved_bytes;
  }
  c->flops.f32 = least(c->flops.f32, kind->flops.f32);
  c->flops.bf16 = least(c->flops.bf16, kind->flops.bf16);
  c->flops.f16 = least(c->flops.f16, kind->flops.f16);
  c->flops.f8 = least(c->flops.f8, kind->flops.f8);
  c->memory_bytes_per_second = least(c->memory_bytes_per_second, kind->memory_bytes_per_second);
  c->kernel_seconds = most(c->kernel_seconds, kind->kernel_seconds);
  c->lacks |= kind->lacks;
  c->work = slower_work(c->work, kind->work);
  if (kind->threads_per_device < c->threads_per_device)
    c->threads_per_device = kind->threads_per_device;
}

void bd_cluster_set_uniform(bd_cluster *c, const bd_device_kind *kind, const bd_node_group *group) {
  set_kind(c, kind);
  c->nodes = group->nodes;
  c->devices_per_node = group->devices_per_node;
  c->intra = group->intra;
  c->inter = group->inter;
  c->node = group->node;
}

// An island of 0 devices is the whole node.
static void slow_to_group(bd_cluster *c, const bd_node_group *group) {
  bd_node_parts *node = &c->node;
  const bd_node_parts *other = &group->node;
  bd_link a = node->island_devices ? node->island : c->intra;
  bd_link b = other->island_devices ? other->island : group->intra;
  if (node->island_devices || other->island_devices) {
    int mine = node->island_devices ? node->island_devices : c->devices_per_node;
    int its = other->island_devices ? other->island_devices : group->devices_per_node;
    node->island_devices = (int)bd_common_divisor(mine, its);
    node->island = bd_link_slower(a, b);
  }
  if (node->switch_sum.bytes_per_second > 0 && other->switch_sum.bytes_per_second > 0)
    node->switch_sum = bd_link_slower(node->switch_sum, other->switch_sum);
  else
    node->switch_sum = (bd_link){0};
  if (other->host_memory_bytes < node->host_memory_bytes)
    node->host_memory_bytes = other->host_memory_bytes;
  node->host_bytes_per_second = least(node->host_bytes_per_second, other->host_bytes_per_second);
  c->devices_per_node = (int)bd_common_divisor(c->devices_per_node, group->devices_per_node);
  c->intra = bd_link_slower(c->intra, group->intra);
  if (group->nodes > 1) c->inter = bd_link_slower(c->inter, group->inter);
}

void bd_cluster_summarize(bd_cluster *c) {
  int devices = 0;
  bd_cluster_set_uniform(c, &c->kinds[c->groups[0].kind], &c->groups[0]);
  for (int g = 0; g < c->group_count; g++) {
    const bd_node_group *group = &c->groups[g];
    devices += group->nodes * group->devices_per_node;
    slow_to_kind(c, &c->kinds[group->kind]);
    slow_to_group(c, group);
    for (int other = 0; other < g; other++)
      c->inter = bd_link_slower(c->inter, c->between[g * c->group_count + other]);
  }
  c->nodes = devices / c->devices_per_node;
}

bd_link *bd_cluster_slower_between(bd_ctx *ctx, const bd_cluster *c) {
  int count = c->group_count;
  bd_link *between = BD_NEW_ARRAY(ctx->arena, bd_link, count * count);
  for (int a = 0; a < count; a++)
    for (int b = 0; b < count; b++)
      between[a * count + b] = bd_link_slower(c->groups[a].inter, c->groups[b].inter);
  return between;
}
