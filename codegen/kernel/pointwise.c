// A fused run of pointwise ops: values stay in registers, rounded to their dtype.
#include "codegen/kernel/pointwise.h"

static LLVMValueRef compute(bd_gen *g, const bd_gen_run *r, const bd_op *op,
                            const bd_access *table) {
  const bd_value *values = g->kernel->function->values;
  LLVMValueRef in[BD_MAX_OPERANDS];
  bd_dtype to = values[op->out[0]].type.dtype, from = to; // the elements are the last operands
  for (int i = 0; i < op->in_count; i++) {
    in[i] = r->value[op->in[i]];
    from = values[op->in[i]].type.dtype;
  }
  LLVMValueRef y = NULL;
  switch (op->kind) {
  case BD_OP_CAST:
    y = bd_gen_cast(g, from, to, in[0]);
    break;
  case BD_OP_CONSTANT:
    y = table->base ? bd_gen_load(g, table)
                    : bd_gen_splat(g, bd_gen_constant(g, bd_op_find_attr(op, "value"), 0, to));
    break;
  case BD_OP_IOTA:
    y = bd_gen_cast(g, BD_I64, to, bd_gen_logical(g, (int)bd_op_int(op, "dim", 0)));
    break;
  case BD_OP_DROPOUT:
    y = bd_dtype_wide(from) == BD_F32 ? bd_gen_dropout(g, r, op, in[0]) : NULL;
    break;
  default:
    y = bd_gen_arithmetic(g, op, from, in);
  }
  return y;
}

void bd_gen_run_fetch(bd_gen *g, const bd_gen_run *r, LLVMValueRef *out_fetched) {
  const bd_kernel *k = g->kernel;
  for (int i = 0; i < k->in_count; i++) {
    const bd_access *access = &r->access[k->in[i]];
    out_fetched[i] = access->base ? bd_gen_fetch(g, access) : NULL;
  }
}

int bd_gen_run_operands(const bd_gen *g, const bd_gen_run *r) {
  int count = 0;
  for (int i = 0; i < g->kernel->in_count; i++)
    count += r->access[g->kernel->in[i]].base != NULL;
  return count;
}

// Of one element of each operand.
static int64_t operand_bytes(const bd_gen *g, const bd_gen_run *r) {
  int64_t bytes = 0;
  for (int i = 0; i < g->kernel->in_count; i++) {
    const bd_access *access = &r->access[g->kernel->in[i]];
    if (access->base) bytes += bd_dtype_bytes(access->dtype);
  }
  return bytes;
}

void bd_gen_run_compute(bd_gen *g, bd_gen_run *r, const LLVMValueRef *fetched) {
  const bd_kernel *k = g->kernel;
  for (int i = 0; i < k->in_count; i++) {
    bd_id id = k->in[i];
    if (fetched[i]) r->value[id] = bd_gen_fetched(g, &r->access[id], fetched[i]);
  }
  for (int i = 0; i < r->op_count; i++) {
    const bd_op *op = &k->function->ops[r->first_op + i];
    LLVMValueRef y = compute(g, r, op, &r->table[i]);
    if (!y) {
      r->failed = op;
      return;
    }
    r->exact[op->out[0]] = y;
    r->value[op->out[0]] = bd_gen_rounded(g, k->function->values[op->out[0]].type.dtype, y);
  }
}

// Stores round by themselves, so they take what has not been rounded. What is added to memory is
// rounded before.
void bd_gen_run_store(bd_gen *g, const bd_gen_run *r) {
  const bd_kernel *k = g->kernel;
  if (r->failed) return;
  for (int i = 0; i < k->out_count; i++) {
    bd_id id = k->out[i];
    const bd_access *access = &r->access[id];
    if (access->base) bd_gen_store(g, access, (access->accumulate ? r->value : r->exact)[id]);
  }
}

void bd_gen_run_point(bd_gen *g, bd_gen_run *r) {
  LLVMValueRef *fetched = BD_NEW_ARRAY(g->ctx->arena, LLVMValueRef, g->kernel->in_count + 1);
  bd_gen_run_fetch(g, r, fetched);
  bd_gen_run_compute(g, r, fetched);
  bd_gen_run_store(g, r);
}

