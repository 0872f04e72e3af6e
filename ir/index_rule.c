#include "ir/index_rule.h"
#include <assert.h>
#include <string.h>

typedef struct rule_term {
  bool ellipsis; // leading
  int count;
  char letters[BD_MAX_RANK];
} rule_term;

typedef struct rule_modifier {
  bd_loop_kind kind;
  bool gather;
  char letter;
} rule_modifier;

typedef struct index_rule {
  const char *text;
  int in_count, out_count;
  rule_term in[BD_MAX_OPERANDS], out[BD_MAX_RESULTS];
  int modifier_count;
  rule_modifier modifiers[BD_MAX_LOOPS];
} index_rule;

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Reads the comma-separated terms up to "->", a bar or the end.
static bd_status read_terms(bd_inference *inference, const char *rule, const char **cursor,
                            int limit, rule_term *terms, int *out_count) {
  const char *p = *cursor;
  int count = 0;
  for (;; ++p) {
    if (count == limit)
      return bd_inference_fail(inference, "rule \"%s\" names more than %d tensors on one side",
                               rule, limit);
    rule_term *term = &terms[count++];
    *term = (rule_term){0};
    if (strncmp(p, "...", 3) == 0) {
      term->ellipsis = true;
      p += 3;
    }
    for (; is_letter(*p); ++p) {
      if (memchr(term->letters, *p, (size_t)term->count))
        return bd_inference_fail(inference, "rule \"%s\" uses letter '%c' twice in one tensor",
                                 rule, *p);
      if (term->count == BD_MAX_RANK)
        return bd_inference_fail(inference, "rule \"%s\" has a tensor of more than %d dimensions",
                                 rule, BD_MAX_RANK);
      term->letters[term->count++] = *p;
    }
    if (*p != ',') break;
  }
  *cursor = p;
  *out_count = count;
  return BD_OK;
}

// " whole a b", " lse v" ...: a word, then letters.
static void read_modifiers(const char *text, index_rule *rule) {
  static const struct {
    const char *word;
    rule_modifier modifier;
  } words[] = {{"whole", {.kind = BD_LOOP_WHOLE}},
               {"lse", {.kind = BD_LOOP_LSE}},
               {"max", {.kind = BD_LOOP_MAX}},
               {"gather", {.kind = BD_LOOP_SUM, .gather = true}},
               {"one", {.kind = BD_LOOP_WHOLE, .gather = true}}};
  size_t length = strcspn(text, " ");
  size_t i = 0;
  while (i < sizeof words / sizeof words[0] &&
         (strlen(words[i].word) != length || strncmp(words[i].word, text, length) != 0))
    ++i;
  assert(i < sizeof words / sizeof words[0]);
  for (const char *p = text + length; *p && *p != '|'; ++p) {
    if (*p == ' ') continue;
    assert(rule->modifier_count < BD_MAX_LOOPS);
    rule->modifiers[rule->modifier_count] = words[i].modifier;
    rule->modifiers[rule->modifier_count++].letter = *p;
  }
}

static bd_status read_rule(bd_inference *inference, const char *text, index_rule *out_rule) {
  *out_rule = (index_rule){.text = text};
  const char *p = text;
  BD_TRY(read_terms(inference, text, &p, BD_MAX_OPERANDS, out_rule->in, &out_rule->in_count));
  if (strncmp(p, "->", 2) != 0)
    return bd_inference_fail(inference, "rule \"%s\" is malformed at character %d: expected \"->\"",
                             text, (int)(p - text) + 1);
  p += 2;
  BD_TRY(read_terms(inference, text, &p, BD_MAX_RESULTS, out_rule->out, &out_rule->out_count));
  if (*p != '|' && *p != '\0')
    return bd_inference_fail(inference, "rule \"%s\" is malformed at character %d", text,
                             (int)(p - text) + 1);
  for (; p && *p == '|'; p = strchr(p + 1, '|'))
    read_modifiers(p + 1, out_rule);
  if (out_rule->in_count != inference->op->in_count)
    return bd_inference_fail(inference, "rule \"%s\" names %d operands, the op has %d", text,
                             out_rule->in_count, inference->op->in_count);
  if (out_rule->out_count != inference->info->out)
    return bd_inference_fail(inference, "rule \"%s\" names %d results, the op has %d", text,
                             out_rule->out_count, inference->info->out);
  return BD_OK;
}

