#include "ir/passes/recover/matched.h"
#include <math.h>

static bool has_op(const bd_match *match, int index) {
  for (int i = 0; i < match->op_count; ++i)
    if (match->ops[i] == index) return true;
  return false;
}

bool bd_match_is_closed(const bd_edit *e, const bd_match *match, bd_id root) {
  for (int i = 0; i < match->op_count; ++i) {
    const bd_op *op = &e->from->ops[match->ops[i]];
    bd_id made = op->out[0];
    if (made == root || op->in_count == 0) continue;
    if (e->readers.is_result[made]) return false;
    for (int r = e->readers.first[made]; r < e->readers.first[made + 1]; ++r)
      if (!has_op(match, e->readers.ops[r])) return false;
  }
  return true;
}

typedef struct matched_rule {
  bd_op_kind kind;
  const bd_pattern *pattern;
} matched_rule;

static bd_id letter(const bd_match *match, char name) {
  return match->value[name - 'a'];
}

// A gain or bias is a list over the last dimension.
static bool is_list(const bd_edit *e, bd_id id, const bd_type *x) {
  if (id == BD_NO_ID) return true;
  const bd_type *type = &e->from->values[id].type;
  return type->rank == 1 && type->dims[0] == x->dims[x->rank - 1] && type->dtype == x->dtype;
}

static bool fits(const bd_edit *e, bd_op_kind kind, const bd_match *match) {
  const bd_type *x = &e->from->values[letter(match, 'x')].type;
  if (!bd_dtype_is_float(x->dtype)) return false;
  if (kind != BD_OP_LAYERNORM && kind != BD_OP_RMSNORM) return true;
  double eps = match->number['e' - 'a'];
  return x->dtype != BD_F64 && eps > 0 && isfinite(eps) && is_list(e, letter(match, 'g'), x) &&
         is_list(e, letter(match, 'b'), x);
}

// The list that a letter names, or one of `value` where the model has none.
static bd_status take_list(bd_edit *e, bd_id id, const bd_type *x, double value, bd_id *out) {
  if (id != BD_NO_ID) {
    *out = bd_edit_value(e, id);
    return BD_OK;
  }
  bd_attr attrs[] = {bd_attr_string(e->ctx, "dtype", bd_dtype_name(x->dtype)),
                     bd_attr_ints(e->ctx, "dims", 1, &x->dims[x->rank - 1]),
                     bd_attr_real(e->ctx, "value", value)};
  return bd_edit_emit(e, BD_OP_CONSTANT, 0, NULL, 3, attrs, out);
}

static bd_status make(bd_edit *e, bd_op_kind kind, const bd_match *match, bd_id *out) {
  const bd_type *x = &e->from->values[letter(match, 'x')].type;
  bool norm = kind == BD_OP_LAYERNORM || kind == BD_OP_RMSNORM;
  bd_attr eps = bd_attr_real(e->ctx, "eps", match->number['e' - 'a']);
  bd_id in[3] = {bd_edit_value(e, letter(match, 'x'))};
  int count = bd_op_get_info(kind)->in;
  if (count > 1) BD_TRY(take_list(e, letter(match, 'g'), x, 1, &in[1]));
  if (count > 2) BD_TRY(take_list(e, letter(match, 'b'), x, 0, &in[2]));
  return bd_edit_emit(e, kind, count, in, norm, &eps, out);
}

static bd_status apply(bd_edit *e, const void *user) {
  const matched_rule *r = user;
  const bd_op *op = &e->from->ops[e->at];
  bd_match match;
  bd_id made;
  if (op->out_count != 1 || !bd_pattern_match(r->pattern, e->from, op->out[0], &match) ||
      !bd_match_is_closed(e, &match, op->out[0]) || !fits(e, r->kind, &match))
    return BD_OK;
  BD_TRY(make(e, r->kind, &match, &made));
  bd_edit_stand(e, op->out[0], made);
  return BD_OK;
}

static const struct {
  bd_op_kind kind;
  const char *pattern;
} rows[] = {
#define BD_RECOVER(OP, pattern) {BD_OP_##OP, pattern},
#include "ir/passes/recover/match_rules.def"
#undef BD_RECOVER
};

int bd_match_rule_count(void) {
  return sizeof rows / sizeof *rows;
}

bd_status bd_recover_matched(bd_ctx *ctx, int rule, bd_function **function, int *changes) {
  const matched_rule row = {rows[rule].kind, bd_pattern_read(ctx, rows[rule].pattern)};
  return bd_edit_run(ctx, apply, &row, function, changes);
}