static bd_access access_of(bd_gen *g, bd_id id, int rank) {
  int own = g->kernel->function->values[id].type.rank;
  int8_t loops[BD_MAX_RANK];
  for (int d = 0; d < own; d++)
    loops[d] = (int8_t)(rank - own + d);
  return bd_gen_access(g, id, loops);
}

bool bd_gen_has_kind(const bd_gen *g, int first, int count, bd_op_kind kind) {
  for (int i = 0; i < count; i++)
    if (g->kernel->function->ops[first + i].kind == kind) return true;
  return false;
}

static bool has_kind(const bd_gen *g, const bd_gen_run *r, bd_op_kind kind) {
  return bd_gen_has_kind(g, r->first_op, r->op_count, kind);
}

bool bd_gen_run_has_dropout(const bd_gen *g, const bd_gen_run *r) {
  return has_kind(g, r, BD_OP_DROPOUT);
}

bool bd_gen_run_has_erf(const bd_gen *g, const bd_gen_run *r) {
  return has_kind(g, r, BD_OP_ERF) || has_kind(g, r, BD_OP_GELU_ERF) ||
         has_kind(g, r, BD_OP_GELU_ERF_GRAD);
}

static bd_access numbering(const bd_gen *g, const bd_type *type) {
  bd_access number = {0};
  int64_t stride = 1;
  for (int d = type->rank - 1; d > 0; d--) {
    number.stride[d] = stride;
    stride *= bd_extent(type->dims[d], g->kernel->module->micro_batch);
  }
  return number;
}

// The numbers of a list, as memory of the program holds them, addressed by logical indices.
static bd_access table_of(bd_gen *g, const bd_op *op, int number) {
  const bd_type *type = &g->kernel->function->values[op->out[0]].type;
  const bd_attr *values = bd_op_find_attr(op, "values");
  bd_access table = {.dtype = type->dtype, .aligned = 1};
  if (op->kind == BD_OP_IOTA) table.stride[bd_op_int(op, "dim", 0)] = 1;
  if (!values) return table;
  LLVMTypeRef element = bd_gen_dtype(g, type->dtype);
  LLVMValueRef *numbers = BD_NEW_ARRAY(g->ctx->arena, LLVMValueRef, values->count);
  for (int i = 0; i < values->count; i++)
    numbers[i] = bd_gen_narrow(g, type->dtype, bd_gen_constant(g, values, i, type->dtype));
  LLVMValueRef data = LLVMConstArray2(element, numbers, (uint64_t)values->count);
  table.base = LLVMAddGlobal(g->set->module, LLVMTypeOf(data),
                             bd_intern_f(g->ctx, "bdk_%d_values%d", g->number, number));
  LLVMSetInitializer(table.base, data);
  LLVMSetGlobalConstant(table.base, true);
  LLVMSetLinkage(table.base, LLVMInternalLinkage);
  table.valid = table.base;
  int64_t stride = 1;
  for (int d = type->rank - 1; d >= 0; d--) {
    LLVMValueRef first = LLVMBuildNSWMul(g->b, g->loop[d].start, bd_gen_long(g, stride), "");
    table.base = LLVMBuildGEP2(g->b, element, table.base, &first, 1, "");
    table.stride[d] = stride;
    stride *= type->dims[d];
  }
  return table;
}

static bool is_made(const bd_gen *g, const bd_gen_run *r, bd_id id) {
  int producer = g->kernel->function->values[id].producer;
  return producer >= r->first_op && producer < r->first_op + r->op_count;
}

static bool is_read(const bd_gen *g, const bd_gen_run *r, bd_id id) {
  for (int i = 0; i < r->op_count; i++) {
    const bd_op *op = &g->kernel->function->ops[r->first_op + i];
    if (bd_ids_find(op->in, op->in_count, id) >= 0) return true;
  }
  return false;
}

