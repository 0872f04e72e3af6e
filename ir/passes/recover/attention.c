#include "ir/passes/recover/attention.h"
#include "ir/passes/recover/attending.h"
#include "ir/passes/recover/matched.h"
#include <string.h>

static const char softmax[] = "div(?e:exp(sub(?s,rows(most(?s)))),rows(sum(?e)))";
// Rows without any score give no number, which exporters replace; a triangle has no such row.
static const char guarded[] = "select(not(eq(?p,?p)),0,?p)";

static bool read_once(const bd_edit *e, bd_id id) {
  return bd_edit_reads(e, id) == 1;
}

// From the probabilities to the scores.
static bool find_softmax(bd_attending *a, bd_id p) {
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

// From the scores to the contraction of queries and keys, or NULL.
static const bd_op *find_product(bd_attending *a) {
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
      if (!bd_attending_take_select(a, op)) return NULL;
      break;
    case BD_OP_MAX:
      if (!bd_attending_take_bound(a, op)) return NULL;
      break;
    case BD_OP_ADD:
      if (!bd_attending_take_sum(a, op)) return NULL;
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
static bool find_queries(bd_attending *a, const bd_op *product) {
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
static bool rename_letters(bd_attending *a, const char *probabilities, char *letters) {
  for (; *letters; ++letters) {
    const char *place = strchr(probabilities, *letters);
    if (!place && a->wide && *letters != a->wide) return false;
    if (!place) a->wide = *letters;
    *letters = place ? a->score[place - probabilities] : '*';
  }
  return true;
}

static bool find_values(bd_attending *a, const bd_op *op, int probabilities) {
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
static bool has_right_letters(bd_attending *a) {
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

static int64_t extent_of(const bd_attending *a, const bd_lettered *value, char letter) {
  return a->e->from->values[value->id].type.dims[strchr(value->letters, letter) - value->letters];
}

static bool has_right_types(const bd_attending *a) {
  bd_dtype dtype = a->e->from->values[a->q.id].type.dtype;
  return bd_dtype_is_float(dtype) && dtype != BD_F64;
}

// A window is of what a triangle leaves, of as many keys as queries.
static bool has_right_window(const bd_attending *a) {
  size_t rank = strlen(a->score);
  return a->window == 0 ||
         (a->causal && !a->biases &&
          extent_of(a, &a->q, a->score[rank - 2]) <= extent_of(a, &a->k, a->score[rank - 1]));
}

// One operand as [b, place, heads, width].
static bd_status arrange(bd_attending *a, const bd_lettered *value, char place, char width,
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

static bd_status emit_attention(bd_attending *a, bd_id in[4], bd_id *out) {
  bd_edit *e = a->e;
  int64_t width = bd_edit_type(e, in[2])->dims[3];
  bd_attr attrs[5] = {bd_attr_real(e->ctx, "scale", a->scale),
                      bd_attr_int(e->ctx, "causal", a->causal)};
  int count = 2;
  if (a->window > 0) attrs[count++] = bd_attr_int(e->ctx, "window", (int64_t)a->window);
  if (a->dropout) {
    attrs[count++] = bd_attr_real(e->ctx, "dropout", bd_op_real(a->dropout, "p", 0));
    attrs[count++] = bd_attr_int(e->ctx, "site", bd_op_int(a->dropout, "site", 0));
  }
  if (a->hidden.id != BD_NO_ID) BD_TRY(bd_attending_hide_keys(a, in));
  if (a->biases) BD_TRY(bd_attending_emit_biases(a, &in[3]));
  BD_TRY(bd_edit_emit(e, a->biases ? BD_OP_RELATIVE_ATTENTION : BD_OP_ATTENTION, a->biases ? 4 : 3,
                      in, count, attrs, out));
  bd_attr slice[] = {bd_attr_int(e->ctx, "dim", 3), bd_attr_int(e->ctx, "start", 0),
                     bd_attr_int(e->ctx, "size", width)};
  return a->hidden.id == BD_NO_ID ? BD_OK : bd_edit_emit(e, BD_OP_SLICE, 1, out, 3, slice, out);
}

static bd_status emit(bd_attending *a, bd_id result) {
  bd_edit *e = a->e;
  size_t rank = strlen(a->score);
  char row = a->score[rank - 2], column = a->score[rank - 1];
  bd_id in[4], out;
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
    bd_attending a = {.e = e, .scale = 1, .hidden = {.id = BD_NO_ID}};
    if (!find_softmax(&a, op->in[probabilities])) continue;
    const bd_op *product = find_product(&a);
    if (product && find_queries(&a, product) && find_values(&a, op, probabilities) &&
        has_right_letters(&a) && has_right_types(&a) && bd_attending_can_bias(&a) &&
        has_right_window(&a))
      return emit(&a, op->out[0]);
  }
  return BD_OK;
}
