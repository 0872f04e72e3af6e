// Mixed clusters, made of groups of equal nodes.
#ifndef BD_IR_CLUSTER_MIXED_H
#define BD_IR_CLUSTER_MIXED_H
#include "ir/cluster.h"
#include "ir/mesh.h"

enum { BD_MAX_GROUPS = 64, BD_MAX_NODES = BD_MAX_DEVICES, BD_MAX_NODE_DEVICES = 1024 };
#define BD_MOST_MEMORY_BYTES ((int64_t)1 << 50)
#define BD_MOST_RATE 1e21

// The slower of two links, of latency and rate each.
bd_link bd_link_slower(bd_link a, bd_link b);

// The kinds and groups of any cluster: a uniform one is one group of one kind.
bd_device_kind bd_cluster_uniform_kind(const bd_cluster *cluster);
bd_node_group bd_cluster_uniform_group(const bd_cluster *cluster);

// Fills a cluster of one group of one kind.
void bd_cluster_set_uniform(bd_cluster *cluster, const bd_device_kind *kind,
                            const bd_node_group *group);

// Between every two groups the slower of their links between nodes; group_count x group_count.
bd_link *bd_cluster_slower_between(bd_ctx *ctx, const bd_cluster *cluster);

// From kinds, groups and the links between groups, the fields that describe a uniform cluster. At
// most BD_MAX_DEVICES devices in BD_MAX_GROUPS groups.
void bd_cluster_summarize(bd_cluster *cluster);
#endif