bd_gen_run bd_gen_run_open(bd_gen *g, int first, int count) {
  const bd_kernel *k = g->kernel;
  const bd_type *type = &k->function->values[k->function->ops[first].out[0]].type;
  int values = k->function->value_count;
  bd_gen_run r = {.first_op = first,
                  .op_count = count,
                  .access = BD_NEW_ARRAY(g->ctx->arena, bd_access, values),
                  .value = BD_NEW_ARRAY(g->ctx->arena, LLVMValueRef, values),
                  .exact = BD_NEW_ARRAY(g->ctx->arena, LLVMValueRef, values),
                  .table = BD_NEW_ARRAY(g->ctx->arena, bd_access, count),
                  .number = numbering(g, type),
                  .rank = type->rank};
  for (int i = 0; i < k->in_count; i++)
    if (is_read(g, &r, k->in[i])) r.access[k->in[i]] = access_of(g, k->in[i], r.rank);
  for (int i = 0; i < k->out_count; i++)
    if (is_made(g, &r, k->out[i])) r.access[k->out[i]] = access_of(g, k->out[i], r.rank);
  for (int i = 0; i < count; i++) {
    const bd_op *op = &k->function->ops[first + i];
    if (!op->in_count) r.table[i] = table_of(g, op, i);
  }
  return r;
}

int bd_gen_run_access_count(const bd_gen *g, const bd_gen_run *r) {
  return g->kernel->in_count + g->kernel->out_count + r->op_count + 1;
}

int bd_gen_run_accesses(const bd_gen *g, bd_gen_run *r, bd_access **out) {
  const bd_kernel *k = g->kernel;
  int count = 0;
  for (int i = 0; i < k->in_count + k->out_count; i++)
    out[count++] = &r->access[i < k->in_count ? k->in[i] : k->out[i - k->in_count]];
  for (int i = 0; i < r->op_count; i++)
    if (!k->function->ops[r->first_op + i].in_count) out[count++] = &r->table[i];
  if (bd_gen_run_has_dropout(g, r)) out[count++] = &r->number;
  return count;
}

bd_status bd_gen_run_close(bd_gen *g, const bd_gen_run *r) {
  if (!r->failed) return BD_OK;
  return bd_fail(g->ctx, BD_UNSUPPORTED, r->failed->loc, "no kernel for '%s' on %s",
                 bd_op_get_info(r->failed->kind)->name,
                 bd_dtype_name(g->kernel->function->values[r->failed->out[0]].type.dtype));
}

typedef struct work {
  bd_gen_run run;
  LLVMValueRef *fetched[BD_GEN_MOST_AHEAD]; // of the packs that a GPU's thread has on their way
} work;

static void fetch(bd_gen *g, void *user, int group) {
  work *w = user;
  bd_gen_run_fetch(g, &w->run, w->fetched[group]);
}

static void finish(bd_gen *g, void *user, int group) {
  work *w = user;
  bd_gen_run_compute(g, &w->run, w->fetched[group]);
  bd_gen_run_store(g, &w->run);
}

bd_status bd_gen_pointwise(bd_gen *g) {
  const bd_kernel *k = g->kernel;
  work w = {.run = bd_gen_run_open(g, k->first_op, k->op_count)};
  for (int i = 0; i < BD_GEN_MOST_AHEAD; i++)
    w.fetched[i] = BD_NEW_ARRAY(g->ctx->arena, LLVMValueRef, k->in_count + 1);
  bd_gen_run *r = &w.run;
  bd_access **accesses = BD_NEW_ARRAY(g->ctx->arena, bd_access *, bd_gen_run_access_count(g, r));
  int count = bd_gen_run_accesses(g, r, accesses);
  int operands = bd_gen_run_operands(g, r);
  bd_gen_points points = {.loops = r->rank,
                          .access_count = count,
                          .accesses = accesses,
                          .packs = true,
                          .random = bd_gen_run_has_dropout(g, r),
                          .ahead = BD_GEN_MOST_AHEAD / (operands ? operands : 1),
                          .bytes = operand_bytes(g, r),
                          .fetch = fetch,
                          .finish = finish,
                          .user = &w};
  for (int d = 0; d < r->rank; d++)
    points.order[d] = d;
  bd_gen_elementwise(g, &points);
  return bd_gen_run_close(g, r);
}
