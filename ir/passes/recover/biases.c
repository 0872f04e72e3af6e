// Biases by relative position, written out as a lookup of a row for each pair of positions.
#include "ir/passes/recover/attending.h"
#include "ir/passes/recover/known.h"
#include <string.h>

enum { MOST_LISTED = 256 }; // i32 in one constant

static bool is_number(const bd_edit *e, bd_id id, double value) {
  bd_known known;
  double same;
  return bd_known_of(e->from, id, &known) && bd_known_uniform(&known, &same) && same == value;
}

// The operand of min or max that is not the number.
static bd_id beside(const bd_edit *e, bd_id id, bd_op_kind kind, double value) {
  const bd_op *op = bd_edit_producer(e, id);
  if (!op || op->kind != kind) return BD_NO_ID;
  if (is_number(e, op->in[1], value)) return op->in[0];
  return is_number(e, op->in[0], value) ? op->in[1] : BD_NO_ID;
}

// min(max(column - row + far, 0), rows - 1).
static bool find_far(const bd_edit *e, bd_id index, int64_t rows, int64_t *out) {
  bd_known known;
  bd_id inner = beside(e, index, BD_OP_MIN, (double)(rows - 1));
  if (inner != BD_NO_ID) inner = beside(e, inner, BD_OP_MAX, 0);
  if (inner == BD_NO_ID || !bd_known_of(e->from, inner, &known) || known.choice ||
      known.coefficient[0] != -1 || known.coefficient[1] != 1)
    return false;
  *out = (int64_t)known.base;
  return known.base >= -INT32_MAX && known.base <= INT32_MAX && known.base == (double)*out;
}

static int64_t rows_of(const bd_attending *a) {
  return a->e->from->values[a->biases->in[0]].type.dims[0];
}

bool bd_attending_take_biases(bd_attending *a, const bd_lettered *mask, const bd_op *lookup) {
  const bd_type *rows = &a->e->from->values[lookup->in[0]].type;
  if (a->biases || a->rank != 4 || strcmp(mask->letters, "CDB") != 0 || rows->dtype != BD_F32)
    return false;
  if (!find_far(a->e, lookup->in[1], rows->dims[0], &a->far)) return false;
  a->biases = lookup;
  a->biases_scale = a->scale;
  return true;
}

// How far before a query the first place is.
static int64_t reach_of(const bd_attending *a) {
  int64_t behind = rows_of(a) - 1 - a->far, before = a->far > 0 ? a->far : 0;
  return a->causal || before >= behind ? before : behind;
}

static int64_t places_of(const bd_attending *a) {
  return a->causal ? reach_of(a) + 1 : 2 * reach_of(a) + 1;
}

bool bd_attending_can_bias(const bd_attending *a) {
  return !a->biases || places_of(a) <= BD_MOST_BIASES;
}

// Numbers as i32[count].
static bd_status emit_list(bd_edit *e, int64_t count, const int64_t *numbers, bd_id *out) {
  bd_id lists[BD_MOST_BIASES / MOST_LISTED];
  int made = 0;
  for (int64_t i = 0; i < count; i += MOST_LISTED, ++made) {
    int64_t now = count - i < MOST_LISTED ? count - i : MOST_LISTED;
    bd_attr attrs[] = {bd_attr_string(e->ctx, "dtype", bd_dtype_name(BD_I32)),
                       bd_attr_ints(e->ctx, "dims", 1, &now),
                       bd_attr_ints(e->ctx, "values", (int)now, numbers + i)};
    BD_TRY(bd_edit_emit(e, BD_OP_CONSTANT, 0, NULL, 3, attrs, &lists[made]));
  }
  *out = lists[0];
  bd_attr dim = bd_attr_int(e->ctx, "dim", 0);
  return made == 1 ? BD_OK : bd_edit_emit(e, BD_OP_CONCAT, made, lists, 1, &dim, out);
}

// The rows of a table that a value looks up, if it does. NULL: it does not.
static const bd_attr *listed_rows(const bd_edit *e, bd_id id, bd_id *out_table) {
  const bd_op *lookup = bd_edit_producer(e, id);
  const bd_op *list =
      lookup && lookup->kind == BD_OP_EMBED ? bd_edit_producer(e, lookup->in[1]) : NULL;
  const bd_attr *values =
      list && list->kind == BD_OP_CONSTANT ? bd_op_find_attr(list, "values") : NULL;
  if (!values || values->kind != BD_ATTR_INTS) return NULL;
  *out_table = lookup->in[0];
  return values;
}

bd_status bd_attending_emit_biases(bd_attending *a, bd_id *out) {
  bd_edit *e = a->e;
  int64_t numbers[BD_MOST_BIASES], places = places_of(a), rows = rows_of(a);
  bd_id in[2] = {a->biases->in[0], BD_NO_ID};
  const bd_attr *listed = listed_rows(e, a->biases->in[0], &in[0]);
  for (int64_t i = 0; i < places; ++i) {
    int64_t row = i - reach_of(a) + a->far;
    row = row < 0 ? 0 : row >= rows ? rows - 1 : row;
    numbers[i] = listed ? listed->ints[row] : row;
  }
  BD_TRY(emit_list(e, places, numbers, &in[1]));
  in[0] = bd_edit_value(e, in[0]);
  BD_TRY(bd_edit_emit(e, BD_OP_EMBED, 2, in, 0, NULL, out));
  BD_TRY(bd_emit_turned(e, "ab", "ba", out));
  bd_attr scale = bd_attr_real(e->ctx, "value", a->biases_scale);
  return a->biases_scale == 1 ? BD_OK : bd_edit_emit(e, BD_OP_SCALE, 1, out, 1, &scale, out);
}
