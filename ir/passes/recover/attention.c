#include "ir/passes/recover/attention.h"
#include "ir/passes/recover/known.h"
#include "ir/passes/recover/matched.h"
#include "ir/passes/recover/views.h"
#include <string.h>

// What is masked gets at most this: no score brings its probability above 0 in f32.
static const double masked_score = -1e4;
// The most that one of the terms takes from a score; of f16, too.
static const double hidden_term = -3e4;

enum { MAX_MASKS = 16, MORE = 8 };

static const char softmax[] = "div(?e:exp(sub(?s,rows(most(?s)))),rows(sum(?e)))";
// Rows without any score give no number, which exporters replace; a triangle has no such row.
static const char guarded[] = "select(not(eq(?p,?p)),0,?p)";

typedef struct attending {
  bd_edit *e;
  bd_id scores; // then what they are made of
  int rank;     // of the scores
  double scale; // of the product of queries and keys
  bool causal;
  bd_lettered hidden;           // what is added to the scores of keys, or BD_NO_ID
  double hidden_scale;          // of that
  bool hides_where;             // it is a condition, for what is hidden
  const bd_op *dropout;         // of the probabilities, or NULL
  bd_lettered q, k, v;          // letters are those of the scores' dimensions, and two more
  char score[BD_MAX_RANK + 1];  // letters of the scores: b, heads, t, s
  char result[BD_MAX_RANK + 1]; // letters of the result
  char inner, wide;             // summed over queries and keys; the values' own, in the second rule
} attending;

static bool read_once(const bd_edit *e, bd_id id) {
  return bd_edit_reads(e, id) == 1;
}

// From the probabilities to the scores.
static bool find_softmax(attending *a, bd_id p) {
  bd_match match;
  bd_ctx *ctx = a->e->ctx;
  const bd_op *op = bd_edit_producer(a->e, p);
  if (!op) return false;
  if (op->kind == BD_OP_DROPOUT) {
    a->dropout = op;
    if (!read_once(a->e, p)) return false;
    p = op->in[0];
  }
  if (bd_pattern_match(bd_pattern_read(ctx, guarded), a->e->from, p, &match)) {
    if (!bd_match_is_closed(a->e, &match, p)) return false;
    p = match.value['p' - 'a'];
  } else if (!read_once(a->e, p)) {
    return false;
  }
  if (!bd_pattern_match(bd_pattern_read(ctx, softmax), a->e->from, p, &match) ||
      !bd_match_is_closed(a->e, &match, p))
    return false;
  a->scores = match.value['s' - 'a'];
  a->rank = a->e->from->values[a->scores].type.rank;
  return bd_edit_reads(a->e, a->scores) == 2;
}

// Scores where a condition allows them, and next to -inf elsewhere.
static bool take_select(attending *a, const bd_op *op) {
  const bd_function *from = a->e->from;
  int rank = from->values[op->in[0]].type.rank;
  bd_known condition, other;
  double below, above, least;
  if (!bd_known_of(from, op->in[0], &condition)) return false;
  bool uniform = bd_known_uniform(&condition, &below);
  if (!uniform && !bd_known_triangle(&condition, rank, &below, &above)) return false;
  int scores = below != 0 ? 1 : 2;
  if (!bd_known_of(from, op->in[3 - scores], &other) || !bd_known_uniform(&other, &least) ||
      least * a->scale > masked_score || (!uniform && (above != 0) == (below != 0)))
    return false;
  a->causal = a->causal || !uniform;
  a->scores = op->in[scores];
  return true;
}

// Letters of a mask are its places among the dimensions of the scores, from 'A'.
static char column_of(const attending *a) {
  return (char)('A' + a->rank - 1);
}

// Operand `id` of a pointwise op whose result has `letters` stands at the last of them.
static bd_lettered operand_of(const attending *a, const char *letters, bd_id id) {
  bd_lettered made = {.id = id};
  size_t rank = (size_t)a->e->from->values[id].type.rank, all = strlen(letters);
  if (rank <= all) memcpy(made.letters, letters + (all - rank), rank);
  return made;
}

// Off its repetitions, whether the value has the samples and the keys as its two dimensions.
static bool is_by_key(const attending *a, bd_lettered *value) {
  const char wanted[] = {'A', column_of(a), 0};
  while (strcmp(value->letters, wanted) != 0)
    if (!bd_strip_view(a->e, "ABCDEFGH", value)) return false;
  return true;
}

