#include "ir/module.h"
#include <assert.h>
#include <string.h>

static const bd_op_info table[BD_OP_KIND_COUNT] = {
#define BD_OP(NAME, spelling, in, out, level, rule, traits)                                        \
  [BD_OP_##NAME] = {#spelling, in, out, level, rule, traits},
#include "ir/ops.def"
#undef BD_OP
};

const bd_op_info *bd_op_get_info(bd_op_kind kind) {
  assert(kind < BD_OP_KIND_COUNT);
  return &table[kind];
}

bool bd_op_find(const char *name, bd_op_kind *out_kind) {
  for (int i = 0; i < BD_OP_KIND_COUNT; ++i) {
    if (strcmp(table[i].name, name) == 0) {
      *out_kind = (bd_op_kind)i;
      return true;
    }
  }
  return false;
}

bool bd_op_is_grouped(bd_op_kind kind) {
  return kind == BD_OP_GROUPED_CONTRACT || kind == BD_OP_GROUPED_CONTRACT_DW;
}

bool bd_op_is_product(bd_op_kind kind) {
  return kind == BD_OP_CONTRACT || bd_op_is_grouped(kind);
}

bool bd_op_is_attention(bd_op_kind kind) {
  return kind == BD_OP_ATTENTION || kind == BD_OP_SINK_ATTENTION ||
         kind == BD_OP_RELATIVE_ATTENTION;
}

bool bd_op_is_attention_grad(bd_op_kind kind) {
  return kind == BD_OP_ATTENTION_GRAD || kind == BD_OP_RELATIVE_ATTENTION_GRAD;
}

bool bd_op_attends(bd_op_kind kind) {
  return bd_op_is_attention(kind) || bd_op_is_attention_grad(kind);
}

bd_attr bd_attr_int(bd_ctx *ctx, const char *name, int64_t value) {
  return (bd_attr){
      .name = bd_intern_z(ctx, name), .kind = BD_ATTR_INT, .integer = value, .real = (double)value};
}

bd_attr bd_attr_real(bd_ctx *ctx, const char *name, double value) {
  return (bd_attr){.name = bd_intern_z(ctx, name), .kind = BD_ATTR_REAL, .real = value};
}

bd_attr bd_attr_string(bd_ctx *ctx, const char *name, const char *value) {
  return (bd_attr){
      .name = bd_intern_z(ctx, name), .kind = BD_ATTR_STRING, .string = bd_intern_z(ctx, value)};
}

bd_attr bd_attr_ints(bd_ctx *ctx, const char *name, int count, const int64_t *values) {
  int64_t *ints = BD_NEW_ARRAY(ctx->arena, int64_t, count);
  if (count > 0) memcpy(ints, values, (size_t)count * sizeof *ints);
  return (bd_attr){
      .name = bd_intern_z(ctx, name), .kind = BD_ATTR_INTS, .ints = ints, .count = count};
}

bd_attr bd_attr_reals(bd_ctx *ctx, const char *name, int count, const double *values) {
  double *reals = BD_NEW_ARRAY(ctx->arena, double, count);
  if (count > 0) memcpy(reals, values, (size_t)count * sizeof *reals);
  return (bd_attr){
      .name = bd_intern_z(ctx, name), .kind = BD_ATTR_REALS, .reals = reals, .count = count};
}

const bd_attr *bd_op_find_attr(const bd_op *op, const char *name) {
  for (int i = 0; i < op->attr_count; ++i)
    if (strcmp(op->attrs[i].name, name) == 0) return &op->attrs[i];
  return NULL;
}

int64_t bd_op_int(const bd_op *op, const char *name, int64_t absent) {
  const bd_attr *attr = bd_op_find_attr(op, name);
  return attr && attr->kind == BD_ATTR_INT ? attr->integer : absent;
}

double bd_op_real(const bd_op *op, const char *name, double absent) {
  const bd_attr *attr = bd_op_find_attr(op, name);
  if (attr && attr->kind == BD_ATTR_REAL) return attr->real;
  return attr && attr->kind == BD_ATTR_INT ? (double)attr->integer : absent;
}

const char *bd_op_string(const bd_op *op, const char *name) {
  const bd_attr *attr = bd_op_find_attr(op, name);
  return attr && attr->kind == BD_ATTR_STRING ? attr->string : NULL;
}

void bd_op_drop_attr(bd_ctx *ctx, bd_op *op, const char *name) {
  if (!bd_op_find_attr(op, name)) return;
  bd_attr *rest = BD_NEW_ARRAY(ctx->arena, bd_attr, op->attr_count);
  int count = 0;
  for (int i = 0; i < op->attr_count; ++i)
    if (strcmp(op->attrs[i].name, name)) rest[count++] = op->attrs[i];
  op->attrs = rest;
  op->attr_count = count;
}

void bd_op_set_attr(bd_ctx *ctx, bd_op *op, bd_attr attr) {
  for (int i = 0; i < op->attr_count; ++i) {
    if (strcmp(op->attrs[i].name, attr.name) == 0) {
      op->attrs[i] = attr;
      return;
    }
  }
  size_t count = (size_t)op->attr_count;
  op->attrs = bd_arena_grow(ctx->arena, op->attrs, count, count + 1, sizeof *op->attrs);
  op->attrs[op->attr_count++] = attr;
}
