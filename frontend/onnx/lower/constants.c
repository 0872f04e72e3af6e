// What is known before the model runs, as ops that make it.
#include "frontend/onnx/lower/diagonals.h"
#include "frontend/onnx/lower/layout.h"
#include "frontend/onnx/lower/tables.h"
#include <math.h>

enum { PIECE = 1024, MOST_CONSTANT_BYTES = 1024, MOST_LIST = 1024, MOST_VARINTS = 1 << 20 };
static const int64_t most_read = (int64_t)1 << 26;

// What a walk over the elements finds out about them.
struct bd_onnx_sketch {
  const bd_onnx_tensor *tensor; // that it is of, for those that are stored
  bool uniform, triangle; // all the same; ones on and below the diagonal of a square, zeros above
  unsigned counts;        // dimensions along which they are 0, 1, 2, ..
  bd_onnx_number first;
};

typedef struct content {
  const bd_onnx_fact *fact;
  bd_dtype dtype;
  bool real;
  int rank; // of the graph
  int64_t dims[BD_MAX_RANK], strides[BD_MAX_RANK];
  int64_t count; // of elements that are looked at
} content;

bool bd_onnx_equal_reals(double a, double b) {
  return a == b || (isnan(a) && isnan(b));
}

static void look(const content *c, bd_onnx_sketch *sketch, int64_t i, bd_onnx_number value) {
  if (i == 0) sketch->first = value;
  sketch->uniform =
      sketch->uniform && (c->real ? bd_onnx_equal_reals(value.real, sketch->first.real)
                                  : bd_onnx_same(value, sketch->first));
  for (int d = 0; d < c->rank && sketch->counts; d++)
    if (value.batch || value.integer != i / c->strides[d] % c->dims[d])
      sketch->counts &= ~(1U << d);
}

// Whether elements of a square matrix, from number `first` on, are those of a triangle.
static bool is_triangle(const bd_onnx_number *elements, int64_t first, int64_t count,
                        int64_t width) {
  int64_t row = first / width, column = first % width;
  bool is = true;
  for (int64_t i = 0; i < count; i++) {
    is &= bd_onnx_is(elements[i], column <= row);
    if (++column == width) row++, column = 0;
  }
  return is;
}

static bd_status take_piece(bd_onnx_lowering *l, const content *c, int64_t first, int64_t count,
                            bd_onnx_number *out) {
  const bd_onnx_fact *fact = c->fact;
  if (!fact->known)
    return bd_onnx_tensor_elements(l->ctx, l->model, fact->tensor, first, count, out);
  for (int64_t i = 0; i < count; i++)
    out[i] = bd_onnx_at(fact, first + i);
  return BD_OK;
}

static bd_status draw(bd_onnx_lowering *l, const content *c, bd_onnx_sketch *out) {
  bd_onnx_number piece[PIECE];
  bool plain = !c->real && !c->fact->uniform;
  *out = (bd_onnx_sketch){.tensor = c->fact->tensor, .uniform = true};
  out->counts = plain ? (1U << c->rank) - 1 : 0;
  out->triangle = plain && c->rank == 2 && c->dims[0] == c->dims[1];
  for (int64_t i = 0; i < c->count; i += PIECE) {
    int64_t now = c->count - i < PIECE ? c->count - i : PIECE;
    BD_TRY(take_piece(l, c, i, now, piece));
    for (int64_t k = 0; k < now && (out->uniform || out->counts); k++)
      look(c, out, i + k, piece[k]);
    if (out->triangle) out->triangle = is_triangle(piece, i, now, c->dims[1]);
    if (!out->uniform && !out->counts && !out->triangle) break;
  }
  return BD_OK;
}

// Masks are large and used in every layer: the last one's sketch is kept.
static bd_status sketch_of(bd_onnx_lowering *l, const content *c, bd_onnx_sketch *out) {
  const bd_onnx_tensor *tensor = c->fact->known ? NULL : c->fact->tensor;
  if (tensor && l->last_sketch && l->last_sketch->tensor == tensor) {
    *out = *l->last_sketch;
    return BD_OK;
  }
  BD_TRY(draw(l, c, out));
  if (!tensor) return BD_OK;
  if (!l->last_sketch) l->last_sketch = BD_NEW(l->ctx->arena, bd_onnx_sketch);
  *l->last_sketch = *out;
  return BD_OK;
}

static bd_status emit_data(bd_onnx_lowering *l, bd_op_kind kind, bd_dtype dtype, const content *c,
                           bd_attr last, bd_id *out) {
  bd_attr attrs[] = {bd_attr_string(l->ctx, "dtype", bd_dtype_name(dtype)),
                     bd_attr_ints(l->ctx, "dims", c->rank, c->dims), last};
  return bd_onnx_emit(l, kind, 0, NULL, 3, attrs, out);
}

static bd_status emit_list(bd_onnx_lowering *l, const content *c, bd_id *out) {
  bd_onnx_number values[MOST_LIST];
  double reals[MOST_LIST];
  int64_t ints[MOST_LIST];
  int count = (int)c->count;
  if (!c->fact->known)
    BD_TRY(bd_onnx_tensor_elements(l->ctx, l->model, c->fact->tensor, 0, count, values));
  for (int i = 0; i < count; i++) {
    bd_onnx_number value = c->fact->known ? bd_onnx_at(c->fact, i) : values[i];
    reals[i] = c->real ? value.real : 0;
    ints[i] = c->real ? 0 : value.integer;
  }
  bd_attr list = c->real ? bd_attr_reals(l->ctx, "values", count, reals)
                         : bd_attr_ints(l->ctx, "values", count, ints);
  return emit_data(l, BD_OP_CONSTANT, c->dtype, c, list, out);
}

