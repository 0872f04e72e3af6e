// Einstein's sums: a chain of contractions, one operand after another.
#include "frontend/onnx/infer/einsum.h"
#include "frontend/onnx/lower/layout.h"
#include <string.h>

// A value whose dimensions, one of the graph each, have letters.
typedef struct term {
  bd_id id;
  int rank;
  char letters[2 * BD_MAX_RANK + 1];
} term;

static bool has(const char *letters, char letter) {
  return strchr(letters, letter) != NULL;
}

// Adds up the dimensions of a term whose letters are not in `kept`.
static bd_status drop(bd_onnx_lowering *l, const char *kept, term *t) {
  char all[BD_MAX_RANK + 1] = {0}, left[BD_MAX_RANK + 1] = {0}, letters[BD_MAX_RANK + 1] = {0};
  int count = 0;
  for (int d = 0; d < t->rank; d++) {
    all[d] = (char)('A' + d);
    if (!has(kept, t->letters[d])) continue;
    left[count] = all[d];
    letters[count++] = t->letters[d];
  }
  if (count == t->rank) return BD_OK;
  const char *rule = bd_intern_f(l->ctx, "%s->%s", all, left);
  BD_TRY(bd_onnx_emit_rule(l, BD_OP_REDUCE_SUM, 1, &t->id, rule, &t->id));
  t->rank = count;
  memcpy(t->letters, letters, sizeof letters);
  return BD_OK;
}

// Dimensions d - 1 and d, of one letter, as one: every (n + 1)-th of n * n elements.
static bd_status take_diagonal(bd_onnx_lowering *l, const bd_onnx_step *step, int d, term *t) {
  bd_type type = *bd_onnx_type(l, t->id);
  int64_t n = type.dims[d];
  if (n == BD_DIM_BATCH)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "takes a diagonal of the batch");
  type.dims[d - 1] = n * n;
  for (int i = d; i + 1 < type.rank; i++) {
    type.dims[i] = type.dims[i + 1];
    t->letters[i] = t->letters[i + 1];
  }
  t->letters[--t->rank] = '\0';
  BD_TRY(bd_onnx_emit_reshape(l, t->id, type.rank - 1, type.dims, &t->id));
  bd_attr attrs[] = {bd_attr_int(l->ctx, "dim", d - 1), bd_attr_int(l->ctx, "start", 0),
                     bd_attr_int(l->ctx, "size", n), bd_attr_int(l->ctx, "step", n + 1)};
  return bd_onnx_emit(l, BD_OP_SLICE, 1, &t->id, 4, attrs, &t->id);
}

// Operand `i`: dimensions of extent 1 are left out, where they are stretched too.
static bd_status take_term(bd_onnx_lowering *l, const bd_onnx_step *step, const bd_onnx_einsum *sum,
                           int i, term *out) {
  bd_onnx_part part;
  *out = (term){.rank = 0};
  BD_TRY(bd_onnx_operand(l, step, i, &part));
  for (int d = 0; d < sum->rank[i]; d++) {
    int wide = part.first[d + 1] - part.first[d];
    char letter = sum->in[i][d];
    if (wide == 0) continue;
    if (wide > 1)
      return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                               "sums over products of dimensions that its operands do not share");
    out->letters[out->rank++] = letter;
  }
  out->id = part.id;
  for (int d = 1; d < out->rank; d++)
    if (out->letters[d] == out->letters[d - 1]) BD_TRY(take_diagonal(l, step, d--, out));
  for (int d = 0; d < out->rank; d++)
    if (has(out->letters + d + 1, out->letters[d]))
      return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                               "takes a diagonal of dimensions that are not neighbours");
  return BD_OK;
}

