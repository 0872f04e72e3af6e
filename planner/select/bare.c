// The format `sharding` of `braid solve`.
#include "planner/bare.h"
#include "planner/select/select.h"

#include <string.h>

static void add_json(bd_text *out, const bd_select_problem *p, const bd_select_answer *answer) {
  bd_text_add(out, "{\"solution\": [");
  for (int i = 0; i < p->nodes; i++)
    bd_text_addf(out, i ? ", %d" : "%d", answer->choice[i]);
  bd_text_addf(out, "], \"cost\": %lld, \"bound\": %lld, \"seconds\": ", (long long)answer->cost,
               (long long)answer->bound);
  bd_text_add_json_number(out, answer->seconds);
  bd_text_add(out, "}\n");
}

static void add_words(bd_text *out, const bd_select_problem *p, const bd_select_answer *answer,
                      const bd_bare_request *request) {
  if (p->name[0]) {
    bd_text_add(out, "problem  ");
    bd_text_add_printable(out, p->name, strlen(p->name));
    bd_text_add(out, "\n");
  }
  bd_text_addf(out, "nodes    %d, edges %d\n", p->nodes, p->edges);
  bd_text_addf(out, "cost     %lld", (long long)answer->cost);
  if (answer->forbidden) bd_text_add(out, ", a forbidden choice among it");
  bd_text_addf(out, "\nbound    %lld", (long long)answer->bound);
  bd_text_add(out, ": ");
  if (answer->bound >= answer->cost)
    bd_text_add(out, "optimal");
  else
    bd_bare_add_gap(out, (double)answer->cost, (double)answer->bound);
  bd_text_add(out, "\n");
  bd_text_addf(out, "usage    %lld at most", (long long)answer->peak);
  if (p->limit < INT64_MAX) bd_text_addf(out, ", limit %lld", (long long)p->limit);
  bd_text_addf(out, "\nseconds  %.2f", answer->seconds);
  if (answer->limited) bd_text_addf(out, ", %s", bd_bare_ending(request));
  bd_text_add(out, "\n");
  bd_text_add(out, "`--json` prints the strategy of every node\n");
}

static bd_status solve(bd_ctx *ctx, const bd_bare_request *request, bd_text *out) {
  double begun = bd_clock_seconds();
  bd_deadline deadline = bd_bare_deadline(request);
  bd_select_problem problem;
  bd_select_answer answer;
  BD_TRY(bd_select_read(ctx, request->file, request->data, request->bytes, &problem));
  if (request->budget > 0)
    problem.limit = request->budget < 0x1p62 ? (int64_t)request->budget : INT64_MAX;
  BD_TRY(bd_select_solve(ctx, request->file, &problem, deadline, request->threads, &answer));
  answer.seconds = bd_clock_seconds() - begun;
  if (answer.limited) bd_bare_warn_cut(ctx, request, (double)answer.cost, (double)answer.bound, "");
  if (answer.forbidden)
    bd_warn(ctx, bd_loc_file(request->file), "every choice found has a forbidden cost");
  if (request->json)
    add_json(out, &problem, &answer);
  else
    add_words(out, &problem, &answer, request);
  return BD_OK;
}

const bd_bare_format bd_bare_sharding = {
    .name = "sharding",
    .summary = "strategies of nodes and edges with usages over time, JSON of google/iopddl",
    .recognize = bd_select_recognize,
    .solve = solve,
};
