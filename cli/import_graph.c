#include "cli/import_graph.h"
#include "cli/answer.h"
#include "ir/base/text.h"
#include "ir/index.h"
#include "ir/routing.h"
#include <stdlib.h>
#include <string.h>

typedef struct tally {
  const char *what;
  int count;
} tally;

static int by_count(const void *a, const void *b) {
  const tally *x = a, *y = b;
  return x->count != y->count ? y->count - x->count : strcmp(x->what, y->what);
}

// `97 (model.1 96, model.0 1)`: most first.
static void add_tallies(bd_text *text, int count, tally *tallies) {
  int total = 0, shown = 0;
  qsort(tallies, (size_t)count, sizeof *tallies, by_count);
  for (int i = 0; i < count; i++)
    total += tallies[i].count;
  bd_text_addf(text, "%d", total);
  for (int i = 0; i < count && tallies[i].count > 0; i++, shown++)
    bd_text_addf(text, "%s%s %d", i ? ", " : " (", tallies[i].what, tallies[i].count);
  bd_text_add(text, shown ? ")\n" : "\n");
}

// Adds the ops of one call, and their arithmetic for one sample.
static bd_status add_ops(bd_ctx *ctx, const bd_function *function, int calls, tally *kinds,
                         double *flops) {
  static const bd_mesh one = {.axes = 1, .size = {1}};
  static const int8_t whole[BD_MAX_AXES] = {-1, -1, -1, -1};
  for (int i = 0; i < function->op_count; i++) {
    const bd_op *op = &function->ops[i];
    bd_index_map map;
    bd_type types[BD_MAX_RESULTS];
    BD_TRY(bd_op_infer(ctx, function, op, &map, types));
    kinds[op->kind].count += calls;
    *flops += calls * bd_op_flops(function, op, &map, &one, whole, 1);
  }
  return BD_OK;
}

static int count_calls(const bd_module *graph, const bd_function *function) {
  int calls = 0;
  for (int i = 0; i < graph->main->op_count; i++) {
    const bd_op *op = &graph->main->ops[i];
    calls += op->kind == BD_OP_CALL && strcmp(op->callee, function->name) == 0;
  }
  return calls;
}

static int count_ops(const bd_module *graph, bd_op_kind kind) {
  int count = 0;
  for (int f = 0; f < graph->function_count; f++) {
    const bd_function *function = graph->functions[f];
    int calls = count_calls(graph, function);
    for (int i = 0; i < function->op_count; i++)
      count += function->ops[i].kind == kind ? calls : 0;
  }
  return count;
}

static int count_routings(const bd_module *graph) {
  int count = 0;
  for (int f = 0; f < graph->function_count; f++)
    count += count_calls(graph, graph->functions[f]) * bd_routing_count(graph->functions[f]);
  return count;
}

static void add_found(bd_text *text, const char *name, int count, int *shown) {
  if (count > 0) bd_text_addf(text, "%s%s %d", (*shown)++ ? ", " : "recovered: ", name, count);
}

// What stands in the place of the primitives that were read.
static void add_recovered(bd_text *text, const bd_module *read, const bd_module *graph) {
  static const bd_op_kind kinds[] = {
      BD_OP_ATTENTION, BD_OP_RELATIVE_ATTENTION, BD_OP_ROPE, BD_OP_LAYERNORM, BD_OP_RMSNORM,
      BD_OP_GELU,      BD_OP_GELU_ERF,           BD_OP_SILU, BD_OP_XENT};
  int shown = 0;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    int count = count_ops(graph, kinds[i]) - count_ops(read, kinds[i]);
    add_found(text, bd_op_get_info(kinds[i])->name, count, &shown);
  }
  add_found(text, "experts", count_routings(graph) - count_routings(read), &shown);
  bd_text_add(text, shown ? "\n" : "");
}

bd_status bd_import_describe(bd_ctx *ctx, const bd_module *read, const bd_module *graph) {
  tally kinds[BD_OP_KIND_COUNT];
  tally *functions = BD_NEW_ARRAY(ctx->arena, tally, graph->function_count);
  double flops = 0;
  for (int i = 0; i < BD_OP_KIND_COUNT; i++)
    kinds[i] = (tally){bd_op_get_info((bd_op_kind)i)->name, 0};
  for (int i = 0; i < graph->function_count; i++) {
    const bd_function *function = graph->functions[i];
    functions[i] = (tally){function->name, count_calls(graph, function)};
    BD_TRY(add_ops(ctx, function, functions[i].count, kinds, &flops));
  }
  bd_text text = bd_text_init(ctx->arena);
  bd_text_add(&text, "layers of the graph: ");
  add_tallies(&text, graph->function_count, functions);
  bd_text_add(&text, "ops of the graph: ");
  add_tallies(&text, BD_OP_KIND_COUNT, kinds);
  add_recovered(&text, read, graph);
  bd_text_addf(&text, "arithmetic of a sample, forward: %.4g GFLOP\n", flops * 1e-9);
  return bd_answer_write(ctx, &text, NULL);
}
