#include "ir/passes/recover/attention.h"
#include "ir/passes/recover/known.h"
#include "ir/passes/recover/matched.h"
#include "ir/passes/recover/views.h"
#include <string.h>

// What is masked gets at most this: no score brings its probability above 0 in f32.
static const double masked_score = -1e4;

static const char softmax[] = "div(?e:exp(sub(?s,rows(most(?s)))),rows(sum(?e)))";
// Rows without any score give no number, which exporters replace; a triangle has no such row.
static const char guarded[] = "select(not(eq(?p,?p)),0,?p)";

typedef struct attending {
  bd_edit *e;
  bd_id scores; // then what they are made of
  double scale; // of the product of queries and keys
  bool causal;
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

// A mask that adds 0 to what is allowed, and next to -inf to the rest.
static bool take_sum(attending *a, const bd_op *op) {
  for (int mask = 1; mask >= 0; --mask) {
    bd_known known;
    double below, above;
    int rank = a->e->from->values[op->in[mask]].type.rank;
    if (!bd_known_of(a->e->from, op->in[mask], &known)) continue;
    bool uniform = bd_known_uniform(&known, &below);
    if (!uniform && !bd_known_triangle(&known, rank, &below, &above)) return false;
    if (below != 0 || (!uniform && above * a->scale > masked_score)) return false;
    a->causal = a->causal || !uniform;
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

static bd_status emit(attending *a, bd_id result) {
  bd_edit *e = a->e;
  size_t rank = strlen(a->score);
  char row = a->score[rank - 2], column = a->score[rank - 1];
  bd_id in[3], out;
  BD_TRY(arrange(a, &a->q, row, a->inner, &in[0]));
  BD_TRY(arrange(a, &a->k, column, a->inner, &in[1]));
  BD_TRY(arrange(a, &a->v, column, '*', &in[2]));
  bd_attr attrs[4] = {bd_attr_real(e->ctx, "scale", a->scale),
                      bd_attr_int(e->ctx, "causal", a->causal)};
  if (a->dropout) {
    attrs[2] = bd_attr_real(e->ctx, "dropout", bd_op_real(a->dropout, "p", 0));
    attrs[3] = bd_attr_int(e->ctx, "site", bd_op_int(a->dropout, "site", 0));
  }
  BD_TRY(bd_edit_emit(e, BD_OP_ATTENTION, 3, in, a->dropout ? 4 : 2, attrs, &out));
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
    attending a = {.e = e, .scale = 1};
    if (!find_softmax(&a, op->in[probabilities])) continue;
    const bd_op *product = find_product(&a);
    if (product && find_queries(&a, product) && find_values(&a, op, probabilities) &&
        has_right_letters(&a) && has_right_types(&a))
      return emit(&a, op->out[0]);
  }
  return BD_OK;
}
