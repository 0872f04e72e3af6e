#include "ir/passes/recover/push.h"
#include "ir/passes/recover/views.h"
#include <stdlib.h>
#include <string.h>

// A weight, as a whole or in part or in another shape.
static bool is_weight(const bd_function *function, bd_id id) {
  for (int depth = 0; depth < BD_MAX_RANK; ++depth) {
    int producer = function->values[id].producer;
    if (producer < 0) break;
    const bd_op *op = &function->ops[producer];
    if (op->kind != BD_OP_SLICE && op->kind != BD_OP_RESHAPE) return false;
    id = op->in[0];
  }
  return bd_function_is_weight(function, id);
}

static int by_start(const void *a, const void *b) {
  const int64_t *x = a, *y = b;
  return x[0] < y[0] ? -1 : x[0] > y[0];
}

// Whether the value is read by slices alone, of one dimension and without overlap.
static bool is_sliced_apart(const bd_edit *e, bd_id id) {
  int count = e->readers.first[id + 1] - e->readers.first[id];
  int64_t(*ranges)[2] = (int64_t(*)[2])BD_NEW_ARRAY(e->ctx->arena, int64_t, 2 * count);
  const int *readers = e->readers.ops + e->readers.first[id];
  if (e->readers.is_result[id] || count == 0) return false;
  for (int i = 0; i < count; ++i) {
    const bd_op *op = &e->from->ops[readers[i]];
    if (op->kind != BD_OP_SLICE || bd_op_int(op, "step", 1) != 1 ||
        bd_op_int(op, "dim", 0) != bd_op_int(&e->from->ops[readers[0]], "dim", 0))
      return false;
    ranges[i][0] = bd_op_int(op, "start", 0);
    ranges[i][1] = ranges[i][0] + bd_op_int(op, "size", 0);
  }
  qsort(ranges, (size_t)count, sizeof *ranges, by_start);
  for (int i = 1; i < count; ++i)
    if (ranges[i][0] < ranges[i - 1][1]) return false;
  return true;
}

// A product with a weight, and a bias that may be added to it.
typedef struct dense {
  const bd_op *product;
  bd_lettered in[2];
  char result[BD_MAX_RANK + 1];
  int weight; // which operand
  bd_id bias; // or BD_NO_ID
} dense;

static bool find_dense(const bd_edit *e, bd_id id, dense *out) {
  const bd_op *op = bd_edit_producer(e, id);
  out->bias = BD_NO_ID;
  if (op && op->kind == BD_OP_ADD) {
    int bias = is_weight(e->from, op->in[1]) ? 1 : 0;
    if (!is_weight(e->from, op->in[bias]) || bd_edit_reads(e, op->in[1 - bias]) != 1) return false;
    if (e->from->values[op->in[bias]].type.rank > e->from->values[op->in[1 - bias]].type.rank)
      return false;
    out->bias = op->in[bias];
    op = bd_edit_producer(e, op->in[1 - bias]);
  }
  if (!op || op->kind != BD_OP_CONTRACT ||
      !bd_split_rule(bd_op_string(op, "rule"), out->in, out->result))
    return false;
  out->product = op;
  out->weight = is_weight(e->from, op->in[1]) ? 1 : 0;
  for (int i = 0; i < 2; ++i)
    out->in[i].id = op->in[i];
  return is_weight(e->from, op->in[out->weight]);
}

static bool is_of_weight_alone(const dense *d, char letter) {
  return strchr(d->in[d->weight].letters, letter) && !strchr(d->in[1 - d->weight].letters, letter);
}

static bd_status emit_slice(bd_edit *e, const bd_op *like, int64_t dim, bd_id *id) {
  bd_attr attrs[] = {bd_attr_int(e->ctx, "dim", dim),
                     bd_attr_int(e->ctx, "start", bd_op_int(like, "start", 0)),
                     bd_attr_int(e->ctx, "size", bd_op_int(like, "size", 0))};
  return bd_edit_emit(e, BD_OP_SLICE, 1, id, 3, attrs, id);
}

// The product again, of operands that are made, by the letters that `d` now has; then the bias.
static bd_status emit_dense(bd_edit *e, const dense *d, const bd_id in[2], bd_id bias) {
  bd_id made;
  const bd_op *op = d->product;
  bd_attr *attrs = bd_arena_copy(e->ctx->arena, op->attrs, op->attr_count, sizeof *attrs);
  for (int i = 0; i < op->attr_count; ++i)
    if (strcmp(attrs[i].name, "rule") == 0)
      attrs[i] = bd_attr_string(
          e->ctx, "rule",
          bd_intern_f(e->ctx, "%s,%s->%s", d->in[0].letters, d->in[1].letters, d->result));
  BD_TRY(bd_edit_emit(e, BD_OP_CONTRACT, 2, in, op->attr_count, attrs, &made));
  if (bias != BD_NO_ID)
    BD_TRY(bd_edit_emit(e, BD_OP_ADD, 2, (bd_id[]){made, bias}, 0, NULL, &made));
  bd_edit_stand(e, e->from->ops[e->at].out[0], made);
  return BD_OK;
}

