// Ops that move data: each result element is an element of an operand, or filled in.
#include "codegen/kernel/gen.h"
#include "ir/base/number.h"

typedef struct move {
  bd_access in, out;
  int loop;            // pad: whose indices are tested; else -1
  int64_t from, size;  // pad: where the operand lies in the result
  int64_t step, apart; // pad: between its indices there, and between its elements
  LLVMValueRef fill;   // pad: a scalar, or NULL for zero
  bd_access whole;     // pad: the operand along all loops; how far apart rows of it are
  bd_access test;      // pad: of the loop's indices
} move;

// Stands for what is asked of a loop's indices, which changes at multiples of `grain` alone: as an
// access whose elements begin evenly there. So the loop is not merged with others, and packs lie on
// one side of where it changes.
static bd_access test_of(const bd_access *like, int loop, int64_t grain) {
  bd_access test = {.dtype = like->dtype, .base = like->base, .aligned = BD_GEN_ALIGNED};
  test.stride[loop] = 1;
  while (grain * bd_dtype_bytes(test.dtype) % test.aligned)
    test.aligned /= 2;
  return test;
}

// The logical index that is tested: in lanes, or of all of a GPU's pack.
static LLVMValueRef tested_index(bd_gen *g, int loop) {
  int lanes = g->lanes;
  if (g->cuda) g->lanes = 1;
  LLVMValueRef at = bd_gen_logical(g, loop);
  g->lanes = lanes;
  return at;
}

// The element of the operand that lies at each lane's index; zero where there is none.
static LLVMValueRef load_padded(bd_gen *g, const move *m) {
  LLVMValueRef at = tested_index(g, m->loop);
  at = LLVMBuildSub(g->b, at, bd_gen_int_like(at, m->from), "");
  LLVMValueRef number = at, size = bd_gen_int_like(at, m->size), value;
  if (m->step == 1) {
    LLVMValueRef where = LLVMBuildICmp(g->b, LLVMIntULT, at, size, "");
    value = bd_gen_load_where(g, &m->in, where);
    return m->fill ? LLVMBuildSelect(g->b, where, value, bd_gen_splat(g, m->fill), "") : value;
  }
  LLVMValueRef step = bd_gen_int_like(at, m->step);
  number = LLVMBuildSDiv(g->b, at, step, "");
  LLVMValueRef whole = LLVMBuildMul(g->b, number, step, "");
  LLVMValueRef where = LLVMBuildICmp(g->b, LLVMIntEQ, whole, at, "");
  where = LLVMBuildAnd(g->b, where, LLVMBuildICmp(g->b, LLVMIntULT, number, size, ""), "");
  LLVMValueRef offset = LLVMBuildMul(g->b, number, bd_gen_int_like(at, m->apart), "");
  value = bd_gen_load_at(g, &m->in, offset, where);
  return m->fill ? LLVMBuildSelect(g->b, where, value, bd_gen_splat(g, m->fill), "") : value;
}

static void move_body(bd_gen *g, void *user) {
  move *m = user;
  bd_gen_store(g, &m->out, m->loop < 0 ? bd_gen_load(g, &m->in) : load_padded(g, m));
}

static void move_points(bd_gen *g, move *m, int count, const int *order) {
  bd_access *accesses[] = {&m->in, &m->out, &m->whole, &m->test};
  bd_gen_points points = {.loops = count,
                          .access_count = m->loop < 0 ? 2 : 4,
                          .accesses = accesses,
                          .packs = true,
                          .body = move_body,
                          .user = m};
  for (int i = 0; i < count; i++)
    points.order[i] = order[i];
  bd_gen_elementwise(g, &points);
}

static int result_rank(const bd_gen *g) {
  return g->kernel->function->values[g->op->out[0]].type.rank;
}

// Whether the operand's last dimension has a loop that is longer than the result's, which is too
// short for a warp: images whose three channels become the last dimension.
static bool goes_by_operand(const bd_gen *g, const move *m, int count, const int *order) {
  bool longer = false;
  int64_t last = count ? g->loop[order[count - 1]].extent : BD_GEN_LANES;
  for (int i = 0; i < count; i++) {
    int64_t extent = g->loop[order[i]].extent, stride = m->in.stride[order[i]];
    if (!stride && extent > 1) return false; // broadcast
    if (stride == 1 && extent > last) longer = true;
  }
  return g->cuda && last < BD_GEN_LANES && longer;
}

// Loops as they lie in the operand, so that lanes read what lies in a row.
static void order_by_operand(const move *m, int count, int *order) {
  for (int i = 1; i < count; i++)
    for (int k = i; k > 0 && m->in.stride[order[k - 1]] < m->in.stride[order[k]]; k--) {
      int loop = order[k];
      order[k] = order[k - 1];
      order[k - 1] = loop;
    }
}

bd_status bd_gen_move(bd_gen *g) {
  move m = {.in = bd_gen_in(g, 0), .out = bd_gen_out(g, 0), .loop = -1};
  int order[BD_MAX_LOOPS], rank = result_rank(g);
  for (int d = 0; d < rank; d++)
    order[d] = g->map.out[0][d];
  if (goes_by_operand(g, &m, rank, order)) order_by_operand(&m, rank, order);
  move_points(g, &m, rank, order);
  return BD_OK;
}

