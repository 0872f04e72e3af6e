// Kernels that compute each result element from one element of each operand: runs of pointwise ops,
// and ops that move data.
#include "codegen/kernel/gen.h"

enum {
  MERGE_BELOW = 512, // elements: shorter lane loops take in the loop around them
  BLOCK = 4096,      // of a long lane loop per item
};

static bool can_merge(const bd_gen *g, const bd_gen_points *points, int outer, int inner) {
  const bd_gen_loop *loop = &g->loop[inner];
  if (loop->split || loop->extent >= MERGE_BELOW) return false;
  for (int i = 0; i < points->access_count; i++) {
    const bd_access *access = points->accesses[i];
    if (access->stride[outer] != access->stride[inner] * loop->extent) return false;
  }
  return true;
}

static void merge(bd_gen *g, bd_gen_points *points, int outer, int inner) {
  bd_gen_loop *from = &g->loop[outer], *to = &g->loop[inner];
  LLVMValueRef scale = bd_gen_long(g, to->extent);
  to->slot = from->slot;
  to->split = from->split;
  to->scale = from->scale * to->extent;
  to->extent *= from->extent;
  to->start = LLVMBuildNSWMul(g->b, from->start, scale, "");
  to->count = LLVMBuildNSWMul(g->b, from->count, scale, "");
  for (int i = 0; i < points->access_count; i++)
    points->accesses[i]->stride[outer] = 0;
}

static void lanes(bd_gen *g, void *user) {
  bd_gen_points *points = user;
  bd_gen_lanes(g, points->order[points->loops - 1], BD_GEN_POINT_LANES, points->body, points->user);
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
  nest.work = g->loop[lane_loop].extent;
  if (nest.work > BLOCK) nest.work = nest.block = BLOCK;
  bd_gen_items(g, &nest, lanes, points);
}

typedef struct move {
  bd_access in, out;
  int loop;           // pad: whose indices are tested; else -1
  int64_t from, size; // pad: where the operand lies in the result
  bd_access number;   // pad: keeps the tested loop from being merged
} move;

static void move_body(bd_gen *g, void *user) {
  move *m = user;
  LLVMValueRef where = NULL;
  if (m->loop >= 0) {
    LLVMValueRef at = bd_gen_logical(g, m->loop);
    at = LLVMBuildSub(g->b, at, bd_gen_int_like(at, m->from), "");
    where = LLVMBuildICmp(g->b, LLVMIntULT, at, bd_gen_int_like(at, m->size), "");
  }
  bd_gen_store(g, &m->out, bd_gen_load_where(g, &m->in, where));
}

static void move_points(bd_gen *g, move *m, int count, const int *order) {
  bd_access *accesses[] = {&m->in, &m->out, &m->number};
  if (m->loop >= 0) m->number.stride[m->loop] = 1;
  bd_gen_points points = {
      .loops = count, .access_count = 3, .accesses = accesses, .body = move_body, .user = m};
  for (int i = 0; i < count; i++)
    points.order[i] = order[i];
  bd_gen_elementwise(g, &points);
}

static int result_rank(const bd_gen *g) {
  return g->kernel->function->values[g->op->out[0]].type.rank;
}

bd_status bd_gen_move(bd_gen *g) {
  move m = {.in = bd_gen_in(g, 0), .out = bd_gen_out(g, 0), .loop = -1};
  int order[BD_MAX_LOOPS], rank = result_rank(g);
  for (int d = 0; d < rank; d++)
    order[d] = g->map.out[0][d];
  move_points(g, &m, rank, order);
  return BD_OK;
}

// Dimensions that the index map leaves without a loop are whole on every rank; each gets one here.
static int8_t own_loop(bd_gen *g, int64_t extent) {
  g->loop[g->loops] = (bd_gen_loop){
      .scale = 1, .extent = extent, .start = bd_gen_long(g, 0), .count = bd_gen_long(g, extent)};
  return (int8_t)g->loops++;
}

static int64_t local_dim(const bd_gen *g, bd_id id, int dim) {
  const bd_module *module = g->kernel->module;
  const bd_value *value = &g->kernel->function->values[id];
  return bd_local_type(&module->mesh, &value->sharding, &value->type, module->micro_batch)
      .dims[dim];
}

// Equal leading dimensions keep their loops; what follows is contiguous on both sides.
bd_status bd_gen_reshape(bd_gen *g) {
  int rank = result_rank(g), in_rank = g->kernel->function->values[g->op->in[0]].type.rank;
  int order[BD_MAX_LOOPS], loops = 0;
  int8_t in[BD_MAX_RANK], out[BD_MAX_RANK];
  for (int d = 0; d < in_rank; d++)
    in[d] = -1;
  for (int d = 0; d < rank; d++)
    out[d] = -1;
  while (loops < rank && loops < in_rank && g->map.out[0][loops] >= 0 &&
         g->map.in[0][loops] == g->map.out[0][loops]) {
    in[loops] = out[loops] = g->map.out[0][loops];
    order[loops] = out[loops];
    loops++;
  }
  int64_t rest = 1;
  for (int d = loops; d < rank; d++)
    rest *= local_dim(g, g->op->out[0], d);
  move m = {.in = bd_gen_access(g, g->op->in[0], in),
            .out = bd_gen_access(g, g->op->out[0], out),
            .loop = -1};
  int8_t last = own_loop(g, rest);
  m.in.stride[last] = m.out.stride[last] = 1;
  order[loops++] = last;
  move_points(g, &m, loops, order);
  return BD_OK;
}

// Slice and pad: loops over the result; the cut dimension's is made here.
static void cut(bd_gen *g, int dim, move *m, int64_t shift) {
  int rank = result_rank(g), order[BD_MAX_LOOPS];
  int8_t loops[BD_MAX_RANK];
  for (int d = 0; d < rank; d++)
    loops[d] = g->map.out[0][d];
  loops[dim] = own_loop(g, local_dim(g, g->op->out[0], dim));
  for (int d = 0; d < rank; d++) {
    if (loops[d] < 0) loops[d] = own_loop(g, local_dim(g, g->op->out[0], d));
    order[d] = loops[d];
  }
  m->in = bd_gen_access(g, g->op->in[0], loops);
  m->out = bd_gen_access(g, g->op->out[0], loops);
  int64_t stride = m->in.stride[loops[dim]];
  if (m->loop >= 0) m->loop = loops[dim];
  m->in = bd_gen_shifted(g, &m->in, shift * stride);
  move_points(g, m, rank, order);
}

bd_status bd_gen_slice(bd_gen *g) {
  move m = {.loop = -1};
  cut(g, (int)bd_op_int(g->op, "dim", 0), &m, bd_op_int(g->op, "start", 0));
  return BD_OK;
}

bd_status bd_gen_pad(bd_gen *g) {
  int dim = (int)bd_op_int(g->op, "dim", 0);
  int64_t start = bd_op_int(g->op, "start", 0);
  move m = {.loop = dim, .from = start, .size = local_dim(g, g->op->in[0], dim)};
  cut(g, dim, &m, -start);
  return BD_OK;
}
