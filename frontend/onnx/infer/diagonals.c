// Matrices whose elements depend on their diagonal alone, as those of relative positions and their
// masks do: followed by diagonal.
#include "frontend/onnx/infer/step.h"
#include <math.h>
#include <string.h>

// Whole numbers up to here are exact in float32, and so are their differences.
static const double most_exact = 0x1p23;

bool bd_onnx_is_matrix(const bd_onnx_fact *fact, int64_t *out_rows, int64_t *out_columns) {
  if (fact->rank < 2 || !bd_onnx_plain(fact)) return false;
  for (int d = 0; d < fact->rank - 2; d++)
    if (fact->dims[d].integer != 1) return false;
  *out_rows = fact->dims[fact->rank - 2].integer;
  *out_columns = fact->dims[fact->rank - 1].integer;
  return *out_rows > 1 && *out_columns > 1 && *out_rows <= BD_ONNX_MOST_DIAGONALS &&
         *out_columns <= BD_ONNX_MOST_DIAGONALS + 1 - *out_rows;
}

void bd_onnx_keep_diagonals(bd_onnx_step *step, int i) {
  const bd_onnx_fact *in = step->in[0];
  int64_t rows, columns;
  if (!in->diagonals || !bd_onnx_is_matrix(&step->out[i], &rows, &columns)) return;
  if (bd_onnx_is(in->dims[in->rank - 2], rows) && bd_onnx_is(in->dims[in->rank - 1], columns))
    step->out[i].diagonals = in->diagonals;
}

static bool same(bd_onnx_dtype dtype, bd_onnx_number a, bd_onnx_number b) {
  if (!bd_onnx_is_float(dtype)) return bd_onnx_same(a, b);
  return a.real == b.real || (isnan(a.real) && isnan(b.real));
}

static double as_real(bd_onnx_dtype dtype, bd_onnx_number number) {
  return bd_onnx_is_float(dtype) ? number.real : (double)number.integer;
}

// Whole numbers in 24 bits, which every type of 32 has, that grow by the same.
static bool is_whole_count(bd_onnx_dtype dtype, const bd_onnx_number *numbers, int64_t count) {
  double first = as_real(dtype, numbers[0]), step = as_real(dtype, numbers[1]) - first;
  for (int64_t i = 0; i < count; i++) {
    double value = as_real(dtype, numbers[i]);
    if (numbers[i].batch || !(fabs(value) <= most_exact) || value != floor(value) ||
        value != first + (double)i * step)
      return false;
  }
  return true;
}

static bool fits_table(bd_onnx_dtype dtype, const bd_onnx_number *numbers, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (bd_onnx_is_float(dtype)
            ? !isfinite(numbers[i].real)
            : numbers[i].batch || numbers[i].integer != (int32_t)numbers[i].integer)
      return false;
  return count <= BD_ONNX_MOST_PLACES;
}

bd_onnx_diagonals_form bd_onnx_form_of(const bd_onnx_fact *fact) {
  bd_onnx_diagonals_form form = {.runs = 1};
  int64_t rows, columns;
  const bd_onnx_number *numbers = fact->diagonals;
  if (!numbers || !bd_onnx_is_matrix(fact, &rows, &columns)) return form;
  int64_t count = rows + columns - 1;
  bool batch = numbers[0].batch;
  form.last = count - 1;
  for (int64_t k = 1; k < count; k++) {
    batch = batch || numbers[k].batch;
    if (same(fact->dtype, numbers[k], numbers[k - 1])) continue;
    if (form.runs++ < BD_ONNX_MOST_RUNS) form.starts[form.runs - 1] = k;
    if (form.runs == 2) form.first = k - 1;
    form.last = k;
  }
  int64_t places = form.last - form.first + 1;
  if (batch) return form;
  if (form.runs <= BD_ONNX_MOST_RUNS)
    form.kind = BD_ONNX_DIAGONALS_RUNS;
  else if (is_whole_count(fact->dtype, numbers + form.first, places))
    form.kind = BD_ONNX_DIAGONALS_COUNT;
  else if (fits_table(fact->dtype, numbers + form.first, places))
    form.kind = BD_ONNX_DIAGONALS_TABLE;
  return form;
}