// The product of two terms; of the letters, those in `kept` stay.
static bd_status multiply(bd_onnx_lowering *l, const bd_onnx_step *step, const char *kept, term *a,
                          term *b) {
  char both[4 * BD_MAX_RANK + 1] = {0}, of_a[BD_MAX_RANK + 1] = {0}, of_b[BD_MAX_RANK + 1] = {0};
  char to[2 * BD_MAX_RANK + 1] = {0}, letters[2 * BD_MAX_RANK + 1] = {0};
  int count = 0, rank = 0;
  // What only one of them has is added up before.
  const char *kept_a = bd_intern_f(l->ctx, "%s%s", kept, b->letters);
  const char *kept_b = bd_intern_f(l->ctx, "%s%s", kept, a->letters);
  BD_TRY(drop(l, kept_a, a));
  BD_TRY(drop(l, kept_b, b));
  for (int d = 0; d < a->rank + b->rank; d++) {
    char letter = d < a->rank ? a->letters[d] : b->letters[d - a->rank];
    if (!has(both, letter)) both[count++] = letter;
    char small = (char)('a' + (strchr(both, letter) - both));
    if (d < a->rank)
      of_a[d] = small;
    else
      of_b[d - a->rank] = small;
  }
  for (int i = 0; i < count; i++) {
    if (!has(kept, both[i])) continue;
    to[rank] = (char)('a' + i);
    letters[rank++] = both[i];
  }
  if (rank > BD_MAX_RANK)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "has a product of more than 8 dimensions");
  const char *rule = bd_intern_f(l->ctx, "%s,%s->%s", of_a, of_b, to);
  BD_TRY(bd_onnx_emit_rule(l, BD_OP_CONTRACT, 2, (bd_id[]){a->id, b->id}, rule, &a->id));
  a->rank = rank;
  memcpy(a->letters, letters, sizeof letters);
  return BD_OK;
}

// The letters of the result, and of the operands from `next` on.
static const char *still_wanted(bd_onnx_lowering *l, const bd_onnx_einsum *sum, int next) {
  char letters[(BD_ONNX_EINSUM_OPERANDS + 1) * BD_MAX_RANK + 1] = {0};
  int count = 0;
  for (int d = 0; d < sum->out_rank; d++)
    letters[count++] = sum->out[d];
  for (int i = next; i < sum->count; i++)
    for (int d = 0; d < sum->rank[i]; d++)
      letters[count++] = sum->in[i][d];
  return bd_intern_z(l->ctx, letters);
}

static bd_status lower_einsum(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_onnx_einsum sum;
  term made, next;
  char from[BD_MAX_RANK + 1] = {0}, to[BD_MAX_RANK + 1] = {0};
  int count = 0;
  BD_TRY(bd_onnx_einsum_read(step, &sum));
  BD_TRY(take_term(l, step, &sum, 0, &made));
  for (int i = 1; i < sum.count; i++) {
    BD_TRY(take_term(l, step, &sum, i, &next));
    BD_TRY(multiply(l, step, still_wanted(l, &sum, i + 1), &made, &next));
  }
  BD_TRY(drop(l, still_wanted(l, &sum, sum.count), &made));
  for (int d = 0; d < made.rank; d++)
    from[d] = (char)('a' + d);
  for (int d = 0; d < sum.out_rank; d++) {
    const char *at = memchr(made.letters, sum.out[d], (size_t)made.rank);
    if (at) to[count++] = from[at - made.letters];
  }
  if (strcmp(from, to) != 0) {
    const char *rule = bd_intern_f(l->ctx, "%s->%s", from, to);
    BD_TRY(bd_onnx_emit_rule(l, BD_OP_PERMUTE, 1, &made.id, rule, &made.id));
  }
  bd_onnx_part out = {.id = made.id};
  BD_TRY(bd_onnx_regroup(l, step, step->out[0].rank, step->out[0].dims, &out));
  bd_onnx_made(l, step, 0, out);
  return BD_OK;
}

static const bd_onnx_lower_rule rules[] = {{"Einsum", lower_einsum, BD_OP_CONTRACT}};
const bd_onnx_lower_rules bd_onnx_lower_einsums = {sizeof rules / sizeof *rules, rules};
