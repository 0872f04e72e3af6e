#include "ir/passes/recover/attending.h"
#include "ir/passes/recover/known.h"
#include <string.h>

// What is masked gets at most this: no score brings its probability above 0 in f32.
static const double masked_score = -1e4;
// The most that one of the terms takes from a score; of f16, too.
static const double hidden_term = -3e4;

// How deep masks are made of others; and how many terms hide keys.
enum { MAX_MASKS = 16, MORE = 8 };

// Letters of a mask are its places among the dimensions of the scores, from 'A'.
static char column_of(const bd_attending *a) {
  return (char)('A' + a->rank - 1);
}

// Operand `id` of a pointwise op whose result has `letters` stands at the last of them.
static bd_lettered operand_of(const bd_attending *a, const char *letters, bd_id id) {
  bd_lettered made = {.id = id};
  size_t rank = (size_t)a->e->from->values[id].type.rank, all = strlen(letters);
  if (rank <= all) memcpy(made.letters, letters + (all - rank), rank);
  return made;
}

// Off its repetitions, whether the value has the samples and the keys as its two dimensions.
static bool is_by_key(const bd_attending *a, bd_lettered *value) {
  const char wanted[] = {'A', column_of(a), 0};
  while (strcmp(value->letters, wanted) != 0)
    if (!bd_strip_view(a->e, "ABCDEFGH", value)) return false;
  return true;
}

static bool hide(bd_attending *a, const bd_lettered *hidden, bool where) {
  if (a->hidden.id != BD_NO_ID) return false;
  a->hidden = *hidden;
  a->hidden_scale = a->scale;
  a->hides_where = where;
  return true;
}

// What is next to -inf for every element.
static bool is_least(const bd_attending *a, bd_id id) {
  bd_known known;
  double least;
  return bd_known_of(a->e->from, id, &known) && bd_known_uniform(&known, &least) &&
         least * a->scale <= masked_score;
}

// A triangle of the scores' last two dimensions: of what is seen or of the rest.
typedef struct triangle {
  double reach, below, above;
} triangle;

static bool find_triangle(const bd_attending *a, const char *letters, const bd_known *known,
                          triangle *out) {
  int rank = (int)strlen(letters);
  return bd_known_triangle(known, rank, &out->reach, &out->below, &out->above) &&
         letters[rank - 1] == column_of(a) && letters[rank - 2] == column_of(a) - 1;
}

// The keys up to the query are seen, or those behind the one that is a window before it.
static bool take_triangle(bd_attending *a, double reach, bool sees_below, bool sees_above) {
  if (sees_below == sees_above || (sees_below ? reach != 0 : reach >= 0)) return false;
  if (sees_below)
    a->causal = true;
  else if (a->window == 0 || -reach < a->window)
    a->window = -reach;
  return true;
}

// A mask known beforehand: 0 for what is allowed, next to -inf for the rest.
static bool take_known(bd_attending *a, const bd_lettered *mask, const bd_known *known) {
  triangle t;
  double same;
  if (bd_known_uniform(known, &same)) return same == 0;
  if (!find_triangle(a, mask->letters, known, &t)) return false;
  double hidden = t.below == 0 ? t.above : t.below;
  return hidden * a->scale <= masked_score && take_triangle(a, t.reach, t.below == 0, t.above == 0);
}

// A condition that chooses between operand `rest` of a select, 1 or 2, and next to -inf: a
// triangle, or one for each key; or that all of several hold, or any that hides.
static bool take_condition(bd_attending *a, bd_lettered condition, int rest, int depth) {
  bd_known known;
  triangle t;
  double same;
  if (depth == MAX_MASKS) return false;
  if (!bd_known_of(a->e->from, condition.id, &known)) {
    bd_lettered by_key = condition;
    if (rest == 2 && is_by_key(a, &by_key)) return hide(a, &by_key, true);
    const bd_op *op = bd_edit_producer(a->e, condition.id);
    if (op && op->kind == (rest == 1 ? BD_OP_AND : BD_OP_OR))
      return take_condition(a, operand_of(a, condition.letters, op->in[0]), rest, depth + 1) &&
             take_condition(a, operand_of(a, condition.letters, op->in[1]), rest, depth + 1);
    return bd_strip_view(a->e, "ABCDEFGH", &condition) &&
           take_condition(a, condition, rest, depth + 1);
  }
  if (bd_known_uniform(&known, &same)) return (same != 0) == (rest == 1);
  return find_triangle(a, condition.letters, &known, &t) &&
         take_triangle(a, t.reach, (t.below != 0) == (rest == 1), (t.above != 0) == (rest == 1));
}

