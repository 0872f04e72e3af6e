#include "ir/passes/recover/views.h"
#include <string.h>

static bool take_letters(const char **at, char end, char *out) {
  size_t length = strcspn(*at, end == '-' ? "-" : ",");
  if (length > BD_MAX_RANK || !(*at)[length]) return false;
  memcpy(out, *at, length);
  out[length] = '\0';
  *at += length + 1;
  return true;
}

bool bd_split_rule(const char *rule, bd_lettered in[2], char result[BD_MAX_RANK + 1]) {
  if (!rule || strchr(rule, '|') || !take_letters(&rule, ',', in[0].letters) ||
      !take_letters(&rule, '-', in[1].letters) || *rule != '>' || strlen(rule + 1) > BD_MAX_RANK)
    return false;
  memcpy(result, rule + 1, strlen(rule + 1) + 1);
  return true;
}

bool bd_strip_view(const bd_edit *e, const char *keeps, bd_lettered *value) {
  const bd_op *op = bd_edit_producer(e, value->id);
  if (!op || (op->kind != BD_OP_PERMUTE && op->kind != BD_OP_BROADCAST)) return false;
  const char *rule = bd_op_string(op, "rule"), *arrow = strstr(rule, "->");
  size_t from = (size_t)(arrow - rule), to = strlen(arrow + 2);
  if (strchr(rule, '|') || to != strlen(value->letters)) return false;
  char letters[BD_MAX_RANK + 1] = {0};
  for (size_t i = 0; i < to; ++i) {
    const char *at = memchr(rule, arrow[2 + i], from);
    if (at)
      letters[at - rule] = value->letters[i];
    else if (!strchr(keeps, value->letters[i]))
      return false;
  }
  memcpy(value->letters, letters, sizeof letters);
  value->id = op->in[0];
  return true;
}

bd_status bd_emit_turned(bd_edit *e, const char *letters, const char *wanted, bd_id *id) {
  if (strcmp(letters, wanted) == 0) return BD_OK;
  char rule[2 * BD_MAX_RANK + 3], *at = rule;
  for (size_t i = 0; letters[i]; ++i)
    *at++ = (char)('a' + i);
  *at++ = '-';
  *at++ = '>';
  for (; *wanted; ++wanted)
    *at++ = (char)('a' + (strchr(letters, *wanted) - letters));
  *at = '\0';
  bd_attr attr = bd_attr_string(e->ctx, "rule", rule);
  return bd_edit_emit(e, BD_OP_PERMUTE, 1, id, 1, &attr, id);
}

bd_status bd_emit_reshaped(bd_edit *e, int rank, const int64_t *dims, bd_id *id) {
  const bd_type *type = bd_edit_type(e, *id);
  if (type->rank == rank && memcmp(type->dims, dims, (size_t)rank * sizeof *dims) == 0)
    return BD_OK;
  bd_attr attr = bd_attr_ints(e->ctx, "dims", rank, dims);
  return bd_edit_emit(e, BD_OP_RESHAPE, 1, id, 1, &attr, id);
}

// A rule of what both operands have and the result: letters that an operand may lack.
static void find_kept(const char *other, const char *result, char *out) {
  for (; *other; ++other)
    if (strchr(result, *other)) *out++ = *other;
  *out = '\0';
}

bd_status bd_absorb_views(bd_edit *e, const void *user) {
  (void)user;
  const bd_op *op = &e->from->ops[e->at];
  bd_lettered in[2];
  char result[BD_MAX_RANK + 1], kept[BD_MAX_RANK + 1];
  if (op->kind != BD_OP_CONTRACT || !bd_split_rule(bd_op_string(op, "rule"), in, result))
    return BD_OK;
  bool changed = false;
  for (int i = 0; i < 2; ++i) {
    in[i].id = op->in[i];
    find_kept(in[1 - i].letters, result, kept);
    while (bd_strip_view(e, kept, &in[i]))
      changed = true;
  }
  if (!changed) return BD_OK;
  bd_id made, ids[] = {bd_edit_value(e, in[0].id), bd_edit_value(e, in[1].id)};
  bd_attr *attrs = bd_arena_copy(e->ctx->arena, op->attrs, op->attr_count, sizeof *attrs);
  for (int i = 0; i < op->attr_count; ++i)
    if (strcmp(attrs[i].name, "rule") == 0)
      attrs[i] = bd_attr_string(
          e->ctx, "rule", bd_intern_f(e->ctx, "%s,%s->%s", in[0].letters, in[1].letters, result));
  BD_TRY(bd_edit_emit(e, BD_OP_CONTRACT, 2, ids, op->attr_count, attrs, &made));
  bd_edit_stand(e, op->out[0], made);
  return BD_OK;
}

