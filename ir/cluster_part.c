// Devices, ranges of devices, and rings over them.
#include "ir/base/number.h"
#include "ir/cluster_mixed.h"
#include <assert.h>

static int group_count(const bd_cluster *c) {
  return bd_cluster_is_mixed(c) ? c->group_count : 1;
}

static bd_node_group group_at(const bd_cluster *c, int group) {
  return bd_cluster_is_mixed(c) ? c->groups[group] : bd_cluster_uniform_group(c);
}

static bd_link link_of_groups(const bd_cluster *c, int a, int b) {
  return a == b ? group_at(c, a).inter : c->between[a * c->group_count + b];
}

static int devices_of(const bd_node_group *group) {
  return group->nodes * group->devices_per_node;
}

typedef struct place {
  int group, node, island, device; // node in the group, island in the node, device in the node
} place;

static place find(const bd_cluster *c, int device) {
  int g = 0;
  bd_node_group group = group_at(c, 0);
  while (device >= devices_of(&group)) {
    device -= devices_of(&group);
    assert(g + 1 < group_count(c));
    group = group_at(c, ++g);
  }
  place out = {.group = g, .node = device / group.devices_per_node};
  out.device = device % group.devices_per_node;
  if (group.node.island_devices > 0) out.island = out.device / group.node.island_devices;
  return out;
}

bd_device_kind bd_cluster_device_kind(const bd_cluster *c, int device) {
  if (!bd_cluster_is_mixed(c)) return bd_cluster_uniform_kind(c);
  return c->kinds[c->groups[find(c, device).group].kind];
}

int64_t bd_cluster_cap_bytes(const bd_cluster *c, int first, int count) {
  if (!bd_cluster_is_mixed(c)) return c->memory_bytes - c->reserved_bytes;
  int64_t least = INT64_MAX;
  int start = 0;
  for (int g = 0; g < c->group_count; start += devices_of(&c->groups[g++])) {
    if (start + devices_of(&c->groups[g]) <= first || start >= first + count) continue;
    const bd_device_kind *kind = &c->kinds[c->groups[g].kind];
    int64_t cap = kind->memory_bytes - kind->reserved_bytes;
    if (cap < least) least = cap;
  }
  return least;
}

static bd_link link_of_devices(const bd_cluster *c, int a, int b) {
  place from = find(c, a), to = find(c, b);
  bd_node_group group = group_at(c, from.group);
  if (from.group != to.group || from.node != to.node)
    return link_of_groups(c, from.group, to.group);
  return group.node.island_devices > 0 && from.island == to.island ? group.node.island
                                                                   : group.intra;
}

bd_link bd_cluster_link_between(const bd_cluster *c, int first, int second, int count) {
  bd_link slowest = link_of_devices(c, first, second);
  for (int i = 1; i < count; i++)
    slowest = bd_link_slower(slowest, link_of_devices(c, first + i, second + i));
  return slowest;
}

// The pieces of a range: nodes of one group that the range has as much of.
typedef struct pieces {
  int count;
  bd_node_group *group;
  int *from; // the group of the cluster that it is of
} pieces;

static void add_piece(pieces *p, const bd_node_group *group, int from, int start, int nodes,
                      int devices) {
  bd_node_group *piece = &p->group[p->count];
  *piece = *group;
  piece->nodes = nodes;
  piece->devices_per_node = devices;
  int island = group->node.island_devices;
  while (island > 0 && (start % island || devices % island))
    island--;
  piece->node.island_devices = island == devices ? 0 : island;
  if (island == devices) piece->intra = group->node.island;
  p->from[p->count++] = from;
}

// Of `group`, the devices from `start` to before `end`.
static void cut_group(pieces *p, const bd_node_group *group, int from, int start, int end) {
  int size = group->devices_per_node;
  if (start % size) {
    int stop = start - start % size + size;
    if (stop > end) stop = end;
    add_piece(p, group, from, start % size, 1, stop - start);
    start = stop;
  }
  if (end - start >= size) {
    int nodes = (end - start) / size;
    add_piece(p, group, from, 0, nodes, size);
    start += nodes * size;
  }
  if (start < end) add_piece(p, group, from, 0, 1, end - start);
}

