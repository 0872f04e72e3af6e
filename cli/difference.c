#include "cli/difference.h"
#include <string.h>

enum { MOST_CHOICES = 256 }; // ops told apart; more are counted

typedef struct finding {
  bd_ctx *ctx;
  bd_difference *out;
  int untold;
} finding;

static void add_choice(finding *f, const char *name, const char *a, const char *b) {
  if (strcmp(a, b) == 0) return;
  if (f->out->choice_count == MOST_CHOICES)
    f->untold++;
  else
    f->out->choices[f->out->choice_count++] = (bd_choice_row){name, a, b};
}

static void add_number(finding *f, const char *name, int64_t a, int64_t b) {
  add_choice(f, name, bd_intern_f(f->ctx, "%lld", (long long)a),
             bd_intern_f(f->ctx, "%lld", (long long)b));
}

static const char *mesh_words(bd_ctx *ctx, const bd_plan *plan) {
  const char *sizes = "";
  for (int a = 0; a < plan->mesh.axes; a++)
    sizes = bd_intern_f(ctx, "%s%s%d", sizes, a ? "x" : "", plan->mesh.size[a]);
  return plan->mesh.axes ? sizes : "1";
}

static const char *zero_words(bd_ctx *ctx, const bd_plan *plan) {
  const char *axes = "";
  for (int a = 0; a < plan->mesh.axes; a++)
    if (plan->zero_axes >> a & 1u && plan->mesh.size[a] > 1)
      axes = bd_intern_f(ctx, "%s%s%d", axes, *axes ? ", " : "", a);
  return *axes ? bd_intern_f(ctx, "1, over axes %s", axes) : "0";
}

static void compare_heads(finding *f) {
  const bd_plan *a = &f->out->a->plan, *b = &f->out->b->plan;
  bd_degrees da = bd_explain_degrees(a, f->out->a->strategies);
  bd_degrees db = bd_explain_degrees(b, f->out->b->strategies);
  add_choice(f, "model", a->model, b->model);
  add_choice(f, "cluster", a->cluster ? a->cluster : "", b->cluster ? b->cluster : "");
  add_choice(f, "target", a->target, b->target);
  add_choice(f, "optimizer", a->optimizer, b->optimizer);
  add_choice(f, "precision", bd_dtype_name(a->precision), bd_dtype_name(b->precision));
  add_choice(f, "masters", bd_masters_name(a->masters), bd_masters_name(b->masters));
  add_number(f, "global batch", a->global_batch, b->global_batch);
  add_number(f, "sequence", a->sequence, b->sequence);
  add_number(f, "ranks", bd_plan_ranks(a), bd_plan_ranks(b));
  add_number(f, "stages", a->stages, b->stages);
  add_choice(f, "mesh", mesh_words(f->ctx, a), mesh_words(f->ctx, b));
  add_number(f, "data parallel", da.data, db.data);
  add_number(f, "tensor parallel", da.tensor, db.tensor);
  add_number(f, "sequence parallel", da.sequence, db.sequence);
  add_number(f, "micro-batch", a->micro_batch, b->micro_batch);
  add_choice(f, "schedule", bd_schedule_name(a->schedule), bd_schedule_name(b->schedule));
  add_choice(f, "ZeRO", zero_words(f->ctx, a), zero_words(f->ctx, b));
}

static int64_t layers_of(const bd_plan *plan) {
  int64_t layers = 0;
  for (int i = 0; i < plan->range_count; i++)
    layers += plan->ranges[i].count;
  return layers;
}

// How one op of a layer runs, in words: what each mesh axis cuts, what becomes of its result, and
// in how many parts its products are done.
static const char *op_words(bd_ctx *ctx, const bd_plan *plan, const bd_told_op *op) {
  const char *words = "";
  for (int axis = 0; axis < plan->mesh.axes; axis++) {
    const char *cut = bd_cut_name(op->cut[axis]);
    words = bd_intern_f(ctx, "%s%s%s", words, axis ? " x " : "", cut ? cut : "nothing");
  }
  words = bd_intern_f(ctx, "%s%s", words,
                      op->saved        ? ", saved"
                      : op->recomputed ? ", recomputed"
                                       : "");
  for (int pass = 0; pass < BD_PARTS_PASSES; pass++)
    if (op->parts[pass] > 1)
      words = bd_intern_f(ctx, "%s,%s in %d parts", words,
                          pass == BD_PARTS_BACKWARD ? " backward" : "", op->parts[pass]);
  return words;
}

static int strategies_of(const bd_told_plan *told, const char *function) {
  int count = 0;
  for (int s = 0; s < told->plan.strategy_count; s++)
    count += strcmp(told->strategies[s].function, function) == 0;
  return count;
}

// The layers that are compared: by their function, or by the strategies where it has several.
static const char *pair_words(const finding *f, const bd_told_strategy *a,
                              const bd_told_strategy *b) {
  if (strategies_of(f->out->a, a->function) == 1 && strategies_of(f->out->b, a->function) == 1)
    return a->function;
  if (strcmp(a->name, b->name) == 0) return a->name;
  return bd_intern_f(f->ctx, "%s to %s", a->name, b->name);
}

