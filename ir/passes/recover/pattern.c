#include "ir/passes/recover/pattern.h"
#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CHILDREN = 4 };
static const double same_number = 1e-5; // relative: constants of models are f32, and cut short

typedef enum form {
  FORM_OP,
  FORM_ROWS,
  FORM_SUM,
  FORM_MEAN,
  FORM_MOST,
  FORM_ANY,
  FORM_VALUE,
  FORM_NUMBER
} form;

// What a number of a pattern asks for.
typedef struct wanted {
  bool given;
  int letter; // kept there, or -1
  double value;
} wanted;

struct bd_pattern {
  form form;
  bd_op_kind kind; // FORM_OP
  wanted number;   // of the attribute `value`; FORM_NUMBER
  int letter;      // FORM_VALUE
  int count;
  const bd_pattern *child[MAX_CHILDREN];
};

typedef struct reader {
  bd_ctx *ctx;
  const char *at;
} reader;

static bool accept(reader *r, char byte) {
  while (*r->at == ' ')
    ++r->at;
  if (*r->at != byte) return false;
  ++r->at;
  return true;
}

static void expect(reader *r, char byte) {
  bool found = accept(r, byte);
  assert(found);
  (void)found;
}

static int read_letter(reader *r) {
  assert(*r->at >= 'a' && *r->at <= 'z');
  return *r->at++ - 'a';
}

static wanted read_number(reader *r) {
  if (accept(r, '#')) return (wanted){true, read_letter(r), 0};
  char *end;
  double value = strtod(r->at, &end);
  assert(end > r->at);
  r->at = end;
  return (wanted){true, -1, value};
}

static const bd_pattern *read_pattern(reader *r);

static void read_children(reader *r, bd_pattern *pattern, char between, char end) {
  if (accept(r, end)) return;
  do {
    assert(pattern->count < MAX_CHILDREN);
    pattern->child[pattern->count++] = read_pattern(r);
  } while (accept(r, between));
  expect(r, end);
}

static void read_word(reader *r, bd_pattern *pattern) {
  static const struct {
    const char *word;
    form form;
  } forms[] = {{"rows", FORM_ROWS}, {"sum", FORM_SUM}, {"mean", FORM_MEAN}, {"most", FORM_MOST}};
  size_t length = strspn(r->at, "abcdefghijklmnopqrstuvwxyz0123456789_");
  const char *word = bd_intern(r->ctx, r->at, length);
  r->at += length;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; ++i)
    if (strcmp(word, forms[i].word) == 0) pattern->form = forms[i].form;
  bool known = pattern->form != FORM_OP || bd_op_find(word, &pattern->kind);
  assert(known);
  (void)known;
  if (accept(r, '[')) {
    pattern->number = read_number(r);
    expect(r, ']');
  }
  expect(r, '(');
  read_children(r, pattern, ',', ')');
}

static const bd_pattern *read_pattern(reader *r) {
  bd_pattern *pattern = BD_NEW(r->ctx->arena, bd_pattern);
  if (accept(r, '{')) {
    pattern->form = FORM_ANY;
    read_children(r, pattern, '|', '}');
  } else if (accept(r, '?')) {
    pattern->form = FORM_VALUE;
    pattern->letter = read_letter(r);
    if (accept(r, ':')) pattern->child[pattern->count++] = read_pattern(r);
  } else if (isalpha((unsigned char)*r->at)) {
    read_word(r, pattern);
  } else {
    pattern->form = FORM_NUMBER;
    pattern->number = read_number(r);
  }
  return pattern;
}

const bd_pattern *bd_pattern_read(bd_ctx *ctx, const char *text) {
  reader r = {ctx, text};
  const bd_pattern *pattern = read_pattern(&r);
  assert(!*r.at);
  return pattern;
}

bool bd_uniform_number(const bd_function *function, bd_id id, double *out) {
  int producer = function->values[id].producer;
  const bd_op *op = producer < 0 ? NULL : &function->ops[producer];
  while (op && (op->kind == BD_OP_BROADCAST || op->kind == BD_OP_RESHAPE)) {
    producer = function->values[op->in[0]].producer;
    op = producer < 0 ? NULL : &function->ops[producer];
  }
  const bd_attr *value = op && op->kind == BD_OP_CONSTANT ? bd_op_find_attr(op, "value") : NULL;
  if (!value || (value->kind != BD_ATTR_REAL && value->kind != BD_ATTR_INT)) return false;
  *out = value->kind == BD_ATTR_REAL ? value->real : (double)value->integer;
  return true;
}

// Whether `longer` is `shorter` and one letter more, at the end.
static bool is_longer_by_last(const char *shorter, size_t length, const char *longer,
                              size_t longer_length) {
  return longer_length == length + 1 && memcmp(shorter, longer, length) == 0;
}

// Whether the op reduces, or repeats, exactly the last dimension of what is longer.
static bool reduces_last(const bd_op *op) {
  const char *rule = bd_op_string(op, "rule"), *arrow = rule ? strstr(rule, "->") : NULL;
  return arrow && !strchr(rule, '|') &&
         is_longer_by_last(arrow + 2, strlen(arrow + 2), rule, (size_t)(arrow - rule));
}

static bool repeats_last(const bd_op *op) {
  const char *rule = bd_op_string(op, "rule"), *arrow = rule ? strstr(rule, "->") : NULL;
  return op->kind == BD_OP_BROADCAST && arrow && !strchr(rule, '|') &&
         is_longer_by_last(rule, (size_t)(arrow - rule), arrow + 2, strlen(arrow + 2));
}

