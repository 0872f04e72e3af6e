#include "frontend/onnx/lower/diagonals.h"

enum { MOST_LISTED = 256 }; // in one constant, of 32 bits each
static const int64_t most_read = (int64_t)1 << 26;

bd_status bd_onnx_find_diagonals(bd_onnx_lowering *l, bd_onnx_fact *fact, bool *out_found) {
  int64_t rows, columns;
  bool known = fact->known || fact->tensor;
  *out_found = fact->diagonals != NULL;
  if (*out_found || !known || fact->weight || fact->uniform ||
      !bd_onnx_is_matrix(fact, &rows, &columns))
    return BD_OK;
  if (rows > most_read / columns) return BD_OK;
  bd_onnx_fact read = *fact;
  bd_onnx_number *row = BD_NEW_ARRAY(l->ctx->arena, bd_onnx_number, columns);
  bd_onnx_number *numbers = BD_NEW_ARRAY(l->ctx->arena, bd_onnx_number, rows + columns - 1);
  bool real = bd_onnx_is_float(fact->dtype);
  for (int64_t r = 0; r < rows; r++) {
    bd_onnx_number *first = numbers + rows - 1 - r; // of the row's diagonals
    if (!fact->known)
      BD_TRY(bd_onnx_tensor_elements(l->ctx, l->model, fact->tensor, r * columns, columns, row));
    for (int64_t c = 0; c < columns; c++) {
      bd_onnx_number number = fact->known ? fact->known[r * columns + c] : row[c];
      if (r == 0 || c == 0)
        first[c] = number;
      else if (real ? !bd_onnx_equal_reals(number.real, first[c].real)
                    : !bd_onnx_same(number, first[c]))
        return BD_OK;
    }
  }
  read.diagonals = numbers;
  *out_found = bd_onnx_form_of(&read).kind != BD_ONNX_DIAGONALS_NONE;
  if (*out_found) fact->diagonals = numbers;
  return BD_OK;
}

static double real_of(const bd_onnx_fact *fact, int64_t k) {
  return bd_onnx_is_float(fact->dtype) ? fact->diagonals[k].real
                                       : (double)fact->diagonals[k].integer;
}

static bd_status emit_number(bd_onnx_lowering *l, int64_t value, bd_id *out) {
  return bd_onnx_number_op(l, BD_I32, (double)value, out);
}

// How far right of the diagonal each element is.
static bd_status emit_distance(bd_onnx_lowering *l, int64_t rows, int64_t columns, bd_id *out) {
  bd_id row, column;
  bd_attr dtype = bd_attr_string(l->ctx, "dtype", bd_dtype_name(BD_I32));
  bd_attr dims = bd_attr_ints(l->ctx, "dims", 2, (int64_t[]){rows, columns});
  BD_TRY(bd_onnx_emit(l, BD_OP_IOTA, 0, NULL, 3,
                      (bd_attr[]){dtype, dims, bd_attr_int(l->ctx, "dim", 0)}, &row));
  BD_TRY(bd_onnx_emit(l, BD_OP_IOTA, 0, NULL, 3,
                      (bd_attr[]){dtype, dims, bd_attr_int(l->ctx, "dim", 1)}, &column));
  return bd_onnx_emit2(l, BD_OP_SUB, column, row, out);
}

static bd_status emit_runs(bd_onnx_lowering *l, const bd_onnx_fact *fact,
                           const bd_onnx_diagonals_form *form, int64_t main, bd_dtype dtype,
                           bd_id distance, bd_id *out) {
  bd_id bound, before, value;
  BD_TRY(bd_onnx_number_op(l, dtype, real_of(fact, form->last), out));
  for (int i = form->runs - 2; i >= 0; i--) {
    BD_TRY(emit_number(l, form->starts[i + 1] - 1 - main, &bound));
    BD_TRY(bd_onnx_emit2(l, BD_OP_LE, distance, bound, &before));
    BD_TRY(bd_onnx_number_op(l, dtype, real_of(fact, form->starts[i]), &value));
    BD_TRY(bd_onnx_emit(l, BD_OP_SELECT, 3, (bd_id[]){before, value, *out}, 0, NULL, out));
  }
  return BD_OK;
}

// Which of the diagonals from `first` to `last` each element is of, or next to.
static bd_status emit_index(bd_onnx_lowering *l, const bd_onnx_diagonals_form *form, int64_t main,
                            bd_id distance, bd_id *out) {
  bd_id number;
  BD_TRY(emit_number(l, main - form->first, &number));
  BD_TRY(bd_onnx_emit2(l, BD_OP_ADD, distance, number, out));
  BD_TRY(emit_number(l, 0, &number));
  BD_TRY(bd_onnx_emit2(l, BD_OP_MAX, *out, number, out));
  BD_TRY(emit_number(l, form->last - form->first, &number));
  return bd_onnx_emit2(l, BD_OP_MIN, *out, number, out);
}

