#include "ir/columns.h"
#include <string.h>

enum {
  ENOUGH = 256,  // groups of columns: as many blocks leave few multiprocessors without one
  BLOCKS = 1024, // that the chunks of fewer groups are to make: eight for each of 128
  WIDE = 16,     // bytes, of which a thread reads four rows at once, of NARROW eight
  NARROW = 4,
  SECTOR = 32,
  LINE = BD_COLUMN_LINE * WIDE,
  WIDE_ROWS = 128, // of a chunk, at least: what 32 threads read at once
  NARROW_ROWS = 256,
  FEW_ROWS = 512, // fewer are not worth a second kernel
};

static const bd_type *operand_type(const bd_function *function, const bd_op *op) {
  return &function->values[op->in[0]].type;
}

// Whether the last dimension of what is summed stays.
static bool keeps_last(const bd_op *op) {
  const char *rule = bd_op_string(op, "rule"), *kept = strstr(rule, "->");
  return kept > rule && strchr(kept + 2, kept[-1]);
}

bool bd_sums_columns(const bd_function *function, const bd_op *op) {
  if (op->kind == BD_OP_LAYERNORM_DW || op->kind == BD_OP_RMSNORM_DW ||
      op->kind == BD_OP_SINKS_GRAD)
    return true;
  return op->kind == BD_OP_REDUCE_SUM && operand_type(function, op)->rank > 0 &&
         bd_dtype_wide(operand_type(function, op)->dtype) == BD_F32 && keeps_last(op);
}

static int64_t elements_of(const bd_type *local) {
  int64_t elements = 1;
  for (int d = 0; d < local->rank; d++)
    elements *= local->dims[d];
  return elements;
}

// A product may also make the gradient of a bias of what it reads (codegen/epilogue.h), at its own
// step, where there is no scratch. Other sums are cut whatever else a function has: what backward
// computes again has forward's bits.
static bool product_may_sum(const bd_function *function, const bd_op *sum) {
  if (sum->kind != BD_OP_REDUCE_SUM || function->role != BD_ROLE_BACKWARD ||
      bd_ids_find(function->results, function->result_count, sum->out[0]) < 0 ||
      function->values[sum->out[0]].type.dtype != BD_F32)
    return false;
  for (int i = 0; i < function->op_count; i++) {
    const bd_op *op = &function->ops[i];
    if (op->kind == BD_OP_CONTRACT && bd_ids_find(op->in, op->in_count, sum->in[0]) >= 0)
      return true;
  }
  return false;
}

// Groups of columns, one for a block, whose threads side by side read `bytes` of a row.
static int64_t groups_of(const bd_type *in, const bd_type *out, int64_t bytes) {
  int64_t columns = in->dims[in->rank - 1], along = bytes / bd_dtype_bytes(in->dtype);
  return elements_of(out) / columns * ((columns + along - 1) / along);
}

static int64_t chunks_of(const bd_function *function, const bd_op *op, const bd_type *in,
                         const bd_type *out, int64_t bytes) {
  int64_t rows = elements_of(in) / elements_of(out);
  int64_t groups = groups_of(in, out, bytes), wanted = (BLOCKS + groups - 1) / groups;
  if (groups >= ENOUGH || rows < FEW_ROWS || product_may_sum(function, op)) return 1;
  int64_t most = rows / (bytes == SECTOR ? NARROW_ROWS : WIDE_ROWS);
  return wanted < most ? wanted : most;
}

int64_t bd_column_bytes(const bd_module *module, const bd_function *function, const bd_op *op) {
  bd_type in = bd_value_local_type(module, &function->values[op->in[0]]);
  const bd_type *whole = operand_type(function, op);
  int64_t part = in.dims[in.rank - 1], bytes = bd_dtype_bytes(in.dtype);
  int64_t columns = bd_extent(whole->dims[in.rank - 1], module->micro_batch);
  // Parts begin at multiples of their extent; the last ends where the row does.
  return part * bytes % WIDE == 0 && columns * bytes % WIDE == 0 ? WIDE : NARROW;
}

int bd_column_threads(const bd_module *module, const bd_function *function, const bd_op *op) {
  bd_type in = bd_value_local_type(module, &function->values[op->in[0]]);
  bd_type out = bd_value_local_type(module, &function->values[op->out[0]]);
  int64_t bytes = bd_column_bytes(module, function, op);
  if (bytes == NARROW || elements_of(&out) == 0) return (int)(SECTOR / bytes);
  bool enough = groups_of(&in, &out, LINE) >= ENOUGH;
  return enough || chunks_of(function, op, &in, &out, LINE) > 1 ? BD_COLUMN_LINE : SECTOR / WIDE;
}

int64_t bd_column_chunks(const bd_module *module, const bd_function *function, const bd_op *op) {
  if (!bd_sums_columns(function, op)) return 0;
  bd_type in = bd_value_local_type(module, &function->values[op->in[0]]);
  bd_type out = bd_value_local_type(module, &function->values[op->out[0]]);
  if (!module->cuda || elements_of(&out) == 0 || in.dims[in.rank - 1] == 0) return 1;
  int64_t bytes = bd_column_bytes(module, function, op);
  return chunks_of(function, op, &in, &out, bytes * bd_column_threads(module, function, op));
}

int64_t bd_column_chunk_bytes(const bd_module *module, const bd_function *function,
                              const bd_op *op) {
  int64_t chunks = bd_column_chunks(module, function, op), sums = 0;
  for (int i = 0; chunks > 1 && i < op->out_count; i++) {
    bd_type out = bd_value_local_type(module, &function->values[op->out[i]]);
    sums += elements_of(&out);
  }
  return chunks > 1 ? chunks * sums * bd_dtype_bytes(BD_F64) : 0;
}