// A list that grows by the same from element to element, along the rows or the columns of a result.
typedef struct count {
  bool by_row;
  double step;
} count;

static bool is_count(const bd_onnx_fact *fact, count *out) {
  int rank = fact->rank;
  bool narrow = fact->dtype == BD_ONNX_FLOAT16 || fact->dtype == BD_ONNX_BFLOAT16;
  if (narrow || rank < 1) return false;
  out->by_row = rank > 1 && bd_onnx_is(fact->dims[rank - 1], 1);
  int along = out->by_row ? rank - 2 : rank - 1;
  for (int d = 0; d < rank; d++)
    if (d != along && !bd_onnx_is(fact->dims[d], 1)) return false;
  int64_t length = fact->dims[along].integer;
  if (length < 2) return false;
  out->step = as_real(fact->dtype, fact->known[1]) - as_real(fact->dtype, fact->known[0]);
  return is_whole_count(fact->dtype, fact->known, length);
}

// Whether a row's number and a column's, which grow alike, tell their difference alone.
static bool tells_difference(const bd_onnx_step *step) {
  static const char *const ops[] = {"Sub",     "Less",           "LessOrEqual",
                                    "Greater", "GreaterOrEqual", "Equal"};
  count a, b;
  bool known = false;
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    known = known || strcmp(step->rule->op, ops[i]) == 0;
  return known && step->in_count == 2 && is_count(step->in[0], &a) && is_count(step->in[1], &b) &&
         a.by_row != b.by_row && a.step == b.step;
}

// Whether all elements of a diagonal are made alike. Loads what is known.
static bd_status follows_diagonals(const bd_onnx_step *step, int64_t rows, int64_t columns,
                                   bool *out) {
  int lists = 0, diagonals = 0;
  *out = false;
  for (int i = 0; i < step->in_count; i++) {
    bd_onnx_fact *in = step->in[i];
    if (!in || (in->known && in->uniform)) continue;
    if (in->diagonals && bd_onnx_is(in->dims[in->rank - 2], rows) &&
        bd_onnx_is(in->dims[in->rank - 1], columns)) {
      diagonals++;
      continue;
    }
    if (in->weight || !bd_onnx_is_known(in) || !bd_onnx_plain(in)) return BD_OK;
    BD_TRY(bd_onnx_load(step, in));
    lists += bd_onnx_count(in) != 1;
  }
  *out = lists == 0 ? diagonals > 0 : diagonals == 0 && tells_difference(step);
  return BD_OK;
}

bd_status bd_onnx_fold_diagonals(bd_onnx_step *step) {
  bd_onnx_fact *out = &step->out[0];
  int64_t rows, columns;
  bool follows = false;
  if (bd_onnx_is_matrix(out, &rows, &columns))
    BD_TRY(follows_diagonals(step, rows, columns, &follows));
  if (!follows) return BD_OK;
  bd_onnx_number *in = BD_NEW_ARRAY(step->ctx->arena, bd_onnx_number, step->in_count);
  bd_onnx_number *made = BD_NEW_ARRAY(step->ctx->arena, bd_onnx_number, rows + columns - 1);
  for (int64_t k = 0; k < rows + columns - 1; k++) {
    int64_t at[BD_MAX_RANK] = {0};
    at[out->rank - 2] = k < rows ? rows - 1 - k : 0;
    at[out->rank - 1] = k < rows ? 0 : k - rows + 1;
    for (int i = 0; i < step->in_count; i++) {
      const bd_onnx_fact *fact = step->in[i];
      if (!fact) continue;
      in[i] = fact->diagonals ? fact->diagonals[k]
                              : bd_onnx_at(fact, fact->uniform ? 0 : bd_onnx_source(fact, out, at));
    }
    if (!bd_onnx_fold_element(step, in, &made[k])) return BD_OK;
  }
  out->diagonals = made;
  return BD_OK;
}