static bool hide(attending *a, const bd_lettered *hidden, bool where) {
  if (a->hidden.id != BD_NO_ID) return false;
  a->hidden = *hidden;
  a->hidden_scale = a->scale;
  a->hides_where = where;
  return true;
}

// What is next to -inf for every element.
static bool is_least(const attending *a, bd_id id) {
  bd_known known;
  double least;
  return bd_known_of(a->e->from, id, &known) && bd_known_uniform(&known, &least) &&
         least * a->scale <= masked_score;
}

// A mask known beforehand: 0 for what is allowed, next to -inf for the rest.
static bool take_known(attending *a, const bd_lettered *mask, const bd_known *known) {
  double below, above;
  int rank = (int)strlen(mask->letters);
  if (bd_known_uniform(known, &below)) return below == 0;
  if (!bd_known_triangle(known, rank, &below, &above) || below != 0 ||
      above * a->scale > masked_score || mask->letters[rank - 1] != column_of(a) ||
      mask->letters[rank - 2] != column_of(a) - 1)
    return false;
  a->causal = true;
  return true;
}

static bool take_mask(attending *a, bd_lettered mask, int depth);

// select(condition, -inf, mask), with a condition that is a triangle, or one for each key.
static bool take_chosen(attending *a, const bd_lettered *mask, const bd_op *op, int depth) {
  bd_lettered condition = operand_of(a, mask->letters, op->in[0]);
  int rest = is_least(a, op->in[1]) ? 2 : 1;
  bd_known known;
  double below, above;
  if (!is_least(a, op->in[3 - rest])) return false;
  if (!bd_known_of(a->e->from, condition.id, &known)) {
    if (rest == 1 || !is_by_key(a, &condition) || !hide(a, &condition, true)) return false;
  } else if (!bd_known_uniform(&known, &below)) {
    int rank = (int)strlen(condition.letters);
    if (!bd_known_triangle(&known, rank, &below, &above) || (below != 0) != (rest == 1) ||
        (above != 0) == (below != 0) || condition.letters[rank - 1] != column_of(a) ||
        condition.letters[rank - 2] != column_of(a) - 1)
      return false;
    a->causal = true;
  } else if ((below != 0) != (rest == 1)) {
    return false;
  }
  return take_mask(a, operand_of(a, mask->letters, op->in[rest]), depth + 1);
}

// A mask that is added to the scores.
static bool take_mask(attending *a, bd_lettered mask, int depth) {
  bd_known known;
  if (depth == MAX_MASKS) return false;
  if (bd_known_of(a->e->from, mask.id, &known)) return take_known(a, &mask, &known);
  const bd_op *op = bd_edit_producer(a->e, mask.id);
  if (op && op->kind == BD_OP_ADD)
    return take_mask(a, operand_of(a, mask.letters, op->in[0]), depth + 1) &&
           take_mask(a, operand_of(a, mask.letters, op->in[1]), depth + 1);
  if (op && op->kind == BD_OP_SELECT) return take_chosen(a, &mask, op, depth);
  bd_lettered hidden = mask;
  if (is_by_key(a, &hidden)) return hide(a, &hidden, false);
  return bd_strip_view(a->e, "ABCDEFGH", &mask) && take_mask(a, mask, depth + 1);
}

static bool take_sum(attending *a, const bd_op *op) {
  char letters[BD_MAX_RANK + 1] = {0};
  for (int d = 0; d < a->rank; ++d)
    letters[d] = (char)('A' + d);
  for (int mask = 1; mask >= 0; --mask) {
    attending tried = *a;
    if (!take_mask(&tried, operand_of(a, letters, op->in[mask]), 0)) continue;
    *a = tried;
    a->scores = op->in[1 - mask];
    return true;
  }
  return false;
}

// From the scores to the contraction of queries and keys, or NULL.
static const bd_op *find_product(attending *a) {
  for (;;) {
    const bd_op *op = bd_edit_producer(a->e, a->scores);
    if (!op) return NULL;
    switch (op->kind) {
    case BD_OP_CONTRACT:
      return op;
    case BD_OP_SCALE:
      if (!(bd_op_real(op, "value", 0) > 0)) return NULL;
      a->scale *= bd_op_real(op, "value", 0);
      a->scores = op->in[0];
      break;
    case BD_OP_SELECT:
      if (!take_select(a, op)) return NULL;
      break;
    case BD_OP_ADD:
      if (!take_sum(a, op)) return NULL;
      break;
    default:
      return NULL;
    }
  }
}

