// Where the stages of a full plan stand.
#ifndef BD_PLANNER_FULL_STAGE_H
#define BD_PLANNER_FULL_STAGE_H
#include "ir/plan.h"

// The devices of one group of a cluster, or all of a uniform one.
typedef struct bd_full_group {
  int first, count, node; // devices; `node` of them in a node
  int64_t cap_bytes;      // of a rank: the request's where that is less
  bd_cluster cluster;     // of these devices alone
} bd_full_group;

// Lives in ctx->arena. `cap_bytes` 0: the devices'.
void bd_full_groups(bd_ctx *ctx, const bd_cluster *cluster, int64_t cap_bytes,
                    bd_full_group **out_groups, int *out_count);
// Which of them holds a device; -1: none.
int bd_full_group_of(const bd_full_group *groups, int count, int device);

// The cluster that `stages` stages of so many devices in group `own` are priced on, one after
// another, when what they send goes to group `other`. It may have more devices than there are.
bd_cluster bd_full_pair_cluster(const bd_cluster *cluster, const bd_full_group *own,
                                const bd_full_group *other, int devices, int stages);
#endif