// The mask of causal attention: where the column's index is at most the row's.
static bd_status emit_triangle(bd_onnx_lowering *l, const content *c, bd_id *out) {
  bd_id row, column, allowed;
  BD_TRY(emit_data(l, BD_OP_IOTA, BD_I32, c, bd_attr_int(l->ctx, "dim", 0), &row));
  BD_TRY(emit_data(l, BD_OP_IOTA, BD_I32, c, bd_attr_int(l->ctx, "dim", 1), &column));
  BD_TRY(bd_onnx_emit2(l, BD_OP_LE, column, row, &allowed));
  return bd_onnx_emit_cast(l, allowed, c->dtype, out);
}

static bd_status fail_large(const bd_onnx_step *step, int value, const bd_onnx_fact *fact) {
  return bd_onnx_step_fail(
      step, BD_UNSUPPORTED,
      "uses the constant \"%s\", %s %s, which is larger than 1 KiB and neither uniform, a count, "
      "a lower triangle, alike along its diagonals nor a table of rotary positions; make it an "
      "initializer of floating-point type, or compute it",
      step->model->values[value].name, bd_onnx_dtype_name(fact->dtype),
      bd_onnx_dims_text(step->ctx, fact->rank, fact->dims));
}

static bd_status emit_content(bd_onnx_lowering *l, const bd_onnx_step *step, int value,
                              const content *c, bd_id *out) {
  bd_onnx_sketch sketch;
  BD_TRY(sketch_of(l, c, &sketch));
  if (!c->real && sketch.first.batch)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                             "computes with the size of the batch, which is known only by a plan");
  if (sketch.uniform) {
    bd_attr same = c->real ? bd_attr_real(l->ctx, "value", sketch.first.real)
                           : bd_attr_int(l->ctx, "value", sketch.first.integer);
    return emit_data(l, BD_OP_CONSTANT, c->dtype, c, same, out);
  }
  if (c->count * bd_dtype_bytes(c->dtype) <= MOST_CONSTANT_BYTES) return emit_list(l, c, out);
  for (int d = 0; d < c->rank; d++)
    if (sketch.counts >> d & 1)
      return emit_data(l, BD_OP_IOTA, c->dtype, c, bd_attr_int(l->ctx, "dim", d), out);
  if (sketch.triangle) return emit_triangle(l, c, out);
  bool found = false;
  bd_onnx_angles angles;
  if (c->rank == 2) {
    bd_onnx_fact matrix = *c->fact; // without the dimensions of 1
    matrix.rank = 2;
    matrix.dims = (bd_onnx_number[]){bd_onnx_whole(c->dims[0]), bd_onnx_whole(c->dims[1])};
    BD_TRY(bd_onnx_find_diagonals(l, &matrix, &found));
    if (found) return bd_onnx_emit_diagonals(l, &matrix, c->dtype, out);
    BD_TRY(bd_onnx_find_angles(l, c->fact, c->dims, &found, &angles));
  }
  return found ? bd_onnx_emit_angles(l, &angles, c->dims, out) : fail_large(step, value, c->fact);
}

static bd_status measure(const bd_onnx_lowering *l, const bd_onnx_step *step, int value, content *c,
                         bd_onnx_part *out) {
  const bd_onnx_fact *fact = c->fact;
  int64_t stride = 1;
  for (int d = 0; d < fact->rank; d++) {
    bd_onnx_factors factors = bd_onnx_factors_plain(l, fact->dims[d]);
    out->first[d] = (int8_t)c->rank;
    if (fact->dims[d].integer == 0 || c->rank + factors.count > BD_MAX_RANK)
      return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                               "uses \"%s\", which has no elements, or more than 8 dimensions",
                               step->model->values[value].name);
    for (int i = 0; i < factors.count; i++)
      c->dims[c->rank++] = factors.list[i];
  }
  out->first[fact->rank] = (int8_t)c->rank;
  for (int d = c->rank - 1; d >= 0; d--) {
    c->strides[d] = stride;
    if (c->dims[d] != BD_DIM_BATCH) stride *= c->dims[d];
  }
  c->count = fact->known && fact->uniform ? 1 : bd_onnx_count(fact);
  bool slow = !fact->known && fact->tensor && fact->tensor->encoding == BD_ONNX_VARINTS;
  return c->count > (slow ? MOST_VARINTS : most_read) ? fail_large(step, value, fact) : BD_OK;
}

bd_status bd_onnx_constant(bd_onnx_lowering *l, const bd_onnx_step *step, int value,
                           bd_onnx_part *out) {
  const bd_onnx_fact *fact = &l->facts[value];
  content c = {.fact = fact, .real = bd_onnx_is_float(fact->dtype)};
  if (!bd_onnx_element_type(fact->dtype, &c.dtype))
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "uses elements of %s",
                             bd_onnx_dtype_name(fact->dtype));
  BD_TRY(measure(l, step, value, &c, out));
  if (!fact->known && !fact->tensor) return bd_onnx_emit_diagonals(l, fact, c.dtype, &out->id);
  return emit_content(l, step, value, &c, &out->id);
}
