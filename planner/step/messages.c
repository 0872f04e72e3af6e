#include "planner/step/messages.h"
#include <math.h>

enum {
  // Micro-batches of a step that is run to the end: so many to a stage, and so many at least.
  STAGE_TURNS = 4,
  LEAST_TURNS = 256,
};

typedef enum activity { IDLE, BUSY, MOVES } activity;

// A stage.
typedef struct runner {
  const bd_stage_pass *passes;
  int pass_count, pass, task;
  activity activity;
  double left; // seconds of it; of what moves, as if it had the link alone
} runner;

typedef struct running {
  int stages;
  bd_step_traffic traffic;
  runner *runners;      // per stage
  int *sent, *received; // per message: of how many micro-batches
  int *users;           // per link
} running;

static const bd_step_tasks *tasks_of(const running *r, const runner *at) {
  const bd_stage_pass *pass = &at->passes[at->pass];
  int part = pass->chunk * r->stages + (int)(at - r->runners);
  return &r->traffic.passes[part][pass->kind];
}

static const bd_step_message *message_of(const running *r, const bd_step_task *task) {
  return &r->traffic.messages[task->message];
}

// Whether a stage that comes to a task must wait.
static bool waits(const running *r, const runner *at, const bd_step_task *task) {
  if (task->kind == BD_TASK_RECEIVE)
    return r->sent[task->message] <= at->passes[at->pass].micro_batch;
  return task->kind == BD_TASK_SEND &&
         r->sent[task->message] - r->received[task->message] >= message_of(r, task)->copies;
}

static void begin(const running *r, runner *at) {
  if (at->activity != IDLE || at->pass == at->pass_count) return;
  const bd_step_task *task = &tasks_of(r, at)->tasks[at->task];
  if (waits(r, at, task)) return;
  at->activity = BUSY;
  at->left = task->seconds;
}

// What a stage is at has come to its end.
static void end(running *r, runner *at) {
  const bd_step_tasks *list = tasks_of(r, at);
  const bd_step_task *task = &list->tasks[at->task];
  if (task->kind == BD_TASK_RECEIVE && at->activity == BUSY) {
    at->activity = MOVES;
    at->left = message_of(r, task)->move_seconds;
    r->users[message_of(r, task)->link]++;
    return;
  }
  at->activity = IDLE;
  if (task->kind == BD_TASK_SEND) r->sent[task->message]++;
  if (task->kind == BD_TASK_RECEIVE) {
    r->received[task->message]++;
    r->users[message_of(r, task)->link]--;
  }
  if (++at->task < list->count) return;
  at->task = 0;
  at->pass++;
}

// How much longer what a stage is at takes than if it had the link alone.
static double slowdown(const running *r, const runner *at) {
  if (at->activity != MOVES) return 1;
  return r->users[message_of(r, &tasks_of(r, at)->tasks[at->task])->link];
}

// Goes from one end to the next; returns the time that the last one takes.
static double run_all(running *r) {
  for (double now = 0;;) {
    runner *first = NULL;
    double passed = INFINITY;
    for (runner *at = r->runners; at < r->runners + r->stages; at++) {
      begin(r, at);
      double left = at->activity == IDLE ? INFINITY : at->left * slowdown(r, at);
      if (left < passed) first = at;
      passed = fmin(passed, left);
    }
    if (!first) return now;
    now += passed;
    for (runner *at = r->runners; at < r->runners + r->stages; at++)
      if (at->activity != IDLE) at->left = fmax(0, at->left - passed / slowdown(r, at));
    end(r, first);
  }
}

static bd_status run(bd_ctx *ctx, const bd_plan *plan, int micro_batches, double *out_seconds) {
  running r = {.stages = plan->stages, .runners = BD_NEW_ARRAY(ctx->arena, runner, plan->stages)};
  bd_step_read_traffic(ctx, plan, &r.traffic);
  r.sent = BD_NEW_ARRAY(ctx->arena, int, r.traffic.message_count);
  r.received = BD_NEW_ARRAY(ctx->arena, int, r.traffic.message_count);
  r.users = BD_NEW_ARRAY(ctx->arena, int, 2 * plan->stages);
  for (int s = 0; s < plan->stages; s++)
    BD_TRY(bd_schedule_order(ctx, plan->schedule, s, plan->stages, bd_plan_chunks(plan),
                             micro_batches, &r.runners[s].passes, &r.runners[s].pass_count));
  *out_seconds = run_all(&r);
  return BD_OK;
}

static bd_status run_apart(bd_ctx *ctx, const bd_plan *plan, int micro_batches,
                           double *out_seconds) {
  bd_owned held;
  bd_arena *kept = ctx->arena, *arena = bd_ctx_open_arena(ctx, &held);
  ctx->arena = arena;
  bd_status status = run(ctx, plan, micro_batches, out_seconds);
  ctx->arena = kept;
  bd_ctx_close_arena(ctx, &held);
  return status;
}

// Interleaved wants multiples of the stages.
bd_status bd_step_messages_seconds(bd_ctx *ctx, const bd_plan *plan, double *out_seconds) {
  int micro_batches = bd_plan_micro_batches(plan), half = plan->stages * STAGE_TURNS / 2;
  double half_seconds, seconds;
  while (2 * half < LEAST_TURNS)
    half += plan->stages;
  if (micro_batches <= 2 * half) return run_apart(ctx, plan, micro_batches, out_seconds);
  BD_TRY(run_apart(ctx, plan, half, &half_seconds));
  BD_TRY(run_apart(ctx, plan, 2 * half, &seconds));
  *out_seconds = seconds + (micro_batches - 2 * half) * (seconds - half_seconds) / half;
  return BD_OK;
}