// A value as the factors of another's dimensions, in another order. Extents of 1 have none.
typedef struct view {
  int factors;
  int64_t extent[BD_MAX_RANK]; // in the order of the source
  int order[BD_MAX_RANK];      // of the view, as places in the source's order
} view;

static void begin_view(const bd_type *source, view *v) {
  v->factors = 0;
  for (int d = 0; d < source->rank; ++d)
    if (source->dims[d] != 1) v->extent[v->factors++] = source->dims[d];
  for (int i = 0; i < v->factors; ++i)
    v->order[i] = i;
}

// How many factors, from the `at`th of the view on, make an extent; the last may have to be parted.
// -1: they do not.
static int count_factors(const view *v, int at, int64_t extent, int64_t *out_part) {
  int count = 0;
  *out_part = 0;
  for (; extent != 1; ++count) {
    if (at + count == v->factors) return -1;
    int64_t factor = v->extent[v->order[at + count]];
    if (extent == BD_DIM_BATCH || factor == BD_DIM_BATCH) return factor == extent ? 1 : -1;
    if (extent % factor != 0) {
      if (factor % extent != 0) return -1;
      *out_part = extent;
      return count + 1;
    }
    extent /= factor;
  }
  return count;
}

// Parts the factor at `place` of the view into `outer` and the rest, which follows it.
static bool part_factor(view *v, int place, int64_t outer) {
  if (v->factors == BD_MAX_RANK) return false;
  int source = v->order[place];
  for (int i = v->factors; i > source + 1; --i)
    v->extent[i] = v->extent[i - 1];
  v->extent[source + 1] = v->extent[source] / outer;
  v->extent[source] = outer;
  for (int i = 0; i < v->factors; ++i)
    v->order[i] += v->order[i] > source;
  for (int i = v->factors; i > place + 1; --i)
    v->order[i] = v->order[i - 1];
  v->order[place + 1] = source + 1;
  ++v->factors;
  return true;
}

static bool view_reshape(const bd_type *to, view *v) {
  int at = 0;
  for (int d = 0; d < to->rank; ++d) {
    int64_t part;
    int count = count_factors(v, at, to->dims[d], &part);
    if (count < 0 || (part && !part_factor(v, at + count - 1, part))) return false;
    at += count;
  }
  return at == v->factors;
}

// The factors of dimension `d` are those from first[d] on.
static bool find_groups(const bd_type *type, const view *v, int *first) {
  int64_t part;
  first[0] = 0;
  for (int d = 0; d < type->rank; ++d) {
    int count = count_factors(v, first[d], type->dims[d], &part);
    if (count < 0 || part) return false;
    first[d + 1] = first[d] + count;
  }
  return true;
}

static bool view_permute(const bd_op *op, const bd_type *from, view *v) {
  int first[BD_MAX_RANK + 1], count = 0, order[BD_MAX_RANK];
  const char *rule = bd_op_string(op, "rule"), *arrow = strstr(rule, "->");
  if (strchr(rule, '|') || !find_groups(from, v, first)) return false;
  for (const char *to = arrow + 2; *to; ++to) {
    int d = (int)(strchr(rule, *to) - rule);
    for (int i = first[d]; i < first[d + 1]; ++i)
      order[count++] = v->order[i];
  }
  memcpy(v->order, order, sizeof order);
  return true;
}

static bool is_view(const bd_op *op) {
  return op && (op->kind == BD_OP_PERMUTE || op->kind == BD_OP_RESHAPE);
}

// Follows the chain that ends with `last` up to `*source`; `out_length`: how many ops it has.
static bool follow(const bd_edit *e, const bd_op *last, int depth, bd_id *source, view *v,
                   int *out_length) {
  const bd_op *before = bd_edit_producer(e, last->in[0]);
  const bd_type *type = &e->from->values[last->in[0]].type;
  bool longer = is_view(before) && depth < BD_MAX_RANK;
  if (!longer || !follow(e, before, depth + 1, source, v, out_length)) {
    *source = last->in[0];
    *out_length = 0;
    begin_view(type, v);
  }
  ++*out_length;
  if (last->kind == BD_OP_PERMUTE) return view_permute(last, type, v);
  return view_reshape(&e->from->values[last->out[0]].type, v);
}

