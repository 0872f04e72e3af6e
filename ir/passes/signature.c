#include "ir/passes/signature.h"

#include <string.h>

uint64_t bd_hash_bytes(uint64_t hash, const void *data, size_t bytes) {
  const unsigned char *each = data;
  for (size_t i = 0; i < bytes; ++i)
    hash = (hash ^ each[i]) * 0x100000001b3u;
  return hash ^ (hash >> 31);
}

static uint64_t hash_attr(const bd_attr *attr) {
  uint64_t hash = bd_hash_bytes(BD_HASH_START, attr->name, strlen(attr->name));
  hash = bd_hash_bytes(hash, &attr->kind, sizeof attr->kind);
  switch (attr->kind) {
  case BD_ATTR_INT:
    return bd_hash_bytes(hash, &attr->integer, sizeof attr->integer);
  case BD_ATTR_REAL:
    return bd_hash_bytes(hash, &attr->real, sizeof attr->real);
  case BD_ATTR_STRING:
    return bd_hash_bytes(hash, attr->string, strlen(attr->string));
  case BD_ATTR_INTS:
    return bd_hash_bytes(hash, attr->ints, (size_t)attr->count * sizeof *attr->ints);
  case BD_ATTR_REALS:
    return bd_hash_bytes(hash, attr->reals, (size_t)attr->count * sizeof *attr->reals);
  }
  return hash;
}

bool bd_attr_equal(const bd_attr *a, const bd_attr *b) {
  if (a->kind != b->kind) return false;
  switch (a->kind) {
  case BD_ATTR_INT:
    return a->integer == b->integer;
  case BD_ATTR_REAL:
    return memcmp(&a->real, &b->real, sizeof a->real) == 0;
  case BD_ATTR_STRING:
    return strcmp(a->string, b->string) == 0;
  case BD_ATTR_INTS:
    return a->count == b->count &&
           (a->count == 0 || memcmp(a->ints, b->ints, (size_t)a->count * sizeof *a->ints) == 0);
  case BD_ATTR_REALS:
    return a->count == b->count &&
           memcmp(a->reals, b->reals, (size_t)a->count * sizeof *a->reals) == 0;
  }
  return false;
}

static bool counts(const bd_attr *attr, bool with_site) {
  return with_site || strcmp(attr->name, "site") != 0;
}

static uint64_t hash_type(uint64_t hash, const bd_type *type) {
  hash = bd_hash_bytes(hash, &type->dtype, sizeof type->dtype);
  return bd_hash_bytes(hash, type->dims, (size_t)type->rank * sizeof *type->dims);
}

uint64_t bd_op_signature(const bd_function *function, const bd_op *op, bool with_site) {
  uint64_t hash = bd_hash_bytes(BD_HASH_START, &op->kind, sizeof op->kind), attrs = 0;
  for (int i = 0; i < op->attr_count; ++i)
    if (counts(&op->attrs[i], with_site)) attrs += hash_attr(&op->attrs[i]);
  hash = bd_hash_bytes(hash, &attrs, sizeof attrs);
  for (int i = 0; i < op->in_count; ++i)
    hash = hash_type(hash, &function->values[op->in[i]].type);
  for (int i = 0; i < op->out_count; ++i)
    hash = hash_type(hash, &function->values[op->out[i]].type);
  return hash;
}

static bool types_equal(const bd_function *function, const bd_id *a, const bd_id *b, int count) {
  for (int i = 0; i < count; ++i)
    if (!bd_type_equal(&function->values[a[i]].type, &function->values[b[i]].type)) return false;
  return true;
}

bool bd_op_alike(const bd_function *function, const bd_op *a, const bd_op *b, bool with_site) {
  if (a->kind != b->kind || a->attr_count != b->attr_count) return false;
  if (a->in_count != b->in_count || a->out_count != b->out_count) return false;
  for (int i = 0; i < a->attr_count; ++i) {
    const bd_attr *other = bd_op_find_attr(b, a->attrs[i].name);
    if (!other) return false;
    if (counts(other, with_site) && !bd_attr_equal(&a->attrs[i], other)) return false;
  }
  return types_equal(function, a->in, b->in, a->in_count) &&
         types_equal(function, a->out, b->out, a->out_count);
}
