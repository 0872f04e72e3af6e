// Graphs as a format of `braid solve`.
#include "planner/remat/graph.h"
#include "planner/remat/lines.h"
#include <math.h>

static bool recognize(const char *data, size_t bytes) {
  return bd_lines_begin(data, bytes, "node") || bd_lines_begin(data, bytes, "params") ||
         bd_lines_begin(data, bytes, "edge");
}

static bd_status refuse(bd_ctx *ctx, const bd_bare_request *request, const bd_graph *graph,
                        int64_t budget, bool proven) {
  int64_t known = bd_graph_smallest_budget(ctx, graph, bd_bare_deadline(request));
  return bd_fail(ctx, proven ? BD_INFEASIBLE : BD_EXTERNAL, bd_loc_file(request->file),
                 "%s %lld byte%s%s; the smallest budget known to work is %lld",
                 proven ? "no sequence fits in" : "no sequence was found that fits in",
                 (long long)budget, bd_plural(budget, "s"), proven ? "" : " in time",
                 (long long)known);
}

static bd_status check(bd_ctx *ctx, const bd_graph *graph, int64_t budget, bd_remat_answer *out) {
  double cost;
  int64_t peak;
  BD_TRY(bd_graph_replay(ctx, graph, &out->steps, &cost, &peak));
  return bd_remat_answer_check(ctx, "graph", cost, peak, budget, out);
}

static bd_status solve(bd_ctx *ctx, const bd_bare_request *request, bd_text *out) {
  double start = bd_clock_seconds();
  bd_graph graph;
  bd_deadline deadline = bd_bare_deadline(request);
  BD_TRY(bd_graph_read(ctx, request->file, request->data, request->bytes, &graph));
  int64_t full = bd_graph_full(&graph);
  int64_t budget = request->budget > 0 ? (int64_t)fmin(request->budget, 0x1p60) : full;
  bd_remat_answer answer = {.word = bd_graph_words, .time_unit = "flops", .unit = "bytes"};
  bd_status status = bd_graph_solve(ctx, &graph, budget, deadline, &answer);
  if (status == BD_EXHAUSTED && bd_deadline_stopped(deadline))
    return bd_bare_fail_interrupted(ctx, request);
  if (status == BD_INFEASIBLE || status == BD_EXHAUSTED)
    return refuse(ctx, request, &graph, budget, status == BD_INFEASIBLE);
  BD_TRY(status);
  BD_TRY(check(ctx, &graph, budget, &answer));
  answer.problem = bd_intern_f(ctx, "graph of %d nodes", graph.nodes);
  answer.base_cost = bd_graph_base(&graph);
  answer.budget = (double)budget;
  answer.seconds = bd_clock_seconds() - start;
  bd_remat_answer_print(ctx, request, &answer, out);
  return BD_OK;
}

const bd_bare_format bd_bare_graph = {
    .name = "graph",
    .summary = "recomputation of a graph of values: flops and bytes per node",
    .recognize = recognize,
    .solve = solve,
};
