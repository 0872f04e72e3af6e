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

// Whole groups, what a program has devices of in a mixed cluster with more.
typedef struct bd_full_range {
  int first, count; // devices
  bd_cluster cluster;
} bd_full_range;

// The groups that the plan has devices of, where it is one program that begins with the first
// device of a group, and others are idle; false: there are none such. Lives in ctx->arena.
bool bd_full_range_of(bd_ctx *ctx, const bd_cluster *cluster, const bd_plan *plan,
                      bd_full_range *out_range);
// A plan for such a part alone as one of the cluster; predictions are left as they are.
void bd_full_shift(bd_ctx *ctx, int first_device, bd_plan *plan);
// "h100:2x8+a100-80gb:1x8": the groups that the plan has devices of, joined by +. "" where these
// are all, or the cluster is uniform.
const char *bd_full_name_groups(bd_ctx *ctx, const bd_cluster *cluster, const bd_plan *plan);

// The cluster that `stages` stages of so many devices in group `own` are priced on, one after
// another, when what they send goes to group `other`. It may have more devices than there are.
bd_cluster bd_full_pair_cluster(const bd_cluster *cluster, const bd_full_group *own,
                                const bd_full_group *other, int devices, int stages);
#endif