static bool has(const char *letters, char letter) {
  return letter && strchr(letters, letter);
}

// Queries and keys by their letters; scales of either are the product's.
static bool find_queries(attending *a, const bd_op *product) {
  bd_lettered in[2];
  if (!bd_split_rule(bd_op_string(product, "rule"), in, a->score)) return false;
  size_t rank = strlen(a->score);
  if (rank < 3) return false;
  char last = a->score[rank - 1];
  int keys = has(in[1].letters, last);
  for (int i = 0; i < 2; ++i) {
    in[i].id = product->in[i];
    for (;;) {
      const bd_op *op = bd_edit_producer(a->e, in[i].id);
      if (op && op->kind == BD_OP_SCALE && bd_op_real(op, "value", 0) > 0) {
        a->scale *= bd_op_real(op, "value", 0);
        in[i].id = op->in[0];
      } else if (!bd_strip_view(a->e, a->score, &in[i])) {
        break;
      }
    }
  }
  a->q = in[!keys];
  a->k = in[keys];
  return !has(a->q.letters, last) && has(a->k.letters, last);
}

// Letters of the second product's rule, as those of the scores; '*': the values' own dimension.
static bool rename_letters(attending *a, const char *probabilities, char *letters) {
  for (; *letters; ++letters) {
    const char *place = strchr(probabilities, *letters);
    if (!place && a->wide && *letters != a->wide) return false;
    if (!place) a->wide = *letters;
    *letters = place ? a->score[place - probabilities] : '*';
  }
  return true;
}

static bool find_values(attending *a, const bd_op *op, int probabilities) {
  bd_lettered in[2];
  if (!bd_split_rule(bd_op_string(op, "rule"), in, a->result)) return false;
  const char *from = in[probabilities].letters;
  a->v = in[1 - probabilities];
  a->v.id = op->in[1 - probabilities];
  if (strlen(from) != strlen(a->score)) return false;
  while (bd_strip_view(a->e, from, &a->v))
    continue;
  return rename_letters(a, from, a->v.letters) && rename_letters(a, from, a->result);
}

static bool has_all(const char *letters, const char *wanted) {
  for (; *wanted; ++wanted)
    if (!has(letters, *wanted)) return false;
  return true;
}

// Whether the letters are those of an attention: queries b, heads, t and the inner one; keys and
// values b, the first heads, s and the inner one, or the values' own.
static bool has_right_letters(attending *a) {
  size_t rank = strlen(a->score);
  char batch = a->score[0], row = a->score[rank - 2], column = a->score[rank - 1];
  size_t shared = 0;
  for (const char *at = a->q.letters; *at; ++at)
    if (!has(a->score, *at)) {
      if (a->inner) return false;
      a->inner = *at;
    }
  for (size_t i = 1; i + 2 < rank; ++i)
    shared += has(a->k.letters, a->score[i]);
  char queries[] = {batch, row, a->inner, 0}, keys[] = {batch, column, a->inner, 0};
  char values[] = {batch, column, '*', 0}, results[] = {batch, row, '*', 0};
  size_t heads = rank - 3;
  if (!a->inner || !a->wide || strlen(a->q.letters) != 3 + heads ||
      strlen(a->k.letters) != 3 + shared || strlen(a->v.letters) != 3 + shared ||
      strlen(a->result) != 3 + heads)
    return false;
  for (size_t i = 0; i < heads; ++i) {
    char head = a->score[1 + i];
    if (!has(a->q.letters, head) || !has(a->result, head)) return false;
    if (has(a->k.letters, head) != (i < shared) || has(a->v.letters, head) != (i < shared))
      return false;
  }
  return has_all(a->q.letters, queries) && has_all(a->k.letters, keys) &&
         has_all(a->v.letters, values) && has_all(a->result, results);
}

static int64_t extent_of(const attending *a, const bd_lettered *value, char letter) {
  return a->e->from->values[value->id].type.dims[strchr(value->letters, letter) - value->letters];
}

static bool has_right_types(const attending *a) {
  bd_dtype dtype = a->e->from->values[a->q.id].type.dtype;
  return bd_dtype_is_float(dtype) && dtype != BD_F64 &&
         extent_of(a, &a->q, a->inner) == extent_of(a, &a->v, '*');
}

