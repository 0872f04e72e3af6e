// The space of full plans, and parts of it as layer graphs, one for each micro-batch.
//
// A stage has devices of one group: a number that divides a node, or whole nodes, as many as divide
// the group's or a power of two. Their mesh has one axis or two. The micro-batch divides the global
// batch; the schedule is any, with at most BD_FULL_MAX_STAGES stages; weights that several calls
// share are whole on every rank. Pins and other constraints leave out what they say.
#ifndef BD_PLANNER_FULL_SPACE_H
#define BD_PLANNER_FULL_SPACE_H
#include "ir/base/workers.h"
#include "planner/bound/bound.h"
#include "planner/full/floor.h"
#include "planner/full/stage.h"
#include "planner/graph/layers.h"

enum { BD_FULL_MAX_AXES = 2, BD_FULL_MAX_MODES = 16, BD_FULL_MAX_STAGES = 64, BD_FULL_CHUNKS = 4 };

// To choose from under the interleaved schedule.
extern const int bd_full_chunks[BD_FULL_CHUNKS];

// A mesh on devices of a group.
typedef struct bd_full_mode {
  int group;
  bd_mesh mesh;   // of two axes, the first of which may have one rank
  bd_mesh priced; // without axes of one rank
  int first_axis; // of `mesh`: where those of `priced` begin
} bd_full_mode;

// What all layer graphs of a search share.
typedef struct bd_full_space {
  const bd_module *train;
  const bd_cluster *cluster;
  const bd_plan_request *request;
  bd_model_runs runs;
  int layer_count;
  int *run_of_layer;
  int group_count, mode_count;
  bd_full_group *groups;
  bd_full_mode modes[BD_FULL_MAX_MODES];
  int stages;   // about so many
  bool more;    // candidates: also those that narrower searches have
  bool bounded; // the default space has a bound of its own, the near plan's
} bd_full_space;

// A layer graph, and what its options stand for.
typedef struct bd_full_problem {
  bd_layers_problem layers;
  const bd_layer_candidate **candidate; // per bd_layers_option.index
  const int *candidate_mode;
  int64_t micro_batch;
  bool skips; // values pass over layers, which takes less than the graph charges
} bd_full_problem;

// Whether a stage may have so many devices of a group.
bool bd_full_has_size(const bd_full_space *space, int group, int devices);
// The meshes of a stage of so many devices; they live in ctx->arena.
int bd_full_meshes(bd_ctx *ctx, const bd_full_space *space, int group, int devices,
                   bd_mesh **out_meshes);
// The sizes of micro-batches, ascending; they live in ctx->arena.
int bd_full_micro_batches(bd_ctx *ctx, const bd_plan_request *request, int64_t **out_sizes);
// What layers on devices of a group are priced by.
bd_scene bd_full_scene(const bd_full_space *space, int group);

// `near` NULL, or a plan whose meshes and sizes of stages are looked at first.
void bd_full_space_open(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                        const bd_plan_request *request, const bd_plan *near,
                        bd_full_space *out_space);

// The same space with all meshes of these sizes to look at, as far as there is room for them, in
// about so many stages.
void bd_full_space_aim(bd_ctx *ctx, const bd_full_space *space, int size_count,
                       const bd_floor_size *sizes, int stages, bd_full_space *out_space);

// Modes are priced side by side. `*out_possible` false when some layer has no candidate on any
// mode, or it is late.
BD_NODISCARD bd_status bd_full_pose(bd_ctx *ctx, bd_workers *workers, const bd_full_space *space,
                                    int64_t micro_batch, bd_deadline deadline,
                                    bd_full_problem *out_problem, bool *out_possible);

// A solution as a plan, without predictions.
void bd_full_assemble(bd_ctx *ctx, const bd_full_space *space, const bd_full_problem *problem,
                      const bd_layers_plan *solution, bd_plan *out_plan);
#endif
