#include "frontend/onnx/lower/places.h"
#include <string.h>

typedef struct tracer {
  bd_onnx_lowering *l;
  const bd_onnx_places **of; // per value of the model
  const bd_onnx_step *step;
} tracer;

static const bd_onnx_places *operand(const tracer *t, int i) {
  return i < t->step->in_count && t->step->node->in[i] >= 0 ? t->of[t->step->node->in[i]] : NULL;
}

// An axis from the front; negative ones count from behind.
static int64_t from_front(int64_t axis, int rank) {
  return axis < 0 ? axis + rank : axis;
}

// The columns again, in another shape; `axis` where there are several.
static bool reshaped(const tracer *t, const bd_onnx_places *in, int axis, bd_onnx_places *out) {
  *out = *in;
  out->rows = bd_onnx_selected_dim(&t->step->out[0]);
  out->axis = in->count == 1 ? -1 : axis;
  return out->rows >= 0 && (in->count == 1 || axis >= 0);
}

static bool trace_nonzero(const tracer *t, const bd_onnx_places *in, bd_onnx_places *out) {
  (void)in;
  const bd_onnx_fact *fact = &t->step->out[0], *mask = t->step->in[0];
  if (bd_onnx_selected_dim(fact) < 0) return false;
  *out = (bd_onnx_places){.selection = fact->dims[1].selection, .rows = 1, .count = mask->rank};
  out->axis = mask->rank == 1 ? -1 : 0;
  for (int d = 0; d < mask->rank; d++)
    out->columns[d].by[d] = bd_onnx_whole(1);
  return mask->rank > 0;
}

// Dimensions of 1 come or go; the dimension with several columns is not one.
static bool trace_view(const tracer *t, const bd_onnx_places *in, bd_onnx_places *out) {
  int axis = -1, alike = 0;
  const bd_onnx_fact *made = &t->step->out[0];
  for (int d = 0; d < made->rank; d++)
    if (in->count > 1 && !bd_onnx_is(made->dims[d], 1) && !made->dims[d].batch) {
      axis = d;
      ++alike;
    }
  if (in->count > 1 && (alike != 1 || !bd_onnx_is(made->dims[axis], in->count))) return false;
  bool before = in->count > 1 && in->axis < in->rows;
  return reshaped(t, in, axis, out) && (in->count == 1 || before == (axis < out->rows));
}

static bool trace_transpose(const tracer *t, const bd_onnx_places *in, bd_onnx_places *out) {
  int rank = t->step->in[0]->rank, axis = -1;
  const bd_onnx_attribute *perm = bd_onnx_find(t->step, "perm");
  for (int d = 0; d < rank; d++)
    if ((perm ? perm->integers[d] : rank - 1 - d) == in->axis) axis = d;
  return reshaped(t, in, axis, out);
}

// `count` columns from `start` on. False: there are not so many.
static bool keep_columns(bd_onnx_places *places, int64_t start, int64_t count) {
  if (start < 0 || count < 1 || start > places->count - count) return false;
  memmove(places->columns, places->columns + start, (size_t)count * sizeof *places->columns);
  places->count = (int)count;
  if (count == 1) places->axis = -1;
  return true;
}

static bool trace_slice(const tracer *t, const bd_onnx_places *in, bd_onnx_places *out) {
  int counts[4];
  const bd_onnx_number *starts, *ends, *axes, *steps;
  const bd_onnx_step *step = t->step;
  if (bd_onnx_numbers(step, "starts", 1, &counts[0], &starts) != BD_OK ||
      bd_onnx_numbers(step, "ends", 2, &counts[1], &ends) != BD_OK ||
      bd_onnx_numbers(step, "axes", 3, &counts[2], &axes) != BD_OK ||
      bd_onnx_numbers(step, NULL, 4, &counts[3], &steps) != BD_OK || counts[0] != 1 ||
      in->axis < 0 || (steps && !bd_onnx_is(steps[0], 1)))
    return false;
  int64_t axis = axes ? axes[0].integer : 0, start = starts[0].integer;
  *out = *in;
  if (from_front(axis, step->in[0]->rank) != in->axis) return false;
  return keep_columns(out, start < 0 ? start + in->count : start,
                      step->out[0].dims[in->axis].integer);
}

// A known number of the columns' dimension.
static bool trace_gather(const tracer *t, const bd_onnx_places *in, bd_onnx_places *out) {
  bd_onnx_number pick;
  bool same = false;
  const bd_onnx_step *step = t->step;
  int64_t axis = from_front(bd_onnx_int(step, "axis", 0), step->in[0]->rank);
  if (!operand(t, 0) || axis != in->axis ||
      bd_onnx_same_number(t->l, step, 1, &same, &pick) != BD_OK || !same)
    return false;
  *out = *in;
  out->rows = bd_onnx_selected_dim(&step->out[0]);
  return keep_columns(out, pick.integer < 0 ? pick.integer + in->count : pick.integer, 1);
}

