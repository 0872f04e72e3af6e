// Kernels that compute each result element by itself: runs of pointwise ops, ops that move data,
// and those that walk along a dimension for each.
#include "codegen/kernel/gen.h"

enum {
  MERGE_BELOW = 512, // elements: shorter lane loops take in the loop around them
  BLOCK = 4096,      // of a long lane loop per item
  MOST_BYTES = 96,   // that a GPU's thread has on their way
};

bool bd_gen_can_merge(const bd_gen *g, int outer, int inner, int count,
                      bd_access *const *accesses) {
  const bd_gen_loop *loop = &g->loop[inner];
  for (int i = 0; i < count; i++)
    if (accesses[i]->stride[outer] != accesses[i]->stride[inner] * loop->extent) return false;
  return !loop->split;
}

static bool can_merge(const bd_gen *g, const bd_gen_points *points, int outer, int inner) {
  return g->loop[inner].extent < MERGE_BELOW &&
         bd_gen_can_merge(g, outer, inner, points->access_count, points->accesses);
}

static void merge(bd_gen *g, bd_gen_points *points, int outer, int inner) {
  bd_gen_merge_loops(g, outer, inner);
  for (int i = 0; i < points->access_count; i++)
    points->accesses[i]->stride[outer] = 0;
}

static void lanes(bd_gen *g, void *user) {
  bd_gen_points *points = user;
  int width = points->work > 1 ? BD_GEN_WALK_LANES : BD_GEN_POINT_LANES;
  int loop = points->order[points->loops - 1];
  int ahead = points->ahead;
  while (ahead > 1 && ahead * g->pack * points->bytes > MOST_BYTES)
    ahead--;
  bd_gen_ahead groups = {.ahead = ahead > 1 ? ahead : 1,
                         .fetch = points->fetch,
                         .finish = points->finish,
                         .user = points->user};
  if (points->fetch)
    bd_gen_lanes_ahead(g, loop, width, &groups);
  else
    bd_gen_lanes(g, loop, width, points->body, points->user);
}

// Random numbers take registers, and the first rounds of a thread's few packs, if items shared
// them, those of all.
static void make_room_for_random(bd_gen *g, bd_gen_nest *nest) {
  int64_t packs = g->loop[nest->lane_loop].extent / ((int64_t)g->pack * BD_GEN_LANES);
  nest->apart = packs <= BD_GEN_MOST_AHEAD;
  if (g->cuda) g->room = nest->apart ? BD_GEN_ROOMY_BLOCKS : BD_GEN_ROOMY_BLOCKS + 1;
}

void bd_gen_elementwise(bd_gen *g, bd_gen_points *points) {
  if (!points->loops) { // a scalar
    points->order[points->loops++] = g->loops;
    g->loop[g->loops++] = (bd_gen_loop){
        .scale = 1, .extent = 1, .start = bd_gen_long(g, 0), .count = bd_gen_long(g, 1)};
  }
  int *order = points->order;
  while (points->loops > 1) {
    int inner = order[points->loops - 1], outer = order[points->loops - 2];
    if (!can_merge(g, points, outer, inner)) break;
    merge(g, points, outer, inner);
    order[points->loops - 2] = inner;
    points->loops--;
  }
  int lane_loop = order[points->loops - 1];
  bd_gen_nest nest = {.outer_count = points->loops - 1, .lane_loop = lane_loop};
  for (int i = 0; i < nest.outer_count; i++)
    nest.outer[i] = order[i];
  int64_t per_point = points->work > 1 ? points->work : 1;
  int64_t block = BLOCK / per_point / BD_GEN_LANES * BD_GEN_LANES;
  if (block < BD_GEN_LANES) block = BD_GEN_LANES;
  nest.work = g->loop[lane_loop].extent;
  if (nest.work > block) nest.work = nest.block = block;
  nest.work *= per_point;
  if (points->packs)
    bd_gen_pack(g, lane_loop, BD_GEN_ALIGNED, points->access_count,
                (const bd_access *const *)points->accesses);
  if (g->cuda) nest.threads = bd_gen_row_threads(g, lane_loop);
  if (points->random) make_room_for_random(g, &nest);
  bd_gen_items(g, &nest, lanes, points);
}

int bd_gen_own_loop(bd_gen *g, int64_t extent) {
  g->loop[g->loops] = (bd_gen_loop){
      .scale = 1, .extent = extent, .start = bd_gen_long(g, 0), .count = bd_gen_long(g, extent)};
  return g->loops++;
}

void bd_gen_merge_loops(bd_gen *g, int outer, int inner) {
  bd_gen_loop *from = &g->loop[outer], *to = &g->loop[inner];
  LLVMValueRef scale = bd_gen_long(g, to->extent);
  to->slot = from->slot;
  to->split = from->split;
  to->scale = from->scale * to->extent;
  to->extent *= from->extent;
  to->start = LLVMBuildNSWMul(g->b, from->start, scale, "");
  to->count = LLVMBuildNSWMul(g->b, from->count, scale, "");
}