static int64_t local_dim(const bd_gen *g, bd_id id, int dim) {
  const bd_module *module = g->kernel->module;
  const bd_value *value = &g->kernel->function->values[id];
  return bd_value_local_type(module, value).dims[dim];
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
  int8_t last = (int8_t)bd_gen_own_loop(g, rest);
  m.in.stride[last] = m.out.stride[last] = 1;
  order[loops++] = last;
  move_points(g, &m, loops, order);
  return BD_OK;
}

// Loops over the result; the cut dimension's is made here.
static int result_loops(bd_gen *g, int dim, int8_t loops[BD_MAX_RANK]) {
  int rank = result_rank(g);
  for (int d = 0; d < rank; d++) {
    loops[d] = g->map.out[0][d];
    if (d == dim || loops[d] < 0)
      loops[d] = (int8_t)bd_gen_own_loop(g, local_dim(g, g->op->out[0], d));
  }
  return rank;
}

// Also every other chunk, of which a rank has one.
bd_status bd_gen_slice(bd_gen *g) {
  int dim = (int)bd_op_int(g->op, "dim", 0), order[BD_MAX_RANK];
  int8_t loops[BD_MAX_RANK];
  int rank = result_loops(g, dim, loops), loop = loops[dim];
  for (int d = 0; d < rank; d++)
    order[d] = loops[d];
  move m = {.loop = -1};
  m.in = bd_gen_access(g, g->op->in[0], loops);
  m.out = bd_gen_access(g, g->op->out[0], loops);
  int64_t start = bd_op_int(g->op, "start", 0);
  if (g->op->kind == BD_OP_ALTERNATE)
    start = bd_op_int(g->op, "half", 0) * local_dim(g, g->op->out[0], dim);
  m.in = bd_gen_shifted(g, &m.in, start * m.in.stride[loop]);
  m.in.stride[loop] *= bd_op_int(g->op, "step", 1);
  move_points(g, &m, rank, order);
  return BD_OK;
}

bd_status bd_gen_pad(bd_gen *g) {
  int dim = (int)bd_op_int(g->op, "dim", 0), order[BD_MAX_RANK];
  int8_t loops[BD_MAX_RANK];
  int rank = result_loops(g, dim, loops), loop = loops[dim];
  for (int d = 0; d < rank; d++)
    order[d] = loops[d];
  const bd_attr *value = bd_op_find_attr(g->op, "value");
  move m = {.loop = loop,
            .from = bd_op_int(g->op, "start", 0),
            .step = bd_op_int(g->op, "step", 1),
            .size = g->kernel->function->values[g->op->in[0]].type.dims[dim]};
  m.in = bd_gen_access(g, g->op->in[0], loops);
  m.out = bd_gen_access(g, g->op->out[0], loops);
  if (value) m.fill = bd_gen_constant(g, value, 0, m.out.dtype);
  m.apart = m.in.stride[loop];
  m.whole = m.in;
  if (m.step == 1)
    m.in = bd_gen_shifted(g, &m.in, -m.from * m.apart);
  else
    m.in.stride[loop] = 0;
  m.test = test_of(&m.out, loop, m.step == 1 ? bd_common_divisor(m.from, m.size) : 1);
  move_points(g, &m, rank, order);
  return BD_OK;
}

typedef struct joined {
  bd_access in[BD_MAX_OPERANDS], out, test;
  int64_t size[BD_MAX_OPERANDS];
  int loop;
} joined;

// Each element is loaded from where it lies; the operands that it is not of load nothing.
static void join_body(bd_gen *g, void *user) {
  joined *j = user;
  LLVMValueRef at = tested_index(g, j->loop), value = NULL;
  for (int i = 0; i < g->op->in_count; i++) {
    LLVMValueRef size = bd_gen_int_like(at, j->size[i]);
    LLVMValueRef where = LLVMBuildICmp(g->b, LLVMIntULT, at, size, "");
    LLVMValueRef part = bd_gen_load_where(g, &j->in[i], where);
    value = value ? LLVMBuildSelect(g->b, where, part, value, "") : part;
    at = LLVMBuildSub(g->b, at, size, "");
  }
  bd_gen_store(g, &j->out, value);
}

// Also two chunks, of which a rank has one each.
bd_status bd_gen_concat(bd_gen *g) {
  int dim = (int)bd_op_int(g->op, "dim", 0);
  int8_t loops[BD_MAX_RANK];
  joined j = {0};
  bd_access *accesses[BD_MAX_OPERANDS + 2] = {&j.out, &j.test};
  bd_gen_points points = {.loops = result_loops(g, dim, loops),
                          .access_count = g->op->in_count + 2,
                          .accesses = accesses,
                          .packs = true,
                          .body = join_body,
                          .user = &j};
  j.loop = loops[dim];
  int64_t start = 0, grain = 0;
  for (int i = 0; i < g->op->in_count; i++) {
    j.in[i] = bd_gen_access(g, g->op->in[i], loops);
    j.in[i] = bd_gen_shifted(g, &j.in[i], -start * j.in[i].stride[j.loop]);
    j.size[i] = local_dim(g, g->op->in[i], dim);
    start += j.size[i];
    grain = bd_common_divisor(grain, j.size[i]);
    accesses[i + 2] = &j.in[i];
  }
  j.out = bd_gen_access(g, g->op->out[0], loops);
  j.test = test_of(&j.out, j.loop, grain);
  for (int d = 0; d < points.loops; d++)
    points.order[d] = loops[d];
  bd_gen_elementwise(g, &points);
  return BD_OK;
}
