#include "cli/explain.h"
#include <string.h>

enum { LABEL_WIDTH = 16, LINE_WIDTH = 108 };

static void add_name(bd_text *text, const char *name, int width) {
  size_t start = text->length;
  bd_text_add_printable(text, name, strlen(name));
  while (text->length < start + (size_t)width)
    bd_text_add(text, " ");
}

// The cuts that an axis makes, the most frequent first; returns how many there are.
static int order_cuts(const bd_axis_use *use, bd_cut order[BD_CUT_COUNT]) {
  int count = 0;
  for (int cut = BD_CUT_NONE + 1; cut < BD_CUT_COUNT; cut++) {
    if (use->ops[cut] == 0) continue;
    int at = count++;
    for (; at > 0 && use->ops[order[at - 1]] < use->ops[cut]; at--)
      order[at] = order[at - 1];
    order[at] = (bd_cut)cut;
  }
  return count;
}

void bd_explain_mesh(const bd_plan *plan, const bd_told_strategy *strategies, bd_text *text) {
  for (int axis = 0; axis < plan->mesh.axes; axis++) {
    bd_axis_use use = bd_explain_axis(plan, strategies, axis);
    bd_cut order[BD_CUT_COUNT];
    int count = order_cuts(&use, order), ranks = plan->mesh.size[axis];
    bd_text_addf(text, "%saxis %d, %d rank%s: ", axis ? "            " : "mesh        ", axis,
                 ranks, bd_plural(ranks, "s"));
    for (int i = 0; i < count; i++)
      bd_text_addf(text, "%s%s",
                   i == 0          ? ""
                   : i + 1 < count ? ", "
                                   : " and ",
                   bd_parallelism_name(order[i]));
    bd_text_add(text, count ? " parallel (" : "all do the same\n");
    for (int i = 0; i < count; i++)
      bd_text_addf(text, "%s%s in %.0f %%", i ? ", " : "", bd_cut_name(order[i]),
                   100 * (double)use.ops[order[i]] / (double)use.all);
    if (count) bd_text_add(text, " of the ops)\n");
  }
}

static void add_axis(const bd_told_strategy *strategy, int axis, bd_text *text) {
  bd_axis_use use = {0};
  for (int i = 0; i < strategy->op_count; i++)
    use.ops[strategy->ops[i].cut[axis]]++;
  bd_cut order[BD_CUT_COUNT];
  int count = order_cuts(&use, order);
  bd_text_addf(text, "    axis %d      ", axis);
  for (int i = 0; i < count; i++)
    bd_text_addf(text, "%s cut in %lld, ", bd_cut_name(order[i]), (long long)use.ops[order[i]]);
  if (use.ops[BD_CUT_NONE])
    bd_text_addf(text, "nothing in %lld, ", (long long)use.ops[BD_CUT_NONE]);
  bd_text_addf(text, "of %d ops\n", strategy->op_count);
}

// The results of the ops that are saved, or that are recomputed.
static void add_results(const bd_told_strategy *strategy, bool saved, bd_text *text) {
  int count = 0;
  for (int i = 0; i < strategy->op_count; i++)
    count += saved ? strategy->ops[i].saved : strategy->ops[i].recomputed;
  bd_text_add(text, saved ? "    saves       " : "    recomputes  ");
  bd_text_addf(text, count ? "%d: " : "nothing", count);
  size_t line = text->length - LABEL_WIDTH;
  for (int i = 0, told = 0; i < strategy->op_count; i++) {
    const bd_told_op *op = &strategy->ops[i];
    if (!(saved ? op->saved : op->recomputed)) continue;
    if (told++) bd_text_add(text, ",");
    if (text->length - line + strlen(op->result) + 2 > LINE_WIDTH) {
      bd_text_add(text, "\n               ");
      line = text->length + 1 - LABEL_WIDTH;
    }
    bd_text_add(text, told > 1 ? " " : "");
    add_name(text, op->result, 0);
    if (saved && op->kept) bd_text_addf(text, " (%s)", op->kept);
  }
  bd_text_add(text, "\n");
}

// Products that are done in parts, each of which is summed over ranks beside the next.
static void add_parts(const bd_told_strategy *strategy, bd_text *text) {
  int told = 0;
  for (int i = 0; i < strategy->op_count; i++)
    for (int pass = 0; pass < BD_PARTS_PASSES; pass++) {
      const bd_told_op *op = &strategy->ops[i];
      if (op->parts[pass] == 1) continue;
      bd_text_add(text, told++ ? ", " : "    in parts    ");
      add_name(text, op->result, 0);
      bd_text_addf(text, "%s in %d", pass == BD_PARTS_BACKWARD ? " backward" : "", op->parts[pass]);
    }
  if (told) bd_text_add(text, "\n");
}

// Attentions whose ranks swap halves of their queries.
static void add_balanced(const bd_told_strategy *strategy, bd_text *text) {
  int told = 0;
  for (int i = 0; i < strategy->op_count; i++) {
    if (!strategy->ops[i].balanced) continue;
    bd_text_add(text, told++ ? ", " : "    balanced    ");
    add_name(text, strategy->ops[i].result, 0);
  }
  if (told) bd_text_add(text, "\n");
}

static void add_ops(const bd_plan *plan, const bd_told_strategy *strategy, bd_text *text) {
  bd_text_add(text, "    op             result             split per axis\n");
  for (int i = 0; i < strategy->op_count; i++) {
    const bd_told_op *op = &strategy->ops[i];
    bd_text_add(text, "    ");
    add_name(text, op->op, 15);
    add_name(text, op->result, 19);
    for (int axis = 0; axis < plan->mesh.axes; axis++) {
      const char *cut = bd_cut_name(op->cut[axis]);
      size_t start = text->length;
      bd_text_add_printable(text, op->split + axis, 1);
      bd_text_addf(text, "%s%s", cut ? " " : "", cut ? cut : "");
      while (text->length < start + 12)
        bd_text_add(text, " ");
    }
    bd_text_add(text, op->kept ? op->kept : "");
    bd_text_add(text, op->kept         ? "\n"
                      : op->saved      ? "saved\n"
                      : op->recomputed ? "recomputed\n"
                                       : "\n");
  }
}

void bd_explain_strategies(const bd_plan *plan, const bd_told_strategy *strategies, bool with_ops,
                           bd_text *text) {
  bd_text_add(text, "\nstrategies\n");
  for (int s = 0; s < plan->strategy_count; s++) {
    const bd_told_strategy *strategy = &strategies[s];
    bd_text_add(text, "  ");
    add_name(text, strategy->name, 0);
    bd_text_add(text, ": function ");
    add_name(text, strategy->function, 0);
    bd_text_addf(text, ", run by %d call%s\n", strategy->calls, bd_plural(strategy->calls, "s"));
    for (int axis = 0; axis < plan->mesh.axes; axis++)
      add_axis(strategy, axis, text);
    add_results(strategy, true, text);
    add_results(strategy, false, text);
    add_parts(strategy, text);
    add_balanced(strategy, text);
    if (with_ops) add_ops(plan, strategy, text);
  }
}
