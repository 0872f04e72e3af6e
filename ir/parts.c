#include "ir/parts.h"
#include "ir/fuse.h"
#include <string.h>

static const bd_parts whole = {.count = 1, .collective = -1, .sum = -1};

bool bd_parts_valid(int64_t count) {
  return count > 0 && count <= BD_MAX_PARTS && (count & (count - 1)) == 0;
}

// The one op that reads the value, or -1 where it outlives the function or others read it, too.
static int only_reader(const bd_function *f, bd_id value) {
  int found = -1, readers = 0;
  for (int i = 0; i < f->op_count; ++i)
    for (int k = 0; k < f->ops[i].in_count; ++k)
      if (f->ops[i].in[k] == value) {
        found = i;
        readers++;
      }
  for (int i = 0; i < f->result_count; ++i)
    readers += f->results[i] == value;
  for (int i = 0; i < f->save_count; ++i)
    readers += f->saves[i] == value;
  return readers == 1 ? found : -1;
}

static bool alike(const bd_function *f, bd_id a, bd_id b) {
  const bd_value *x = &f->values[a], *y = &f->values[b];
  return bd_type_equal(&x->type, &y->type) && bd_sharding_equal(&x->sharding, &y->sharding);
}

static bool sums_over_ranks(const bd_module *module, const bd_function *f, const bd_op *op) {
  int axis = (int)bd_op_int(op, "axis", -1);
  return (op->kind == BD_OP_ALL_REDUCE || op->kind == BD_OP_REDUCE_SCATTER) &&
         f->values[op->in[0]].sharding.at[axis] == BD_PARTIAL_SUM && module->mesh.size[axis] > 1 &&
         !bd_accumulates(f, op->out[0]);
}

static bool find_collective(const bd_module *module, const bd_function *f, const bd_op *product,
                            bd_parts *out) {
  int reader = only_reader(f, product->out[0]);
  if (reader >= 0 && f->ops[reader].kind == BD_OP_ADD &&
      f->ops[reader].in[0] != f->ops[reader].in[1] &&
      alike(f, f->ops[reader].in[0], f->ops[reader].in[1]) &&
      alike(f, f->ops[reader].out[0], product->out[0])) {
    out->sum = reader;
    reader = only_reader(f, f->ops[reader].out[0]);
  }
  out->collective = reader;
  return reader >= 0 && sums_over_ranks(module, f, &f->ops[reader]);
}

static bool divides_evenly(const bd_module *module, const bd_value *value, int dim) {
  int parts = bd_sharding_parts(&module->mesh, &value->sharding, dim);
  return bd_extent(value->type.dims[dim], module->micro_batch) % parts == 0;
}

// Leading dimensions of the result that one factor leads with as well and the other lacks.
static int find_prefix(const bd_module *module, const bd_function *f, const bd_op *op,
                       int *out_factor) {
  const char *rule = bd_op_string(op, "rule"), *comma = strchr(rule, ','),
             *result = strchr(rule, '>') + 1;
  const char *factors[] = {rule, comma + 1}, *ends[] = {comma, result - 2};
  const bd_value *value = &f->values[op->out[0]];
  for (int first = 0; first < 2; ++first) {
    *out_factor = first;
    const char *factor = factors[first], *other = factors[!first];
    size_t other_length = (size_t)(ends[!first] - other);
    int count = 0;
    while (count < value->type.rank && factor + count < ends[first] &&
           factor[count] == result[count] && !memchr(other, result[count], other_length) &&
           divides_evenly(module, value, count))
      count++;
    if (count > 0) return count;
  }
  return 0;
}

static int64_t extents(const bd_type *type, int from, int to) {
  int64_t product = 1;
  for (int d = from; d < to; ++d)
    product *= type->dims[d];
  return product;
}

// What a part takes of each sample, or how many samples it has.
static bool cut(bd_parts *p, int64_t rows, int count) {
  p->count = count;
  p->chunks = count % p->samples == 0 ? count / p->samples : 1;
  p->runs = count % p->samples == 0 ? 1 : p->samples / count;
  p->rows = rows / p->samples / p->blocks / p->chunks;
  return p->runs * p->count == p->samples * p->chunks &&
         p->rows * p->chunks * p->blocks * p->samples == rows && p->rows > 0;
}

bd_parts bd_parts_of(const bd_module *module, const bd_function *f, int product, int count) {
  const bd_op *op = &f->ops[product];
  bd_parts out = whole;
  if (!module->cuda || count == 1 || op->kind != BD_OP_CONTRACT || bd_op_find_attr(op, "fp8") ||
      !find_collective(module, f, op, &out))
    return whole;
  const bd_op *collective = &f->ops[out.collective];
  const bd_value *value = &f->values[op->out[0]];
  bd_type local = bd_value_local_type(module, value);
  out.prefix = find_prefix(module, f, op, &out.factor);
  out.samples = out.blocks = 1;
  if (collective->kind == BD_OP_REDUCE_SCATTER) {
    int axis = (int)bd_op_int(collective, "axis", -1), dim = (int)bd_op_int(collective, "dim", -1);
    if (dim >= out.prefix) return whole;
    out.samples = extents(&local, 0, dim);
    out.blocks = module->mesh.size[axis];
    if (local.dims[dim] % out.blocks) return whole;
  }
  out.columns = extents(&local, out.prefix, local.rank);
  if (!cut(&out, extents(&local, 0, out.prefix), count)) return whole;
  // What is added to the product lies in the order of its rows.
  if (out.sum >= 0 && out.blocks > 1 && (out.chunks > 1 || out.runs > 1)) return whole;
  return out;
}

bd_parts bd_parts_asked(const bd_module *module, const bd_function *f, int product) {
  int64_t count = bd_op_int(&f->ops[product], BD_PARTS_ATTR, 1);
  return bd_parts_of(module, f, product, bd_parts_valid(count) ? (int)count : 1);
}