// A value that a pattern is still to match.
typedef struct goal {
  const bd_pattern *pattern;
  bd_id value;
  const struct goal *next;
} goal;

typedef struct matcher {
  const bd_function *function;
  bd_match *match;
} matcher;

static bool solve(matcher *m, const goal *goals);

static bool number_fits(matcher *m, const wanted *wanted, double found) {
  if (wanted->letter >= 0) {
    m->match->number[wanted->letter] = found;
    return true;
  }
  return fabs(found - wanted->value) <= same_number * fabs(wanted->value);
}

static bool solve_value(matcher *m, const goal *goals) {
  const bd_pattern *pattern = goals->pattern;
  bd_id *slot = &m->match->value[pattern->letter];
  if (*slot != BD_NO_ID) return *slot == goals->value && solve(m, goals->next);
  *slot = goals->value;
  goal inner = {pattern->child[0], goals->value, goals->next};
  if (solve(m, pattern->count ? &inner : goals->next)) return true;
  *slot = BD_NO_ID;
  return false;
}

static bool is_commutative(bd_op_kind kind) {
  return kind == BD_OP_ADD || kind == BD_OP_MUL || kind == BD_OP_MAX || kind == BD_OP_MIN ||
         kind == BD_OP_EQ;
}

// The operands of the op, from operand `i` of the pattern on.
static bool solve_operands(matcher *m, const bd_pattern *pattern, const bd_op *op, bool turned,
                           int i, const goal *next) {
  if (i < 0) return solve(m, next);
  int operand = turned ? pattern->count - 1 - i : i;
  goal inner = {pattern->child[i], op->in[operand], next};
  return solve_operands(m, pattern, op, turned, i - 1, &inner);
}

static bool solve_children(matcher *m, const bd_pattern *pattern, int index, const goal *next) {
  const bd_op *op = &m->function->ops[index];
  bd_match *match = m->match;
  if (op->in_count != pattern->count || match->op_count == BD_PATTERN_MAX_OPS) return false;
  match->ops[match->op_count++] = index;
  if (solve_operands(m, pattern, op, false, pattern->count - 1, next)) return true;
  if (is_commutative(op->kind) && solve_operands(m, pattern, op, true, pattern->count - 1, next))
    return true;
  --match->op_count;
  return false;
}

// The mean of the last dimension is a sum over it, scaled by one over its extent.
static bool solve_mean(matcher *m, const goal *goals, const bd_op *op, int index) {
  const bd_function *function = m->function;
  int producer = op->kind == BD_OP_SCALE ? function->values[op->in[0]].producer : -1;
  if (producer < 0) return false;
  const bd_op *sum = &function->ops[producer];
  if (sum->kind != BD_OP_REDUCE_SUM || !reduces_last(sum)) return false;
  const bd_type *type = &function->values[sum->in[0]].type;
  double extent = (double)type->dims[type->rank - 1];
  wanted one = {true, -1, 1 / extent};
  if (extent < 1 || !number_fits(m, &one, bd_op_real(op, "value", 0))) return false;
  if (m->match->op_count == BD_PATTERN_MAX_OPS) return false;
  m->match->ops[m->match->op_count++] = index;
  if (solve_children(m, goals->pattern, producer, goals->next)) return true;
  --m->match->op_count;
  return false;
}

static bool is_form(const bd_pattern *pattern, const bd_op *op) {
  switch (pattern->form) {
  case FORM_ROWS:
    return repeats_last(op);
  case FORM_SUM:
    return op->kind == BD_OP_REDUCE_SUM && reduces_last(op);
  case FORM_MOST:
    return op->kind == BD_OP_REDUCE_MAX && reduces_last(op);
  default:
    return op->kind == pattern->kind;
  }
}

static bool solve_op(matcher *m, const goal *goals) {
  const bd_pattern *pattern = goals->pattern;
  const bd_value *value = &m->function->values[goals->value];
  if (value->producer < 0 || value->result != 0) return false;
  const bd_op *op = &m->function->ops[value->producer];
  if (pattern->form == FORM_MEAN) return solve_mean(m, goals, op, value->producer);
  if (!is_form(pattern, op)) return false;
  if (pattern->number.given && !number_fits(m, &pattern->number, bd_op_real(op, "value", NAN)))
    return false;
  return solve_children(m, pattern, value->producer, goals->next);
}

static bool solve(matcher *m, const goal *goals) {
  if (!goals) return true;
  const bd_pattern *pattern = goals->pattern;
  double number;
  switch (pattern->form) {
  case FORM_VALUE:
    return solve_value(m, goals);
  case FORM_NUMBER:
    return bd_uniform_number(m->function, goals->value, &number) &&
           number_fits(m, &pattern->number, number) && solve(m, goals->next);
  case FORM_ANY:
    for (int i = 0; i < pattern->count; ++i) {
      goal inner = {pattern->child[i], goals->value, goals->next};
      if (solve(m, &inner)) return true;
    }
    return false;
  default:
    return solve_op(m, goals);
  }
}

bool bd_pattern_match(const bd_pattern *pattern, const bd_function *function, bd_id value,
                      bd_match *out_match) {
  matcher m = {function, out_match};
  out_match->op_count = 0;
  for (int i = 0; i < BD_PATTERN_LETTERS; ++i)
    out_match->value[i] = BD_NO_ID;
  const goal first = {pattern, value, NULL};
  return solve(&m, &first);
}
