#include "planner/full/question.h"
#include "planner/graph/plan.h"

void bd_full_ask(bd_full_graphs *g, bd_full_questions *all, const bd_full_question *question) {
  if (all->count == all->capacity) {
    int wanted = all->capacity ? 2 * all->capacity : 16;
    all->items = bd_arena_grow(g->ctx->arena, all->items, (size_t)all->count, (size_t)wanted,
                               sizeof *all->items);
    all->capacity = wanted;
  }
  all->items[all->count++] = *question;
}

double bd_full_cutoff(const bd_full_graphs *g, const bd_full_question *q) {
  return g->found ? g->best.step_seconds * q->slack : 1e30;
}

bool bd_full_is_open(const bd_full_graphs *g, const bd_full_question *q) {
  return !g->found || q->seconds * BD_FULL_NEARLY < g->best.step_seconds;
}

typedef struct asking {
  bd_full_graphs *graphs;
  bd_full_question **of; // per task
} asking;

static bd_status solve(bd_ctx *ctx, void *arg, int index) {
  const asking *a = arg;
  bd_full_question *q = a->of[index];
  double cutoff = bd_full_cutoff(a->graphs, q);
  if (bd_deadline_passed(a->graphs->deadline)) return BD_OK;
  BD_TRY(bd_layers_solve(ctx, &q->problem.layers, a->graphs->deadline, cutoff, true, &q->answer));
  q->cutoff = cutoff;
  return BD_OK;
}

static void keep(bd_ctx *ctx, void *arg, int index) {
  const asking *a = arg;
  bd_full_question *q = a->of[index];
  if (q->cutoff > 0 && q->answer.found)
    q->answer.plan = bd_layers_plan_clone(ctx, &q->answer.plan, q->problem.layers.layer_count);
}

static bool is_answered(const bd_full_graphs *g, const bd_full_question *q) {
  return q->cutoff == bd_full_cutoff(g, q);
}

bd_status bd_full_answer(bd_full_graphs *g, bd_full_questions *all, int index,
                         bd_layers_answer *out) {
  *out = (bd_layers_answer){0};
  if (!is_answered(g, &all->items[index])) {
    asking a = {g, BD_NEW_ARRAY(g->ctx->arena, bd_full_question *, g->ahead)};
    bd_work work = {0, solve, keep, &a};
    for (int i = index; i < all->count && i < index + g->ahead; i++) {
      bd_full_question *q = &all->items[i];
      if (is_answered(g, q) || !bd_full_is_open(g, q)) continue;
      q->cutoff = 0;
      a.of[work.count++] = q;
    }
    BD_TRY(bd_workers_run(g->ctx, g->workers, &work));
  }
  if (is_answered(g, &all->items[index])) *out = all->items[index].answer;
  return BD_OK;
}