static bd_status push_slice(bd_edit *e, const bd_op *slice) {
  dense d;
  int64_t dim = bd_op_int(slice, "dim", 0);
  if (!is_sliced_apart(e, slice->in[0]) || !find_dense(e, slice->in[0], &d) ||
      !is_of_weight_alone(&d, d.result[dim]))
    return BD_OK;
  bd_id in[2], bias = BD_NO_ID;
  for (int i = 0; i < 2; ++i)
    in[i] = bd_edit_value(e, d.in[i].id);
  const char *letters = d.in[d.weight].letters;
  BD_TRY(emit_slice(e, slice, strchr(letters, d.result[dim]) - letters, &in[d.weight]));
  if (d.bias != BD_NO_ID) {
    bias = bd_edit_value(e, d.bias);
    int64_t own = dim - ((int64_t)strlen(d.result) - bd_edit_type(e, bias)->rank);
    if (own >= 0) BD_TRY(emit_slice(e, slice, own, &bias));
  }
  return emit_dense(e, &d, in, bias);
}

// Which dimensions of `to` make dimension i of `from`: those from first[i] on; none for an extent
// of 1 that goes.
static bool find_parts(const bd_type *from, const bd_type *to, int *first) {
  int at = 0;
  for (int d = 0; d < from->rank; ++d) {
    int64_t product = 1;
    first[d] = at;
    while (product != from->dims[d]) {
      if (at == to->rank) return false;
      int64_t extent = to->dims[at++];
      if (extent == BD_DIM_BATCH) {
        if (product != 1 || from->dims[d] != BD_DIM_BATCH) return false;
        product = BD_DIM_BATCH;
      } else {
        product *= extent;
        if (from->dims[d] == BD_DIM_BATCH || from->dims[d] % product != 0) return false;
      }
    }
  }
  first[from->rank] = at;
  return at == to->rank;
}

// Letters and extents of one tensor while its dimensions are parted.
typedef struct spelled {
  int rank;
  char letters[BD_MAX_RANK + 1];
  int64_t dims[BD_MAX_RANK];
} spelled;

static bool spell(spelled *s, char letter, int64_t extent) {
  if (s->rank == BD_MAX_RANK) return false;
  s->dims[s->rank] = extent;
  s->letters[s->rank++] = letter;
  s->letters[s->rank] = '\0';
  return true;
}

// The letters of a result's dimension `i` once it is parted: its own first, then free ones.
typedef struct parted {
  int first[BD_MAX_RANK + 1]; // of its parts in the new result
  char letters[BD_MAX_RANK + 1];
} parted;

static bool name_parts(const dense *d, const bd_type *from, const bd_type *to, parted *out) {
  char next = 'a';
  if (!find_parts(from, to, out->first)) return false;
  for (int i = 0; i < from->rank; ++i) {
    int count = out->first[i + 1] - out->first[i];
    if (count != 1 && !is_of_weight_alone(d, d->result[i])) return false;
    for (int k = out->first[i]; k < out->first[i + 1]; ++k) {
      while (strchr(d->in[0].letters, next) || strchr(d->in[1].letters, next))
        ++next;
      out->letters[k] = k == out->first[i] ? d->result[i] : next++;
    }
  }
  out->letters[to->rank] = '\0';
  return next <= 'z' + 1;
}

// The weight with the dimensions that the result's parts are made of.
static bool part_weight(const dense *d, const parted *p, const bd_type *to, const bd_type *type,
                        spelled *out) {
  const char *letters = d->in[d->weight].letters;
  for (int w = 0; letters[w]; ++w) {
    const char *at = strchr(d->result, letters[w]);
    int i = at ? (int)(at - d->result) : -1;
    if (i < 0 && !spell(out, letters[w], type->dims[w])) return false;
    for (int k = i < 0 ? 0 : p->first[i]; i >= 0 && k < p->first[i + 1]; ++k)
      if (!spell(out, p->letters[k], to->dims[k])) return false;
  }
  return true;
}