// Writes the letters A, B, ... in the place of the ellipsis of every term. The first operand that
// has one says how many.
static bd_status expand_ellipsis(bd_inference *inference, index_rule *rule) {
  int lead = -1;
  for (int i = 0; i < rule->in_count && lead < 0; ++i) {
    if (!rule->in[i].ellipsis) continue;
    lead = inference->in[i]->rank - rule->in[i].count;
    if (lead < 0)
      return bd_inference_fail(inference, "operand %d must have at least %d dimensions, not %s",
                               i + 1, rule->in[i].count,
                               bd_type_describe(inference->ctx, inference->in[i]));
  }
  for (int i = 0; i < rule->in_count + rule->out_count; ++i) {
    rule_term *term = i < rule->in_count ? &rule->in[i] : &rule->out[i - rule->in_count];
    if (!term->ellipsis) continue;
    if (lead + term->count > BD_MAX_RANK)
      return bd_inference_fail(inference, "a result would have more than %d dimensions",
                               BD_MAX_RANK);
    memmove(term->letters + lead, term->letters, (size_t)term->count);
    for (int j = 0; j < lead; ++j)
      term->letters[j] = (char)('A' + j);
    term->count += lead;
  }
  return BD_OK;
}

static bd_status add_letter(bd_inference *inference, const index_rule *rule, char letter,
                            int64_t extent) {
  if (inference->map->loops == BD_MAX_LOOPS)
    return bd_inference_fail(inference, "rule \"%s\" has more than %d letters", rule->text,
                             BD_MAX_LOOPS);
  bd_inference_add_loop(inference, letter, BD_LOOP_SUM, extent);
  return BD_OK;
}

static bd_status bind_operands(bd_inference *inference, const index_rule *rule) {
  bd_index_map *map = inference->map;
  for (int i = 0; i < rule->in_count; ++i) {
    const bd_type *type = inference->in[i];
    if (type->rank != rule->in[i].count)
      return bd_inference_fail(
          inference, "operand %d must have %d dimensions (rule \"%s\"), not %s", i + 1,
          rule->in[i].count, rule->text, bd_type_describe(inference->ctx, type));
    for (int d = 0; d < type->rank; ++d) {
      char letter = rule->in[i].letters[d];
      int loop = bd_index_find(map, letter);
      if (loop < 0) {
        loop = map->loops;
        BD_TRY(add_letter(inference, rule, letter, type->dims[d]));
      }
      if (map->loop[loop].extent != type->dims[d])
        return bd_inference_fail(
            inference, "dimension %d of operand %d has extent %s, but '%c' of rule \"%s\" is %s",
            d + 1, i + 1, bd_extent_print(type->dims[d]).text, letter, rule->text,
            bd_extent_print(map->loop[loop].extent).text);
      map->in[i][d] = (int8_t)loop;
    }
  }
  return BD_OK;
}

static bd_status bind_results(bd_inference *inference, const index_rule *rule, int result_rank,
                              const int64_t *result_dims) {
  bd_index_map *map = inference->map;
  if (result_dims && result_rank != rule->out[0].count)
    return bd_inference_fail(inference, "%d result extents are given, rule \"%s\" has %d",
                             result_rank, rule->text, rule->out[0].count);
  for (int i = 0; i < rule->out_count; ++i) {
    inference->out[i].rank = rule->out[i].count;
    for (int d = 0; d < rule->out[i].count; ++d) {
      char letter = rule->out[i].letters[d];
      int loop = bd_index_find(map, letter);
      if (loop < 0) {
        if (!result_dims || i > 0)
          return bd_inference_fail(inference,
                                   "no operand of rule \"%s\" has the result's letter '%c'",
                                   rule->text, letter);
        loop = map->loops;
        BD_TRY(add_letter(inference, rule, letter, result_dims[d]));
      }
      int64_t extent = map->loop[loop].extent;
      if (result_dims && i == 0 && extent != result_dims[d])
        return bd_inference_fail(inference, "result extent %d is %s, but '%c' of rule \"%s\" is %s",
                                 d + 1, bd_extent_print(result_dims[d]).text, letter, rule->text,
                                 bd_extent_print(extent).text);
      map->loop[loop].kind = BD_LOOP_PARALLEL;
      map->out[i][d] = (int8_t)loop;
      inference->out[i].dims[d] = extent;
    }
  }
  return BD_OK;
}

