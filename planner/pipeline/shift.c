#include "planner/pipeline/shift.h"
#include "planner/pipeline/refill.h"
#include <math.h>

enum { ROUNDS = 8 };

// Of a stage, the first run that has layers, or the last.
static int end_run(const bd_pipeline_problem *p, const bd_pipeline *of, int stage, bool first) {
  const int *entry = &of->entry[stage * p->run_count];
  int run = first ? 0 : p->run_count - 1, step = first ? 1 : -1;
  while (entry[run] < 0)
    run += step;
  return run;
}

// A candidate that layers of the run on the stage have, in the form.
static int candidate_in(const bd_pipeline_problem *p, const bd_pipeline *of, int stage, int run,
                        int form) {
  int k = 0;
  while (p->runs[run].candidates[k].form != form || !of->count[bd_pipeline_index(p, stage, run, k)])
    k++;
  return k;
}

static void take_layer(const bd_pipeline_problem *p, int stage, int run, int candidate,
                       bd_pipeline *of) {
  int *entry = &of->entry[stage * p->run_count + run],
      left = bd_pipeline_layers(p, of->count, stage, run) - 1;
  of->count[bd_pipeline_index(p, stage, run, candidate)]--;
  int form = bd_pipeline_exit_form(p, of->count, stage, run, *entry);
  bool gone = true; // the form in which the run enters
  for (int k = 0; k < p->runs[run].candidate_count; k++)
    if (p->runs[run].candidates[k].form == *entry && of->count[bd_pipeline_index(p, stage, run, k)])
      gone = false;
  if (gone) *entry = left ? form : -1;
}

// The layer next to the boundary goes from a stage to its neighbour: as layers of its run there
// are that it comes to lie beside, or as what it was. False when the stage has no other.
static bool move_layer(const bd_pipeline_problem *p, int from, int to, bd_pipeline *of) {
  bool ahead = to > from;
  int run = end_run(p, of, from, !ahead), other = end_run(p, of, from, ahead);
  int entry = of->entry[from * p->run_count + run], *entry_to = &of->entry[to * p->run_count + run];
  if (run == other && bd_pipeline_layers(p, of->count, from, run) == 1) return false;
  int form = ahead ? bd_pipeline_exit_form(p, of->count, from, run, entry) : entry;
  int taken = candidate_in(p, of, from, run, form), put = taken;
  if (*entry_to >= 0)
    put = candidate_in(p, of, to, run,
                       ahead ? *entry_to : bd_pipeline_exit_form(p, of->count, to, run, *entry_to));
  else
    *entry_to = form;
  take_layer(p, from, run, taken, of);
  of->count[bd_pipeline_index(p, to, run, put)]++;
  return true;
}

// The assignment in an arena of its own.
static bd_pipeline copy_of(bd_arena *arena, const bd_pipeline_problem *p, const bd_pipeline *of) {
  bd_pipeline out = *of;
  out.count =
      bd_arena_copy(arena, of->count, p->stages * bd_pipeline_candidates(p), sizeof *out.count);
  out.entry = bd_arena_copy(arena, of->entry, p->stages * p->run_count, sizeof *out.entry);
  if (of->price) out.price = bd_arena_copy(arena, of->price, p->stages, sizeof *out.price);
  return out;
}

static bool may_cut(const bd_pipeline_problem *p, const bd_pipeline *of, int last_stage) {
  int layers = 0;
  for (int s = 0; s <= last_stage; s++)
    for (int r = 0; r < p->run_count; r++)
      layers += bd_pipeline_layers(p, of->count, s, r);
  return !p->cut_least || (layers >= p->cut_least[last_stage] && layers <= p->cut_most[last_stage]);
}

// Whether that makes the step shorter; then it is done, in `kept`.
static bool try_move(bd_ctx *ctx, bd_arena *kept, const bd_pipeline_problem *p, int from, int to,
                     bd_pipeline *pipeline) {
  bd_pipeline next = copy_of(ctx->arena, p, pipeline);
  int first = from < to ? from : to;
  if (!move_layer(p, from, to, &next) || !may_cut(p, &next, first)) return false;
  next.seconds = bd_pipeline_seconds(p, next.count, next.entry);
  next.bytes = (int64_t)bd_pipeline_bytes(p, next.count, next.entry);
  next.optimal = false;
  bd_pipeline_refill_stages(ctx, p, first, first + 1, &next);
  if (next.seconds >= pipeline->seconds) return false;
  *pipeline = copy_of(kept, p, &next);
  return true;
}

// What a move is looked at with is not needed after it.
void bd_pipeline_shift(bd_ctx *ctx, const bd_pipeline_problem *p, bd_pipeline *pipeline) {
  bool any = pipeline->feasible;
  bd_owned held;
  bd_arena *kept = ctx->arena, *scratch = bd_ctx_open_arena(ctx, &held);
  ctx->arena = scratch;
  for (int round = 0; round < ROUNDS && any; round++) {
    any = false;
    for (int move = 0; move < 2 * (p->stages - 1); move++) {
      int left = move / 2, right = left + 1;
      any |= try_move(ctx, kept, p, move % 2 ? right : left, move % 2 ? left : right, pipeline);
      bd_arena_reset(scratch);
    }
  }
  ctx->arena = kept;
  bd_ctx_close_arena(ctx, &held);
}