static pieces cut(bd_ctx *ctx, const bd_cluster *c, int first, int count) {
  int groups = group_count(c), start = 0;
  pieces out = {0};
  out.group = BD_NEW_ARRAY(ctx->arena, bd_node_group, 3 * groups);
  out.from = BD_NEW_ARRAY(ctx->arena, int, 3 * groups);
  for (int g = 0; g < groups; g++) {
    bd_node_group group = group_at(c, g);
    int from = first > start ? first - start : 0, devices = devices_of(&group);
    int to = first + count - start < devices ? first + count - start : devices;
    if (from < to) cut_group(&out, &group, g, from, to);
    start += devices;
  }
  return out;
}

void bd_cluster_part(bd_ctx *ctx, const bd_cluster *c, int first, int count, bd_cluster *out) {
  assert(first >= 0 && count > 0 && first + count <= bd_cluster_devices(c));
  pieces p = cut(ctx, c, first, count);
  bd_link *between = BD_NEW_ARRAY(ctx->arena, bd_link, p.count * p.count);
  for (int a = 0; a < p.count; a++)
    for (int b = 0; b < p.count; b++)
      between[a * p.count + b] = link_of_groups(c, p.from[a], p.from[b]);
  bd_device_kind *kind = NULL;
  *out = *c;
  if (!bd_cluster_is_mixed(c)) {
    kind = BD_NEW_ARRAY(ctx->arena, bd_device_kind, 1);
    *kind = bd_cluster_uniform_kind(c);
    out->kinds = kind;
    out->kind_count = 1;
  }
  out->groups = p.group;
  out->group_count = p.count;
  out->between = between;
  bd_cluster_summarize(out);
  bool uniform = true;
  for (int g = 1; g < p.count; g++)
    uniform &= p.from[g] == p.from[0];
  if (!uniform) return;
  out->kinds = NULL;
  out->groups = NULL;
  out->between = NULL;
  out->kind_count = out->group_count = 0;
}

static void add_level(bd_ring *ring, int ranks, bd_link link) {
  if (ranks <= 1) return;
  ring->level[ring->levels].ranks = ranks;
  ring->level[ring->levels++].link = link;
}

// Of `ranks` devices that far apart, how many neighbours one unit of `size` devices holds.
static int ranks_within(int size, int stride, int ranks) {
  if (size % stride != 0) return 1;
  int within = size / stride;
  if (within >= ranks) return within % ranks == 0 ? ranks : 1;
  return ranks % within == 0 ? within : 1;
}

// The slowest link between groups, and the devices that any group holds a multiple of.
static bd_link between_groups(const bd_cluster *c, int *out_devices) {
  bd_link slowest = c->between[1];
  *out_devices = 0;
  for (int a = 0; a < c->group_count; a++) {
    *out_devices = (int)bd_common_divisor(devices_of(&c->groups[a]), *out_devices);
    for (int b = 0; b < a; b++)
      slowest = bd_link_slower(slowest, c->between[a * c->group_count + b]);
  }
  return slowest;
}

// The slowest link between nodes of one group.
static bd_link within_groups(const bd_cluster *c) {
  bd_link slowest = c->groups[0].inter;
  for (int g = 1; g < c->group_count; g++)
    slowest = bd_link_slower(slowest, c->groups[g].inter);
  return slowest;
}

bd_ring bd_cluster_ring(const bd_cluster *c, int stride, int ranks) {
  bd_ring ring = {.ranks = ranks};
  const bd_node_parts *node = &c->node;
  int done = 1, inside = ranks_within(c->devices_per_node, stride, ranks);
  if (node->island_devices > 0) {
    int near = ranks_within(node->island_devices, stride, ranks);
    add_level(&ring, near, node->island);
    done = near;
  }
  bool one_switch = node->island_devices > 0 ? done == ranks : inside == ranks;
  if (one_switch) ring.switch_sum = node->switch_sum;
  if (inside % done != 0) inside = done;
  add_level(&ring, inside / done, c->intra);
  ring.node_levels = ring.levels;
  done = inside;
  if (c->group_count > 1) {
    int devices;
    bd_link link = between_groups(c, &devices);
    int near = ranks_within(devices, stride, ranks);
    if (near % done != 0) near = done;
    add_level(&ring, near / done, within_groups(c));
    done = near;
    add_level(&ring, ranks / done, link);
    return ring;
  }
  add_level(&ring, ranks / done, c->inter);
  return ring;
}