static void compare_ops(finding *f, const bd_told_strategy *a, const bd_told_strategy *b) {
  for (int i = 0; i < a->op_count && i < b->op_count; i++) {
    const char *x = op_words(f->ctx, &f->out->a->plan, &a->ops[i]);
    const char *y = op_words(f->ctx, &f->out->b->plan, &b->ops[i]);
    // Cuts of one kind along different loops.
    if (strcmp(x, y) == 0 && strcmp(a->ops[i].split, b->ops[i].split) != 0) {
      x = bd_intern_f(f->ctx, "%s (%s)", x, a->ops[i].split);
      y = bd_intern_f(f->ctx, "%s (%s)", y, b->ops[i].split);
    }
    add_choice(f, bd_intern_f(f->ctx, "%s: %s", pair_words(f, a, b), a->ops[i].result), x, y);
  }
}

// Layers by where and how they run; a pair of strategies is compared once in a row.
static void compare_layers(finding *f) {
  const bd_told_plan *a = f->out->a, *b = f->out->b;
  int64_t layers = layers_of(&a->plan), first = 0, a_end = 0, b_end = 0;
  if (layers != layers_of(&b->plan)) {
    add_number(f, "layers", layers, layers_of(&b->plan));
    return;
  }
  int *compared = BD_NEW_ARRAY(f->ctx->arena, int, a->plan.strategy_count); // with: 1 + its number
  for (int i = -1, j = -1; first < layers;) {
    if (first == a_end) a_end += a->plan.ranges[++i].count;
    if (first == b_end) b_end += b->plan.ranges[++j].count;
    const bd_layer_range *x = &a->plan.ranges[i], *y = &b->plan.ranges[j];
    int64_t end = a_end < b_end ? a_end : b_end;
    const char *name = bd_intern_f(f->ctx, end == first + 1 ? "layer %lld" : "layers %lld-%lld",
                                   (long long)first, (long long)end - 1);
    if (x->stage != y->stage)
      add_choice(f, name, bd_intern_f(f->ctx, "stage %d", x->stage),
                 bd_intern_f(f->ctx, "stage %d", y->stage));
    if (compared[x->strategy] != y->strategy + 1)
      compare_ops(f, &a->strategies[x->strategy], &b->strategies[y->strategy]);
    compared[x->strategy] = y->strategy + 1;
    first = end;
  }
}

static void compare_seconds(bd_ctx *ctx, bd_difference *out) {
  bd_time_part a[BD_MAX_TIME_PARTS], b[BD_MAX_TIME_PARTS];
  int a_count = bd_explain_time_parts(&out->a->plan, a);
  int b_count = bd_explain_time_parts(&out->b->plan, b);
  out->seconds = BD_NEW_ARRAY(ctx->arena, bd_seconds_row, a_count + b_count + 1);
  out->seconds[out->seconds_count++] =
      (bd_seconds_row){"step", -1, out->a->plan.step_seconds, out->b->plan.step_seconds};
  for (int i = 0; i < a_count; i++)
    out->seconds[out->seconds_count++] = (bd_seconds_row){a[i].name, a[i].axis, a[i].seconds, 0};
  for (int i = 0; i < b_count; i++) {
    int at = 1;
    while (at < out->seconds_count &&
           (strcmp(out->seconds[at].name, b[i].name) != 0 || out->seconds[at].axis != b[i].axis))
      at++;
    if (at == out->seconds_count)
      out->seconds[out->seconds_count++] = (bd_seconds_row){b[i].name, b[i].axis, 0, 0};
    out->seconds[at].b = b[i].seconds;
  }
}

static const bd_memory *fullest(const bd_plan *plan) {
  const bd_memory *most = &plan->predicted[0].memory;
  for (int s = 1; s < plan->stages; s++)
    if (plan->predicted[s].memory.total_bytes > most->total_bytes)
      most = &plan->predicted[s].memory;
  return most;
}

static void compare_bytes(bd_ctx *ctx, bd_difference *out) {
  const bd_memory *a = fullest(&out->a->plan), *b = fullest(&out->b->plan);
  out->bytes = BD_NEW_ARRAY(ctx->arena, bd_bytes_row, BD_SEGMENT_COUNT + 1);
  out->bytes[out->bytes_count++] = (bd_bytes_row){"arena", a->total_bytes, b->total_bytes};
  for (int s = 1; s < BD_SEGMENT_COUNT; s++)
    if (a->bytes[s] || b->bytes[s])
      out->bytes[out->bytes_count++] =
          (bd_bytes_row){bd_segment_name((bd_segment)s), a->bytes[s], b->bytes[s]};
}

bd_difference bd_difference_find(bd_ctx *ctx, const bd_told_plan *a, const bd_told_plan *b) {
  bd_difference out = {.a = a, .b = b};
  out.choices = BD_NEW_ARRAY(ctx->arena, bd_choice_row, MOST_CHOICES + 1);
  finding f = {.ctx = ctx, .out = &out};
  compare_heads(&f);
  compare_layers(&f);
  if (f.untold)
    out.choices[out.choice_count++] =
        (bd_choice_row){"others", bd_intern_f(ctx, "%d more differ", f.untold), ""};
  compare_seconds(ctx, &out);
  compare_bytes(ctx, &out);
  return out;
}
