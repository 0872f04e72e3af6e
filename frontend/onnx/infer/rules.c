#include "frontend/onnx/infer/step.h"
#include "ir/base/suggest.h"
#include "ir/base/text.h"
#include <string.h>

static const bd_onnx_rules *const families[] = {
    &bd_onnx_pointwise_rules, &bd_onnx_arithmetic_rules, &bd_onnx_shape_rules,
    &bd_onnx_move_rules,      &bd_onnx_select_rules,     &bd_onnx_create_rules,
    &bd_onnx_reduce_rules,    &bd_onnx_window_rules,     &bd_onnx_matrix_rules,
    &bd_onnx_normal_rules,    &bd_onnx_image_rules,      &bd_onnx_sequence_rules};
enum { FAMILIES = sizeof families / sizeof *families, MOST_OPS = 256 };

// The first rule of an op, and the end of its family; NULL when no rule has the name.
static const bd_onnx_rule *find_op(const char *op, const bd_onnx_rule **out_end) {
  for (int f = 0; f < FAMILIES; f++) {
    const bd_onnx_rule *rules = families[f]->rules;
    for (int i = 0; i < families[f]->count; i++) {
      if (strcmp(rules[i].op, op) != 0) continue;
      *out_end = rules + families[f]->count;
      return &rules[i];
    }
  }
  return NULL;
}

// Whether an op draws numbers that are no mask, or of a shape that no batch has.
static bool draws(const bd_onnx_node *node) {
  static const char *const ops[] = {"Multinomial", "RandomNormal", "RandomNormalLike",
                                    "RandomUniform"};
  for (size_t i = 0; !node->domain[0] && i < sizeof ops / sizeof ops[0]; i++)
    if (strcmp(ops[i], node->op) == 0) return true;
  return false;
}

static bd_status fail_unknown(bd_ctx *ctx, const bd_onnx_model *model, const bd_onnx_node *node) {
  const char *names[MOST_OPS + 1] = {0};
  int count = 0;
  for (int f = 0; f < FAMILIES; f++)
    for (int i = 0; i < families[f]->count && count < MOST_OPS; i++) {
      const char *op = families[f]->rules[i].op;
      if (count == 0 || strcmp(names[count - 1], op) != 0) names[count++] = op;
    }
  if (draws(node))
    return bd_onnx_node_fail(ctx, model, node, BD_UNSUPPORTED,
                             "the op %s draws random numbers, which are known for masks alone: "
                             "Dropout, Bernoulli of one probability, RandomUniformLike below one; "
                             "export without it, or in evaluation mode",
                             node->op);
  const char *meant = bd_suggest(node->op, names);
  bd_text text = bd_text_init(ctx->arena);
  bd_text_addf(&text, "the op %s of domain \"%s\", version %lld, is not known", node->op,
               node->domain[0] ? node->domain : "ai.onnx", (long long)node->version);
  if (meant && strcmp(meant, node->op) != 0)
    bd_text_addf(&text, "; is %s meant? Else", meant);
  else
    bd_text_add(&text, ";");
  bd_text_add(&text, " export without it, or add a row for it to a table of frontend/onnx/infer "
                     "and one of frontend/onnx/lower (docs/onnx.md)");
  return bd_onnx_node_fail(ctx, model, node, BD_UNSUPPORTED, "%s", text.data);
}

const bd_onnx_rule *bd_onnx_rule_of(const bd_onnx_node *node) {
  const bd_onnx_rule *end = NULL, *found = NULL;
  const bd_onnx_rule *rule = node->domain[0] ? NULL : find_op(node->op, &end);
  for (; rule && rule < end && strcmp(rule->op, node->op) == 0; rule++)
    if (rule->since <= node->version) found = rule;
  return found;
}

bd_status bd_onnx_find_rule(bd_ctx *ctx, const bd_onnx_model *model, const bd_onnx_node *node,
                            const bd_onnx_rule **out_rule) {
  const bd_onnx_rule *end = NULL;
  *out_rule = bd_onnx_rule_of(node);
  if (*out_rule) return BD_OK;
  const bd_onnx_rule *first = node->domain[0] ? NULL : find_op(node->op, &end);
  if (!first) return fail_unknown(ctx, model, node);
  if (node->version == 0)
    return bd_onnx_node_fail(ctx, model, node, BD_INVALID,
                             "its operator set, ai.onnx, is not imported by the model");
  return bd_onnx_node_fail(ctx, model, node, BD_UNSUPPORTED,
                           "version %lld of ai.onnx has no such op that braid knows; it does from "
                           "%d on",
                           (long long)node->version, first->since);
}

static bool is_of_class(char letter, bd_onnx_dtype dtype) {
  switch (letter) {
  case 'n':
  case 'm':
    return bd_onnx_is_float(dtype) || bd_onnx_is_integer(dtype);
  case 'f':
  case 'g':
  case 'h':
    return bd_onnx_is_float(dtype);
  case 'b':
    return dtype == BD_ONNX_BOOL;
  case 'l':
    return dtype == BD_ONNX_INT64;
  case 'i':
  case 'j':
    return dtype == BD_ONNX_INT32 || dtype == BD_ONNX_INT64;
  case 'q':
    return dtype == BD_ONNX_SEQUENCE;
  default:
    return dtype != BD_ONNX_SEQUENCE;
  }
}

// The types that a signature's letters stand for.
typedef struct binding {
  bd_onnx_dtype of['z' + 1];
} binding;

