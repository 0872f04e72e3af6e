#include "cli/difference_layers.h"
#include <string.h>

enum { NAMED_VALUES = 3 }; // of those that differ in the same way

static int64_t layers_of(const bd_plan *plan) {
  int64_t layers = 0;
  for (int i = 0; i < plan->range_count; i++)
    layers += plan->ranges[i].count;
  return layers;
}

// How one op of a layer runs, in words: what each mesh axis cuts, what becomes of its result, and
// in how many parts its products are done, and which stay in bf16.
static const char *op_words(bd_ctx *ctx, const bd_plan *plan, const bd_told_op *op) {
  const char *words = "";
  for (int axis = 0; axis < plan->mesh.axes; axis++) {
    const char *cut = bd_cut_name(op->cut[axis]);
    words = bd_intern_f(ctx, "%s%s%s", words, axis ? " x " : "", cut ? cut : "nothing");
  }
  words = bd_intern_f(ctx, "%s%s", words,
                      op->kept         ? bd_intern_f(ctx, ", saved %s", op->kept)
                      : op->saved      ? ", saved"
                      : op->recomputed ? ", recomputed"
                                       : "");
  for (int pass = 0; pass < BD_PARTS_PASSES; pass++)
    if (op->parts[pass] > 1)
      words = bd_intern_f(ctx, "%s,%s in %d parts", words,
                          pass == BD_PARTS_BACKWARD ? " backward" : "", op->parts[pass]);
  if (op->balanced) words = bd_intern_f(ctx, "%s, balanced", words);
  if (*op->bf16) words = bd_intern_f(ctx, "%s, %s in bf16", words, op->bf16);
  return words;
}

static int strategies_of(const bd_told_plan *told, const char *function) {
  int count = 0;
  for (int s = 0; s < told->plan.strategy_count; s++)
    count += strcmp(told->strategies[s].function, function) == 0;
  return count;
}

// The layers that are compared: by their function, or by the strategies where it has several.
static const char *pair_words(bd_ctx *ctx, const bd_difference *out, const bd_told_strategy *a,
                              const bd_told_strategy *b) {
  if (strategies_of(out->a, a->function) == 1 && strategies_of(out->b, a->function) == 1)
    return a->function;
  if (strcmp(a->name, b->name) == 0) return a->name;
  return bd_intern_f(ctx, "%s to %s", a->name, b->name);
}

static void compare_ops(bd_ctx *ctx, bd_difference *out, const bd_told_strategy *a,
                        const bd_told_strategy *b) {
  for (int i = 0; i < a->op_count && i < b->op_count; i++) {
    const char *x = op_words(ctx, &out->a->plan, &a->ops[i]);
    const char *y = op_words(ctx, &out->b->plan, &b->ops[i]);
    // Cuts of one kind along different loops.
    if (strcmp(x, y) == 0 && strcmp(a->ops[i].split, b->ops[i].split) != 0) {
      x = bd_intern_f(ctx, "%s (%s)", x, a->ops[i].split);
      y = bd_intern_f(ctx, "%s (%s)", y, b->ops[i].split);
    }
    bd_difference_add(out, bd_intern_f(ctx, "%s: %s", pair_words(ctx, out, a, b), a->ops[i].result),
                      x, y);
  }
}

// How one value of a layer is stored; of what no op tells of, whether it is saved as well.
static const char *value_words(bd_ctx *ctx, const bd_told_value *value) {
  const char *words = value->form;
  if (value->gradient) words = bd_intern_f(ctx, "%s, gradient %s", words, value->gradient);
  if (value->is_result || !value->saved) return words;
  return bd_intern_f(ctx, "%s, saved%s%s", words, value->kept ? " " : "",
                     value->kept ? value->kept : "");
}

// Values that differ in the same way, as one choice.
typedef struct value_group {
  const char *a, *b, *names;
  int count;
} value_group;

// Words are interned: equal ones are the same.
static value_group *find_group(value_group *groups, int *count, const char *a, const char *b) {
  for (int i = 0; i < *count; i++)
    if (groups[i].a == a && groups[i].b == b) return &groups[i];
  groups[*count] = (value_group){a, b, "", 0};
  return &groups[(*count)++];
}

static void compare_values(bd_ctx *ctx, bd_difference *out, const bd_told_strategy *a,
                           const bd_told_strategy *b) {
  int values = a->value_count < b->value_count ? a->value_count : b->value_count, count = 0;
  value_group *groups = BD_NEW_ARRAY(ctx->arena, value_group, values);
  for (int i = 0; i < values; i++) {
    const char *x = value_words(ctx, &a->values[i]), *y = value_words(ctx, &b->values[i]);
    if (strcmp(x, y) == 0) continue;
    value_group *group = find_group(groups, &count, x, y);
    if (group->count++ < NAMED_VALUES)
      group->names =
          bd_intern_f(ctx, "%s%s%s", group->names, group->count > 1 ? ", " : "", a->values[i].name);
  }
  for (int i = 0; i < count; i++) {
    const char *name = bd_intern_f(ctx, "%s: %s", pair_words(ctx, out, a, b), groups[i].names);
    if (groups[i].count > NAMED_VALUES)
      name = bd_intern_f(ctx, "%s and %d more", name, groups[i].count - NAMED_VALUES);
    bd_difference_add(out, name, groups[i].a, groups[i].b);
  }
}

static const char *place_words(bd_ctx *ctx, const bd_layer_range *range) {
  if (range->chunk == 0) return bd_intern_f(ctx, "stage %d", range->stage);
  return bd_intern_f(ctx, "stage %d, chunk %d", range->stage, range->chunk);
}

// Layers by where and how they run; a pair of strategies is compared once in a row.
void bd_difference_layers(bd_ctx *ctx, bd_difference *out) {
  const bd_told_plan *a = out->a, *b = out->b;
  int64_t layers = layers_of(&a->plan), first = 0, a_end = 0, b_end = 0;
  if (layers != layers_of(&b->plan)) {
    bd_difference_add(out, "layers", bd_intern_f(ctx, "%lld", (long long)layers),
                      bd_intern_f(ctx, "%lld", (long long)layers_of(&b->plan)));
    return;
  }
  int *compared = BD_NEW_ARRAY(ctx->arena, int, a->plan.strategy_count); // with: 1 + its number
  for (int i = -1, j = -1; first < layers;) {
    if (first == a_end) a_end += a->plan.ranges[++i].count;
    if (first == b_end) b_end += b->plan.ranges[++j].count;
    const bd_layer_range *x = &a->plan.ranges[i], *y = &b->plan.ranges[j];
    int64_t end = a_end < b_end ? a_end : b_end;
    const char *name = bd_intern_f(ctx, end == first + 1 ? "layer %lld" : "layers %lld-%lld",
                                   (long long)first, (long long)end - 1);
    bd_difference_add(out, name, place_words(ctx, x), place_words(ctx, y));
    if (compared[x->strategy] != y->strategy + 1) {
      compare_ops(ctx, out, &a->strategies[x->strategy], &b->strategies[y->strategy]);
      compare_values(ctx, out, &a->strategies[x->strategy], &b->strategies[y->strategy]);
    }
    compared[x->strategy] = y->strategy + 1;
    first = end;
  }
}