// Factors that stay neighbours become one.
static void join_factors(view *v) {
  for (int i = 0; i + 1 < v->factors;) {
    int a = v->order[i], b = v->order[i + 1];
    if (b != a + 1 || v->extent[a] == BD_DIM_BATCH || v->extent[b] == BD_DIM_BATCH) {
      ++i;
      continue;
    }
    v->extent[a] *= v->extent[b];
    for (int k = b; k + 1 < v->factors; ++k)
      v->extent[k] = v->extent[k + 1];
    for (int k = i + 1; k + 1 < v->factors; ++k)
      v->order[k] = v->order[k + 1];
    --v->factors;
    for (int k = 0; k < v->factors; ++k)
      v->order[k] -= v->order[k] > b;
  }
}

static bool has_dims(const bd_type *type, int rank, const int64_t *dims) {
  return type->rank == rank && memcmp(type->dims, dims, (size_t)rank * sizeof *dims) == 0;
}

// The ops that make the view of a value of type `from`.
typedef struct steps {
  bool part, permute, join;
  int rank; // of the parts
  int64_t parts[BD_MAX_RANK];
  char rule[2 * BD_MAX_RANK + 3];
} steps;

static steps plan_steps(const view *v, const bd_type *from, const bd_type *to) {
  steps s = {.rank = v->factors};
  int64_t turned[BD_MAX_RANK];
  char *at = s.rule;
  memcpy(s.parts, v->extent, sizeof s.parts);
  for (int i = 0; i < v->factors; ++i) {
    s.permute = s.permute || v->order[i] != i;
    turned[i] = v->extent[v->order[i]];
    *at++ = (char)('a' + i);
  }
  *at++ = '-';
  *at++ = '>';
  for (int i = 0; i < v->factors; ++i)
    *at++ = (char)('a' + v->order[i]);
  s.part = s.permute && !has_dims(from, v->factors, v->extent);
  s.join = s.permute ? !has_dims(to, v->factors, turned) : !has_dims(to, from->rank, from->dims);
  return s;
}

static int count_steps(const steps *s) {
  return s->part + s->permute + s->join;
}

// The fewest steps; of as many those that begin with a reshape, which what makes the value may
// take.
static steps choose_steps(view *v, const bd_type *from, const bd_type *to) {
  steps apart = plan_steps(v, from, to);
  join_factors(v);
  steps joined = plan_steps(v, from, to);
  int less = count_steps(&joined) - count_steps(&apart);
  return less < 0 || (less == 0 && apart.join) ? joined : apart;
}

bd_status bd_shorten_views(bd_edit *e, const void *user) {
  (void)user;
  const bd_op *op = &e->from->ops[e->at];
  bd_id source;
  view v;
  int length;
  if (!is_view(op) || !follow(e, op, 0, &source, &v, &length)) return BD_OK;
  const bd_type *to = &e->from->values[op->out[0]].type;
  steps s = choose_steps(&v, &e->from->values[source].type, to);
  int wanted = count_steps(&s);
  bool earlier = wanted == length && s.part && !s.join && op->kind == BD_OP_RESHAPE;
  if ((wanted >= length && !earlier) || (wanted == 0 && e->readers.is_result[op->out[0]]))
    return BD_OK;
  bd_id made = bd_edit_value(e, source);
  bd_attr rule = bd_attr_string(e->ctx, "rule", s.rule);
  if (s.part) BD_TRY(bd_emit_reshaped(e, s.rank, s.parts, &made));
  if (s.permute) BD_TRY(bd_edit_emit(e, BD_OP_PERMUTE, 1, &made, 1, &rule, &made));
  if (s.join) BD_TRY(bd_emit_reshaped(e, to->rank, to->dims, &made));
  bd_edit_stand(e, op->out[0], made);
  return BD_OK;
}

bd_status bd_scale_views(bd_edit *e, const void *user) {
  (void)user;
  const bd_op *op = &e->from->ops[e->at];
  if (op->kind != BD_OP_PERMUTE && op->kind != BD_OP_RESHAPE) return BD_OK;
  const bd_op *scale = bd_edit_producer(e, op->in[0]);
  if (!scale || scale->kind != BD_OP_SCALE || bd_edit_reads(e, op->in[0]) != 1) return BD_OK;
  bd_id made = bd_edit_value(e, scale->in[0]);
  BD_TRY(bd_edit_emit(e, op->kind, 1, &made, op->attr_count, op->attrs, &made));
  BD_TRY(bd_edit_emit(e, BD_OP_SCALE, 1, &made, scale->attr_count, scale->attrs, &made));
  bd_edit_stand(e, op->out[0], made);
  return BD_OK;
}