// A mask that is added to the scores.
static bool take_mask(bd_attending *a, bd_lettered mask, int depth) {
  bd_known known;
  if (depth == MAX_MASKS) return false;
  if (bd_known_of(a->e->from, mask.id, &known)) return take_known(a, &mask, &known);
  const bd_op *op = bd_edit_producer(a->e, mask.id);
  if (op && op->kind == BD_OP_ADD)
    return take_mask(a, operand_of(a, mask.letters, op->in[0]), depth + 1) &&
           take_mask(a, operand_of(a, mask.letters, op->in[1]), depth + 1);
  if (op && op->kind == BD_OP_SELECT) {
    int rest = is_least(a, op->in[1]) ? 2 : 1;
    return is_least(a, op->in[3 - rest]) &&
           take_condition(a, operand_of(a, mask.letters, op->in[0]), rest, 0) &&
           take_mask(a, operand_of(a, mask.letters, op->in[rest]), depth + 1);
  }
  if (op && op->kind == BD_OP_EMBED) return bd_attending_take_biases(a, &mask, op);
  bd_lettered hidden = mask;
  if (is_by_key(a, &hidden)) return hide(a, &hidden, false);
  return bd_strip_view(a->e, "ABCDEFGH", &mask) && take_mask(a, mask, depth + 1);
}

// The letters of the scores' dimensions.
static void letter_scores(const bd_attending *a, char letters[BD_MAX_RANK + 1]) {
  for (int d = 0; d < a->rank; ++d)
    letters[d] = (char)('A' + d);
  letters[a->rank] = '\0';
}

bool bd_attending_take_select(bd_attending *a, const bd_op *op) {
  char letters[BD_MAX_RANK + 1];
  int rest = is_least(a, op->in[1]) ? 2 : 1;
  letter_scores(a, letters);
  if (!is_least(a, op->in[3 - rest]) ||
      !take_condition(a, operand_of(a, letters, op->in[0]), rest, 0))
    return false;
  a->scores = op->in[rest];
  return true;
}

bool bd_attending_take_bound(bd_attending *a, const bd_op *op) {
  int rest = is_least(a, op->in[0]) ? 1 : 0;
  if (!is_least(a, op->in[1 - rest])) return false;
  a->scores = op->in[rest];
  return true;
}

bool bd_attending_take_sum(bd_attending *a, const bd_op *op) {
  char letters[BD_MAX_RANK + 1];
  letter_scores(a, letters);
  for (int mask = 1; mask >= 0; --mask) {
    bd_attending tried = *a;
    if (!take_mask(&tried, operand_of(a, letters, op->in[mask]), 0)) continue;
    *a = tried;
    a->scores = op->in[1 - mask];
    return true;
  }
  return false;
}

// What is added to the scores of keys, as a part of the product's terms: f32[b, s].
static bd_status emit_hidden(bd_attending *a, bd_id *out) {
  bd_edit *e = a->e;
  bd_id in[] = {bd_edit_value(e, a->hidden.id), BD_NO_ID, BD_NO_ID};
  bd_dtype dtype = e->from->values[a->q.id].type.dtype;
  bd_attr attrs[] = {bd_attr_string(e->ctx, "dtype", bd_dtype_name(dtype)),
                     bd_attr_ints(e->ctx, "dims", 0, NULL),
                     bd_attr_real(e->ctx, "value", hidden_term)};
  BD_TRY(bd_edit_emit(e, BD_OP_CONSTANT, 0, NULL, 3, attrs, &in[1]));
  if (a->hides_where) {
    attrs[2] = bd_attr_real(e->ctx, "value", 0);
    BD_TRY(bd_edit_emit(e, BD_OP_CONSTANT, 0, NULL, 3, attrs, &in[2]));
    return bd_edit_emit(e, BD_OP_SELECT, 3, in, 0, NULL, out);
  }
  bd_attr share = bd_attr_real(e->ctx, "value", a->hidden_scale / (MORE * a->scale));
  BD_TRY(bd_edit_emit(e, BD_OP_SCALE, 1, in, 1, &share, &in[0]));
  return bd_edit_emit(e, BD_OP_MAX, 2, in, 0, NULL, out);
}

// x with MORE elements in its last dimension, which are `value`.
static bd_status widen(bd_edit *e, double value, bd_id *x) {
  bd_attr attrs[] = {bd_attr_int(e->ctx, "dim", 3), bd_attr_int(e->ctx, "start", 0),
                     bd_attr_int(e->ctx, "size", bd_edit_type(e, *x)->dims[3] + MORE),
                     bd_attr_real(e->ctx, "value", value)};
  return bd_edit_emit(e, BD_OP_PAD, 1, x, 4, attrs, x);
}

// Terms that the product of queries and keys has more, ones times what hides keys; as many as keep
// rows whole vectors.
bd_status bd_attending_hide_keys(bd_attending *a, bd_id in[3]) {
  bd_edit *e = a->e;
  bd_type type = *bd_edit_type(e, in[1]);
  bd_id hidden;
  type.dims[3] = MORE;
  BD_TRY(emit_hidden(a, &hidden));
  bd_attr repeat[] = {bd_attr_string(e->ctx, "rule", "AB->ABCD"),
                      bd_attr_ints(e->ctx, "dims", 4, type.dims)};
  BD_TRY(bd_edit_emit(e, BD_OP_BROADCAST, 1, &hidden, 2, repeat, &hidden));
  bd_attr dim = bd_attr_int(e->ctx, "dim", 3);
  BD_TRY(bd_edit_emit(e, BD_OP_CONCAT, 2, (bd_id[]){in[1], hidden}, 1, &dim, &in[1]));
  BD_TRY(widen(e, 1, &in[0]));
  return widen(e, 0, &in[2]);
}