static bd_status emit_count(bd_onnx_lowering *l, const bd_onnx_fact *fact,
                            const bd_onnx_diagonals_form *form, bd_id index, bd_id *out) {
  bd_id number;
  double first = real_of(fact, form->first), step = real_of(fact, form->first + 1) - first;
  BD_TRY(emit_number(l, (int64_t)step, &number));
  BD_TRY(bd_onnx_emit2(l, BD_OP_MUL, index, number, out));
  BD_TRY(emit_number(l, (int64_t)first, &number));
  return bd_onnx_emit2(l, BD_OP_ADD, *out, number, out);
}

static bd_status emit_list(bd_onnx_lowering *l, const bd_onnx_fact *fact, int64_t first,
                           int64_t count, bd_dtype dtype, bd_id *out) {
  double reals[MOST_LISTED];
  int64_t integers[MOST_LISTED];
  bool real = bd_dtype_is_float(dtype);
  for (int64_t i = 0; i < count; i++) {
    reals[i] = real ? fact->diagonals[first + i].real : 0;
    integers[i] = real ? 0 : fact->diagonals[first + i].integer;
  }
  bd_attr attrs[] = {bd_attr_string(l->ctx, "dtype", bd_dtype_name(dtype)),
                     bd_attr_ints(l->ctx, "dims", 1, &count),
                     real ? bd_attr_reals(l->ctx, "values", (int)count, reals)
                          : bd_attr_ints(l->ctx, "values", (int)count, integers)};
  return bd_onnx_emit(l, BD_OP_CONSTANT, 0, NULL, 3, attrs, out);
}

static bd_status emit_table(bd_onnx_lowering *l, const bd_onnx_fact *fact,
                            const bd_onnx_diagonals_form *form, bd_dtype dtype, bd_id *out) {
  bd_id lists[(BD_ONNX_MOST_PLACES + MOST_LISTED - 1) / MOST_LISTED];
  int64_t count = 0, next = form->first;
  do {
    int64_t left = form->last + 1 - next, now = left < MOST_LISTED ? left : MOST_LISTED;
    BD_TRY(emit_list(l, fact, next, now, dtype, &lists[count++]));
    next += now;
  } while (next <= form->last);
  *out = lists[0];
  bd_attr dim = bd_attr_int(l->ctx, "dim", 0);
  return count == 1 ? BD_OK : bd_onnx_emit(l, BD_OP_CONCAT, (int)count, lists, 1, &dim, out);
}

// The number of the main diagonal.
static int64_t main_of(const bd_onnx_fact *fact) {
  return fact->dims[fact->rank - 2].integer - 1;
}

static bd_status begin(bd_onnx_lowering *l, const bd_onnx_fact *fact, bd_id *out_distance) {
  return emit_distance(l, fact->dims[fact->rank - 2].integer, fact->dims[fact->rank - 1].integer,
                       out_distance);
}

bd_status bd_onnx_emit_diagonals(bd_onnx_lowering *l, const bd_onnx_fact *fact, bd_dtype dtype,
                                 bd_id *out) {
  bd_onnx_diagonals_form form = bd_onnx_form_of(fact);
  bd_dtype listed = bd_onnx_is_float(fact->dtype) ? BD_F32 : BD_I32;
  bd_id distance, table;
  BD_TRY(begin(l, fact, &distance));
  if (form.kind == BD_ONNX_DIAGONALS_RUNS)
    return emit_runs(l, fact, &form, main_of(fact), dtype, distance, out);
  BD_TRY(emit_index(l, &form, main_of(fact), distance, out));
  if (form.kind == BD_ONNX_DIAGONALS_COUNT) {
    BD_TRY(emit_count(l, fact, &form, *out, out));
  } else {
    bd_attr dim = bd_attr_int(l->ctx, "dim", 0);
    BD_TRY(emit_table(l, fact, &form, listed, &table));
    BD_TRY(bd_onnx_emit(l, BD_OP_GATHER, 2, (bd_id[]){table, *out}, 1, &dim, out));
  }
  return bd_onnx_emit_cast(l, *out, dtype, out);
}

bd_status bd_onnx_emit_places(bd_onnx_lowering *l, const bd_onnx_fact *fact, bool *out_done,
                              bd_id *out_places, bd_id *out_index) {
  bd_onnx_diagonals_form form = bd_onnx_form_of(fact);
  bd_id distance;
  *out_done = form.last - form.first < BD_ONNX_MOST_PLACES;
  if (!*out_done) return BD_OK;
  BD_TRY(emit_table(l, fact, &form, BD_I32, out_places));
  BD_TRY(begin(l, fact, &distance));
  return emit_index(l, &form, main_of(fact), distance, out_index);
}