static bd_status push_reshape(bd_edit *e, const bd_op *reshape) {
  dense d;
  parted p;
  spelled weight = {0};
  const bd_type *from = &e->from->values[reshape->in[0]].type;
  const bd_type to = e->from->values[reshape->out[0]].type;
  if (bd_edit_reads(e, reshape->in[0]) != 1 || !find_dense(e, reshape->in[0], &d) ||
      !name_parts(&d, from, &to, &p) ||
      !part_weight(&d, &p, &to, &e->from->values[d.in[d.weight].id].type, &weight))
    return BD_OK;
  bd_id in[2], bias = BD_NO_ID;
  for (int i = 0; i < 2; ++i)
    in[i] = bd_edit_value(e, d.in[i].id);
  BD_TRY(bd_emit_reshaped(e, weight.rank, weight.dims, &in[d.weight]));
  memcpy(d.in[d.weight].letters, weight.letters, sizeof weight.letters);
  memcpy(d.result, p.letters, sizeof p.letters);
  if (d.bias != BD_NO_ID) {
    bias = bd_edit_value(e, d.bias);
    int first = p.first[from->rank - bd_edit_type(e, bias)->rank];
    BD_TRY(bd_emit_reshaped(e, to.rank - first, to.dims + first, &bias));
  }
  return emit_dense(e, &d, in, bias);
}

// slice(permute(x)) as permute(slice(x)).
static bd_status turn_slice(bd_edit *e, const bd_op *slice, const bd_op *permute) {
  const char *rule = bd_op_string(permute, "rule"), *arrow = strstr(rule, "->");
  if (strchr(rule, '|') || !is_sliced_apart(e, slice->in[0])) return BD_OK;
  int64_t dim = strchr(rule, arrow[2 + bd_op_int(slice, "dim", 0)]) - rule;
  bd_id made = bd_edit_value(e, permute->in[0]);
  bd_attr attr = bd_attr_string(e->ctx, "rule", rule);
  BD_TRY(emit_slice(e, slice, dim, &made));
  BD_TRY(bd_edit_emit(e, BD_OP_PERMUTE, 1, &made, 1, &attr, &made));
  bd_edit_stand(e, slice->out[0], made);
  return BD_OK;
}

bd_status bd_push_to_weights(bd_edit *e, const void *user) {
  (void)user;
  const bd_op *op = &e->from->ops[e->at];
  const bd_op *before = op->in_count > 0 ? bd_edit_producer(e, op->in[0]) : NULL;
  if (!before) return BD_OK;
  if (op->kind == BD_OP_RESHAPE) return push_reshape(e, op);
  if (op->kind != BD_OP_SLICE) return BD_OK;
  return before->kind == BD_OP_PERMUTE ? turn_slice(e, op, before) : push_slice(e, op);
}

// The letters of what a reshape has parted, joined: each of `from`'s dimensions has the first of
// its parts' letters. False: the weight does not have the parts side by side.
static bool join_letters(const dense *d, const parted *p, int rank, const bd_type *weight,
                         spelled *out_x, spelled *out_weight) {
  const char *x = d->in[1 - d->weight].letters, *letters = d->in[d->weight].letters;
  for (int i = 0; i < rank; ++i)
    if (p->first[i + 1] == p->first[i] || !spell(out_x, x[p->first[i]], 0)) return false;
  for (int w = 0; letters[w]; ++w) {
    const char *at = strchr(x, letters[w]);
    int i = 0, count;
    while (at && p->first[i + 1] <= at - x)
      ++i;
    count = at ? p->first[i + 1] - p->first[i] : 1;
    if (count > 1 && (at - x != p->first[i] || strncmp(letters + w, at, (size_t)count) != 0))
      return false;
    int64_t extent = 1;
    for (int k = 0; k < count; ++k) {
      if (count > 1 && strchr(d->result, letters[w + k])) return false;
      extent *= weight->dims[w + k];
    }
    if (!spell(out_weight, letters[w], extent)) return false;
    w += count - 1;
  }
  return true;
}

bd_status bd_join_with_weights(bd_edit *e, const void *user) {
  (void)user;
  const bd_op *op = &e->from->ops[e->at];
  dense d;
  parted p;
  if (op->kind != BD_OP_CONTRACT || !find_dense(e, op->out[0], &d)) return BD_OK;
  const bd_op *reshape = bd_edit_producer(e, op->in[1 - d.weight]);
  if (!reshape || reshape->kind != BD_OP_RESHAPE) return BD_OK;
  const bd_type *from = &e->from->values[reshape->in[0]].type;
  const bd_type *to = &e->from->values[reshape->out[0]].type;
  const bd_type *weight = &e->from->values[op->in[d.weight]].type;
  spelled x = {0}, w = {0};
  if (!find_parts(from, to, p.first) || !join_letters(&d, &p, from->rank, weight, &x, &w) ||
      w.rank == weight->rank)
    return BD_OK;
  // A part of extent B stands alone, so that every joined extent is a number.
  bd_id in[2];
  in[1 - d.weight] = bd_edit_value(e, reshape->in[0]);
  in[d.weight] = bd_edit_value(e, op->in[d.weight]);
  BD_TRY(bd_emit_reshaped(e, w.rank, w.dims, &in[d.weight]));
  memcpy(d.in[1 - d.weight].letters, x.letters, sizeof x.letters);
  memcpy(d.in[d.weight].letters, w.letters, sizeof w.letters);
  return emit_dense(e, &d, in, BD_NO_ID);
}