static bool trace_concat(const tracer *t, const bd_onnx_places *in, bd_onnx_places *out) {
  const bd_onnx_step *step = t->step;
  *out = *in;
  out->axis = (int)from_front(bd_onnx_int(step, "axis", 0), step->out[0].rank);
  out->count = 0;
  for (int i = 0; i < step->in_count; i++) {
    const bd_onnx_places *one = operand(t, i);
    if (!one || (one->count > 1 && one->axis != out->axis) || one->selection != in->selection ||
        one->rows != in->rows || !bd_onnx_is(step->in[i]->dims[out->axis], one->count) ||
        out->count + one->count > BD_MAX_RANK)
      return false;
    for (int c = 0; c < one->count; c++)
      out->columns[out->count++] = one->columns[c];
  }
  if (out->count == 1) out->axis = -1;
  return true;
}

static bool trace_add(const tracer *t, const bd_onnx_places *in, bd_onnx_places *out) {
  const bd_onnx_places *other = operand(t, 1);
  bool good = other && operand(t, 0) && in->count == 1 && other->count == 1 &&
              reshaped(t, in, -1, out) && other->selection == in->selection;
  for (int d = 0; good && d < BD_MAX_RANK; d++)
    good = bd_onnx_add(in->columns[0].by[d], other->columns[0].by[d], &out->columns[0].by[d]);
  return good;
}

static bool trace_multiply(const tracer *t, const bd_onnx_places *in, bd_onnx_places *out) {
  bd_onnx_number by;
  bool same = false;
  int number = operand(t, 0) ? 1 : 0;
  if (operand(t, number) || in->count != 1 || !reshaped(t, in, -1, out) ||
      bd_onnx_same_number(t->l, t->step, number, &same, &by) != BD_OK || !same)
    return false;
  for (int d = 0; d < BD_MAX_RANK; d++)
    if (!bd_onnx_multiply(in->columns[0].by[d], by, &out->columns[0].by[d])) return false;
  return true;
}

static const struct {
  const char *op;
  bool (*trace)(const tracer *t, const bd_onnx_places *in, bd_onnx_places *out);
} traces[] = {
    {"NonZero", trace_nonzero}, {"Transpose", trace_transpose}, {"Squeeze", trace_view},
    {"Unsqueeze", trace_view},  {"Reshape", trace_view},        {"Flatten", trace_view},
    {"Expand", trace_view},     {"Identity", trace_view},       {"Cast", trace_view},
    {"Slice", trace_slice},     {"Gather", trace_gather},       {"Concat", trace_concat},
    {"Add", trace_add},         {"Mul", trace_multiply},
};

// Parts along the columns.
static void trace_split(const tracer *t, const bd_onnx_places *in) {
  const bd_onnx_step *step = t->step;
  int64_t start = 0;
  if (from_front(bd_onnx_int(step, "axis", 0), step->in[0]->rank) != in->axis) return;
  for (int i = 0; i < step->out_count; i++) {
    bd_onnx_places *part = BD_NEW(t->l->ctx->arena, bd_onnx_places);
    int64_t size = step->out[i].dims[in->axis].integer;
    *part = *in;
    bool kept = keep_columns(part, start, size);
    start += size;
    if (step->node->out[i] != BD_ONNX_ABSENT && kept) t->of[step->node->out[i]] = part;
  }
}

static void trace(const tracer *t) {
  const bd_onnx_node *node = t->step->node;
  const bd_onnx_places *in = operand(t, 0) ? operand(t, 0) : operand(t, 1);
  bool starts = strcmp(node->op, "NonZero") == 0;
  if ((!in && !starts) || !bd_onnx_is_integer(t->step->out[0].dtype)) return;
  if (strcmp(node->op, "Split") == 0) return trace_split(t, in);
  for (size_t i = 0; i < sizeof traces / sizeof *traces; i++) {
    bd_onnx_places made;
    if (strcmp(node->op, traces[i].op) != 0 || !traces[i].trace(t, in, &made)) continue;
    t->of[node->out[0]] = bd_arena_copy(t->l->ctx->arena, &made, 1, sizeof made);
  }
}

const bd_onnx_places **bd_onnx_find_places(bd_onnx_lowering *l, const bool *running) {
  tracer t = {.l = l};
  t.of = BD_NEW_ARRAY(l->ctx->arena, const bd_onnx_places *, l->model->value_count);
  for (int n = 0; n < l->model->node_count; n++) {
    if (!running[n]) continue;
    bd_onnx_step step = bd_onnx_lower_step(l, &l->model->nodes[n]);
    t.step = &step;
    trace(&t);
  }
  return t.of;
}