static bd_status bind_operand(const bd_onnx_step *step, binding *bound, char letter, int i) {
  bd_onnx_dtype dtype = step->in[i]->dtype;
  if ((letter == 'q') != (dtype == BD_ONNX_SEQUENCE))
    return bd_onnx_step_fail(step, BD_INVALID, "operand %d is %s sequence, which it %s", i,
                             letter == 'q' ? "no" : "a", letter == 'q' ? "must be" : "cannot be");
  if (!is_of_class(letter, dtype))
    return bd_onnx_step_fail(step, BD_INVALID, "operand %d has elements of %s, which it cannot", i,
                             bd_onnx_dtype_name(dtype));
  bd_onnx_dtype *before = &bound->of[(int)letter];
  if (*before != BD_ONNX_UNDEFINED && *before != dtype)
    return bd_onnx_step_fail(step, BD_INVALID,
                             "operand %d has elements of %s, not of %s as another", i,
                             bd_onnx_dtype_name(dtype), bd_onnx_dtype_name(*before));
  *before = dtype;
  return BD_OK;
}

static bd_status fail_count(const bd_onnx_step *step, const char *what, int has) {
  return bd_onnx_step_fail(step, BD_INVALID, "has %d %s; its signature since version %d is %s", has,
                           what, step->rule->since, step->rule->signature);
}

// The letter for operand or result `i`, and whether it may be left out; 0 past the last.
static char letter_of(const char *signature, int i, bool *out_optional) {
  const char *at = signature;
  while (*at && *at != '=') {
    char letter = *at++;
    bool repeats = *at == '*';
    *out_optional = *at == '?';
    if (*at == '?' || *at == '*') at++;
    if (i == 0 || repeats) {
      *out_optional = *out_optional || (repeats && i > 0);
      return letter;
    }
    i--;
  }
  return 0;
}

static bd_status check_operands(const bd_onnx_step *step, binding *bound) {
  bool optional;
  for (int i = 0; i < step->in_count; i++) {
    char letter = letter_of(step->rule->signature, i, &optional);
    if (!letter) return fail_count(step, "operands", step->in_count);
    if (step->in[i])
      BD_TRY(bind_operand(step, bound, letter, i));
    else if (!optional)
      return bd_onnx_step_fail(step, BD_INVALID, "operand %d is left out, but must be there", i);
  }
  if (letter_of(step->rule->signature, step->in_count, &optional) && !optional)
    return fail_count(step, "operands", step->in_count);
  return BD_OK;
}

static bd_status set_results(bd_onnx_step *step, const binding *bound) {
  const char *results = strchr(step->rule->signature, '=') + 1;
  bool optional;
  for (int i = 0; i < step->out_count; i++) {
    char letter = letter_of(results, i, &optional);
    if (!letter) return fail_count(step, "results", step->out_count);
    bd_onnx_dtype dtype = bound->of[(int)letter];
    if (letter == 'b') dtype = BD_ONNX_BOOL;
    if (letter == 'l') dtype = BD_ONNX_INT64;
    if (letter == 'q') dtype = BD_ONNX_SEQUENCE;
    step->out[i].dtype = dtype;
  }
  if (step->out_count > 0 && step->node->out[0] != BD_ONNX_ABSENT) return BD_OK;
  return bd_onnx_step_fail(step, BD_INVALID, "its first result is left out");
}

static bd_onnx_attribute_kind kind_of(char letter) {
  static const char letters[] = "?fistg?IS";
  switch (letter) {
  case 'I':
    return BD_ONNX_ATTRIBUTE_INTS;
  case 'F':
    return BD_ONNX_ATTRIBUTE_FLOATS;
  case 'S':
    return BD_ONNX_ATTRIBUTE_STRINGS;
  default:
    return (bd_onnx_attribute_kind)(strchr(letters, letter) - letters);
  }
}

// `words`: "{..}", or what follows where there are none.
static bd_status check_word(const bd_onnx_step *step, const bd_onnx_attribute *attribute,
                            const char *words) {
  if (*words != '{') return BD_OK;
  size_t all = strcspn(words, "}"), length = strlen(attribute->string);
  for (const char *at = words; *at != '}'; at += 1 + strcspn(at + 1, ",}"))
    if (strncmp(at + 1, attribute->string, length) == 0 && strcspn(at + 1, ",}") == length)
      return BD_OK;
  return bd_onnx_step_fail(
      step, BD_INVALID, "its attribute \"%s\" is \"%s\", which is none of %.*s in version %d",
      attribute->name, attribute->string, (int)all - 1, words + 1, step->rule->since);
}

static bd_status check_attribute(const bd_onnx_step *step, const bd_onnx_attribute *attribute) {
  size_t length = strlen(attribute->name);
  for (const char *at = step->rule->attributes; *at;) {
    size_t name = strcspn(at, ":");
    if (name == length && strncmp(at, attribute->name, length) == 0) {
      if (attribute->kind == kind_of(at[name + 1]))
        return check_word(step, attribute, at + name + 2);
      return bd_onnx_step_fail(step, BD_INVALID, "its attribute \"%s\" is of the wrong kind",
                               attribute->name);
    }
    at += strcspn(at, " ");
    at += *at == ' ';
  }
  return bd_onnx_step_fail(step, BD_INVALID,
                           "has no attribute \"%s\" in version %d; those that it has: %s",
                           attribute->name, step->rule->since,
                           step->rule->attributes[0] ? step->rule->attributes : "none");
}

bd_status bd_onnx_check_signature(bd_onnx_step *step) {
  binding bound = {{BD_ONNX_UNDEFINED}};
  BD_TRY(check_operands(step, &bound));
  for (int i = 0; i < step->node->attribute_count; i++)
    BD_TRY(check_attribute(step, &step->node->attributes[i]));
  return set_results(step, &bound);
}
