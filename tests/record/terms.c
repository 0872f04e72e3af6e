#include "tests/record/terms.h"

#include "runtime/braid_rt_abi.h"

#include <string.h>

static const record_kind kind_of_op[BD_OP_KIND_COUNT] = {
    [BD_OP_CONTRACT] = RECORD_MATMUL,
    [BD_OP_GROUPED_CONTRACT] = RECORD_GROUPED_ROWS,
    [BD_OP_GROUPED_CONTRACT_DW] = RECORD_GROUPED_WEIGHTS,
    [BD_OP_EMBED_DW] = RECORD_EMBED_DW,
    [BD_OP_CONV] = RECORD_CONV,
    [BD_OP_CONV_DX] = RECORD_CONV_DX,
    [BD_OP_CONV_DW] = RECORD_CONV_DW,
    [BD_OP_MAXPOOL] = RECORD_MAXPOOL,
    [BD_OP_MAXPOOL_GRAD] = RECORD_MAXPOOL_GRAD,
    [BD_OP_ALL_REDUCE] = RECORD_ALL_REDUCE,
    [BD_OP_ALL_GATHER] = RECORD_ALL_GATHER,
    [BD_OP_REDUCE_SCATTER] = RECORD_REDUCE_SCATTER,
    [BD_OP_ALL_TO_ALL] = RECORD_ALL_TO_ALL,
    [BD_OP_SHARD] = RECORD_SHARD,
    [BD_OP_MIRROR] = RECORD_MIRROR,
    [BD_OP_SEND] = RECORD_SEND,
    [BD_OP_RECV] = RECORD_RECEIVE,
};

record_kind record_kind_of(bd_op_kind kind) {
  return kind_of_op[kind];
}

static bd_type local_type(const bd_module *m, const bd_value *value) {
  return bd_local_type(&m->mesh, &value->sharding, &value->type, m->micro_batch);
}

int64_t record_value_bytes(const bd_module *module, const bd_value *value) {
  const bd_type local = local_type(module, value);
  return bd_type_elements(&local, module->micro_batch) * bd_dtype_bytes(local.dtype);
}

static int64_t product(const bd_type *type, int from, int to) {
  int64_t elements = 1;
  for (int d = from; d < to; d++)
    elements *= type->dims[d];
  return elements;
}

static int combiner_of(const bd_op *op) {
  const char *const name = bd_op_string(op, "combiner");
  return strcmp(name, "sum") == 0 ? BD_RT_SUM : strcmp(name, "max") == 0 ? BD_RT_MAX : BD_RT_LSE;
}

// The tensor around the dimensions that are split: `in` and `out` are local, each whole where the
// other is split.
static void shape_of(const bd_op *op, const bd_type *in, const bd_type *out, record_terms *terms) {
  const int from = (int)bd_op_int(op, "from", -1), to = (int)bd_op_int(op, "to", -1);
  const int dim = (int)bd_op_int(op, "dim", -1), rank = in->rank;
  const bd_type *const whole = op->kind == BD_OP_ALL_GATHER ? out : in;
  bd_type both = *in;
  if (op->kind != BD_OP_ALL_TO_ALL) {
    const int64_t shape[] = {product(whole, 0, dim), whole->dims[dim],
                             product(whole, dim + 1, rank)};
    memcpy(terms->shape, shape, sizeof shape);
    return;
  }
  both.dims[from] = out->dims[from];
  const int first = from < to ? from : to, second = from < to ? to : from;
  const int64_t shape[] = {product(&both, 0, first), both.dims[first],
                           product(&both, first + 1, second), both.dims[second],
                           product(&both, second + 1, rank)};
  memcpy(terms->shape, shape, sizeof shape);
  terms->swapped = to == second;
}

record_terms record_terms_of(const bd_module *m, const bd_function *f, const bd_op *op) {
  record_terms t = {.kind = record_kind_of(op->kind)};
  const bd_value *const value = &f->values[op->in_count ? op->in[0] : op->out[0]];
  const bd_type in = local_type(m, value);
  if (op->kind == BD_OP_SEND || op->kind == BD_OP_RECV)
    return (record_terms){.kind = RECORD_SEND,
                          .tag = (int)bd_op_int(op, "tag", 0),
                          .shape = {record_value_bytes(m, value)}};
  if (!record_is_collective(t.kind)) return t;
  t.dtype = (int)in.dtype;
  if (op->kind == BD_OP_ALL_REDUCE) {
    t.combiner = combiner_of(op);
    t.shape[0] = product(&in, 0, in.rank);
    return t;
  }
  if (op->kind == BD_OP_MIRROR) {
    t.shape[0] = product(&in, 0, in.rank);
    return t;
  }
  const bd_type out = local_type(m, &f->values[op->out[0]]);
  shape_of(op, &in, &out, &t);
  return t;
}