bd_status bd_inference_apply(bd_inference *inference, const char *text, int result_rank,
                             const int64_t *result_dims) {
  index_rule rule;
  BD_TRY(read_rule(inference, text, &rule));
  BD_TRY(expand_ellipsis(inference, &rule));
  BD_TRY(bind_operands(inference, &rule));
  BD_TRY(bind_results(inference, &rule, result_rank, result_dims));
  for (int i = 0; i < rule.modifier_count; ++i) {
    int loop = bd_index_find(inference->map, rule.modifiers[i].letter);
    assert(loop >= 0);
    bd_loop *target = &inference->map->loop[loop];
    bd_loop_kind kind = rule.modifiers[i].kind;
    target->gather = rule.modifiers[i].gather;
    if (kind != BD_LOOP_SUM || target->kind != BD_LOOP_PARALLEL) target->kind = kind;
  }
  return BD_OK;
}

bool bd_dtype_combines(bd_dtype dtype) {
  return bd_dtype_is_float(dtype) && bd_dtype_wide(dtype) == BD_F32;
}

// How parts of what an op with a `rule` reduces are joined.
static bd_loop_kind combiner_of(const bd_inference *inference) {
  bool combines = bd_dtype_combines(inference->in[0]->dtype);
  switch (inference->op->kind) {
  case BD_OP_REDUCE_MAX:
    return combines ? BD_LOOP_MAX : BD_LOOP_WHOLE;
  case BD_OP_REDUCE_MIN:
  case BD_OP_REDUCE_PROD:
    return BD_LOOP_WHOLE;
  default:
    return combines ? BD_LOOP_SUM : BD_LOOP_WHOLE;
  }
}

bd_status bd_inference_apply_attribute(bd_inference *inference) {
  const bd_op *op = inference->op;
  const char *text = bd_op_string(op, "rule");
  assert(text);
  if (strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ,->") != strlen(text))
    return bd_inference_fail(inference,
                             "rule \"%s\" is malformed: it may hold letters, ',' and \"->\"", text);
  const bd_attr *dims = op->kind == BD_OP_BROADCAST ? bd_op_find_attr(op, "dims") : NULL;
  BD_TRY(bd_inference_apply(inference, text, dims ? dims->count : 0, dims ? dims->ints : NULL));
  const bd_index_map *map = inference->map;
  for (int loop = 0; loop < map->loops; ++loop) {
    bool sum = map->loop[loop].kind == BD_LOOP_SUM;
    if (sum) inference->map->loop[loop].kind = combiner_of(inference);
    char letter = map->loop[loop].letter;
    if (sum && (op->kind == BD_OP_PERMUTE || op->kind == BD_OP_BROADCAST))
      return bd_inference_fail(inference, "letter '%c' of rule \"%s\" is missing in the result",
                               letter, text);
    if (op->kind != BD_OP_CONTRACT) continue;
    if (letter < 'a')
      return bd_inference_fail(inference, "rule \"%s\" uses '%c': letters must be lower case", text,
                               letter);
    bool both = memchr(map->in[0], loop, BD_MAX_RANK) && memchr(map->in[1], loop, BD_MAX_RANK);
    if (sum && !both)
      return bd_inference_fail(
          inference, "letter '%c' of rule \"%s\" is summed but not in both operands", letter, text);
  }
  return BD_OK;
}