// One operand as [b, place, heads, width].
static bd_status arrange(attending *a, const bd_lettered *value, char place, char width,
                         bd_id *out) {
  char wanted[BD_MAX_RANK + 1] = {a->score[0], place}, *at = wanted + 2;
  int64_t dims[4] = {0, 0, 1, 0};
  for (const char *head = a->score + 1; head[2]; ++head)
    if (has(value->letters, *head)) *at++ = *head;
  *at = width;
  *out = bd_edit_value(a->e, value->id);
  BD_TRY(bd_emit_turned(a->e, value->letters, wanted, out));
  bd_type type = *bd_edit_type(a->e, *out);
  dims[0] = type.dims[0];
  dims[1] = type.dims[1];
  dims[3] = type.dims[type.rank - 1];
  for (int d = 2; d < type.rank - 1; ++d)
    dims[2] *= type.dims[d];
  return bd_emit_reshaped(a->e, 4, dims, out);
}

// What is added to the scores of keys, as a part of the product's terms: f32[b, s].
static bd_status emit_hidden(attending *a, bd_id *out) {
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
static bd_status hide_keys(attending *a, bd_id in[3]) {
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

static bd_status emit_attention(attending *a, bd_id in[3], bd_id *out) {
  bd_edit *e = a->e;
  int64_t width = bd_edit_type(e, in[0])->dims[3];
  bd_attr attrs[4] = {bd_attr_real(e->ctx, "scale", a->scale),
                      bd_attr_int(e->ctx, "causal", a->causal)};
  if (a->dropout) {
    attrs[2] = bd_attr_real(e->ctx, "dropout", bd_op_real(a->dropout, "p", 0));
    attrs[3] = bd_attr_int(e->ctx, "site", bd_op_int(a->dropout, "site", 0));
  }
  if (a->hidden.id != BD_NO_ID) BD_TRY(hide_keys(a, in));
  BD_TRY(bd_edit_emit(e, BD_OP_ATTENTION, 3, in, a->dropout ? 4 : 2, attrs, out));
  bd_attr slice[] = {bd_attr_int(e->ctx, "dim", 3), bd_attr_int(e->ctx, "start", 0),
                     bd_attr_int(e->ctx, "size", width)};
  return a->hidden.id == BD_NO_ID ? BD_OK : bd_edit_emit(e, BD_OP_SLICE, 1, out, 3, slice, out);
}

static bd_status emit(attending *a, bd_id result) {
  bd_edit *e = a->e;
  size_t rank = strlen(a->score);
  char row = a->score[rank - 2], column = a->score[rank - 1];
  bd_id in[3], out;
  BD_TRY(arrange(a, &a->q, row, a->inner, &in[0]));
  BD_TRY(arrange(a, &a->k, column, a->inner, &in[1]));
  BD_TRY(arrange(a, &a->v, column, '*', &in[2]));
  BD_TRY(emit_attention(a, in, &out));
  char made[BD_MAX_RANK + 1] = {a->score[0], row};
  int64_t dims[BD_MAX_RANK];
  memcpy(made + 2, a->score + 1, rank - 3);
  made[rank - 1] = '*';
  const bd_type *type = &e->from->values[result].type;
  for (size_t i = 0; i < rank; ++i)
    dims[i] = type->dims[strchr(a->result, made[i]) - a->result];
  BD_TRY(bd_emit_reshaped(e, (int)rank, dims, &out));
  BD_TRY(bd_emit_turned(e, made, a->result, &out));
  bd_edit_stand(e, result, out);
  return BD_OK;
}

bd_status bd_recover_attention(bd_edit *e, const void *user) {
  (void)user;
  const bd_op *op = &e->from->ops[e->at];
  if (op->kind != BD_OP_CONTRACT) return BD_OK;
  for (int probabilities = 0; probabilities < 2; ++probabilities) {
    attending a = {.e = e, .scale = 1, .hidden = {.id = BD_NO_ID}};
    if (!find_softmax(&a, op->in[probabilities])) continue;
    const bd_op *product = find_product(&a);
    if (product && find_queries(&a, product) && find_values(&a, op, probabilities) &&
        has_right_letters(&a) && has_right_types(&a))
      return emit(&a, op->out[0]);
  }
  return BD_OK;
}
