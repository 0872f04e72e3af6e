// Chains as a format of `braid solve`.
#include "planner/remat/chain.h"
#include "planner/remat/lines.h"
#include <math.h>

static bool recognize(const char *data, size_t bytes) {
  return bd_lines_begin(data, bytes, "L");
}

static bd_status refuse(bd_ctx *ctx, const bd_bare_request *request, const bd_chain *chain,
                        int64_t budget) {
  int64_t smallest = bd_chain_smallest_budget(ctx, chain);
  return bd_fail(ctx, BD_INFEASIBLE, bd_loc_file(request->file),
                 "no sequence fits in %lld slot%s; the smallest budget that works is %lld",
                 (long long)budget, bd_plural(budget, "s"), (long long)smallest);
}

static bd_status check(bd_ctx *ctx, const bd_chain *chain, int64_t budget, bd_remat_answer *out) {
  double cost;
  int64_t peak;
  BD_TRY(bd_chain_replay(ctx, chain, &out->steps, &cost, &peak));
  return bd_remat_answer_check(ctx, "chain", cost, peak, budget, out);
}

static bd_status solve(bd_ctx *ctx, const bd_bare_request *request, bd_text *out) {
  double start = bd_clock_seconds();
  bd_chain chain;
  BD_TRY(bd_chain_read(ctx, request->file, request->data, request->bytes, &chain));
  int64_t budget = (int64_t)fmin(request->budget, (double)BD_CHAIN_MAX_SLOTS * 1e4);
  bd_remat_answer answer = {.word = bd_chain_words, .time_unit = "time units", .unit = "slots"};
  bd_status status =
      bd_chain_solve(ctx, &chain, budget, request->limit_seconds, request->stop, &answer);
  if (status == BD_INFEASIBLE) return refuse(ctx, request, &chain, budget);
  BD_TRY(status);
  BD_TRY(check(ctx, &chain, budget, &answer));
  answer.problem =
      bd_intern_f(ctx, "chain of %d layer%s", chain.layers - 1, bd_plural(chain.layers - 1, "s"));
  answer.base_cost = bd_chain_base(&chain);
  answer.budget = (double)budget;
  answer.seconds = bd_clock_seconds() - start;
  bd_remat_answer_print(ctx, request, &answer, out);
  return BD_OK;
}

const bd_bare_format bd_bare_chain = {
    .name = "chain",
    .summary = "recomputation of a chain of layers: times, sizes and tapes in slots",
    .recognize = recognize,
    .wants_budget = true,
    .solve = solve,
};
