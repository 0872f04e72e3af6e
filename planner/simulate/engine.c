#include "planner/simulate/engine.h"
#include <math.h>

#define MAX_FORWARDS ((int64_t)1 << 22)

static const bd_sim_work *work_at(const bd_sim *sim, int stage) {
  const bd_sim_actor *actor = &sim->actor[stage];
  const bd_sim_stage *of = &sim->problem->stage[stage];
  if (actor->phase == BD_SIM_REDUCE) return &of->reduce;
  if (actor->phase == BD_SIM_UPDATE) return &of->update;
  const bd_stage_pass *pass = &actor->passes[actor->pass];
  return &of->pass[pass->kind][pass->chunk];
}

const bd_sim_action *bd_sim_action_at(const bd_sim *sim, int stage) {
  const bd_sim_work *work = work_at(sim, stage);
  int action = sim->actor[stage].action;
  return action < work->count ? &work->actions[action] : NULL;
}

// Adds an event that began at `start` and ends at the present.
static void note(bd_sim *sim, int stage, bd_sim_thread thread, double start,
                 const bd_sim_action *action) {
  bd_sim_record *record = sim->record;
  const bd_sim_actor *actor = &sim->actor[stage];
  if (!record || record->event_count >= BD_SIM_MOST_EVENTS) return;
  if (record->event_count == record->event_capacity) {
    size_t capacity = record->event_capacity ? 2 * (size_t)record->event_capacity : 256;
    record->events = bd_arena_grow(sim->ctx->arena, record->events, (size_t)record->event_count,
                                   capacity, sizeof *record->events);
    record->event_capacity = (int)capacity;
  }
  bd_sim_event *event = &record->events[record->event_count++];
  *event = (bd_sim_event){.stage = stage,
                          .thread = thread,
                          .phase = actor->phase,
                          .message = action->kind == BD_SIM_COMPUTE ? -1 : action->message,
                          .start_seconds = start,
                          .seconds = sim->now - start,
                          .collective_seconds = action->collective_seconds};
  if (actor->phase == BD_SIM_PASSES) event->pass = actor->passes[actor->pass];
}

// What comes next takes `seconds` of the stage's own.
static void run_for(bd_sim *sim, int stage, bd_sim_state state, double seconds) {
  bd_sim_actor *actor = &sim->actor[stage];
  actor->state = state;
  actor->since = sim->now;
  actor->finish = sim->now + seconds;
}

static void wait(bd_sim *sim, int stage, bd_sim_state state) {
  bd_sim_actor *actor = &sim->actor[stage];
  actor->state = state;
  actor->since = sim->now;
  actor->finish = INFINITY;
}

static void begin_action(bd_sim *sim, int stage, const bd_sim_action *action) {
  const bd_sim_problem *problem = sim->problem;
  if (action->kind == BD_SIM_COMPUTE) {
    run_for(sim, stage, BD_SIM_RUNNING, action->seconds);
    return;
  }
  const bd_sim_queue *queue = &sim->queue[action->message];
  const bd_sim_message *message = &problem->messages[action->message];
  if (action->kind == BD_SIM_RECEIVE) {
    if (queue->sent > queue->received)
      run_for(sim, stage, BD_SIM_LATENCY, message->latency_seconds);
    else
      wait(sim, stage, BD_SIM_WAITS_SENDER);
  } else if (problem->blocking &&
             queue->sent - queue->received >= bd_schedule_copies(message->from, message->to)) {
    wait(sim, stage, BD_SIM_WAITS_ROOM);
  } else {
    run_for(sim, stage, BD_SIM_RUNNING, action->seconds);
  }
}

// Moves an actor on to its next action, through the ends of passes and phases.
static void advance(bd_sim *sim, int stage) {
  bd_sim_actor *actor = &sim->actor[stage];
  bool passes = actor->phase == BD_SIM_PASSES;
  while (!passes || actor->pass < actor->pass_count) {
    const bd_stage_pass *pass = passes ? &actor->passes[actor->pass] : NULL;
    const bd_sim_action *action = bd_sim_action_at(sim, stage);
    if (pass && actor->action == 0) bd_sim_hold(sim, stage, pass);
    if (action) {
      begin_action(sim, stage, action);
      return;
    }
    if (!passes) break;
    bd_sim_release(sim, stage, pass);
    actor->action = 0;
    actor->pass++;
  }
  if (passes) sim->result->times[stage].passes_end_seconds = sim->now;
  wait(sim, stage, BD_SIM_WAITS_ALL);
  sim->waiting++;
}

// All actors have come to the barrier: they enter the next phase.
static void pass_barrier(bd_sim *sim) {
  sim->waiting = 0;
  if (sim->actor[0].phase == BD_SIM_PASSES) sim->result->passes_seconds = sim->now;
  for (int s = 0; s < sim->problem->stages; s++) {
    bd_sim_actor *actor = &sim->actor[s];
    if (++actor->phase == BD_SIM_PHASE_COUNT) {
      actor->state = BD_SIM_DONE;
      continue;
    }
    actor->action = 0;
    advance(sim, s);
  }
}

static void end_action(bd_sim *sim, int stage) {
  sim->actor[stage].action++;
  advance(sim, stage);
}

// The receiver, if it waits for this message, gets it on its way.
static void end_send(bd_sim *sim, int stage, const bd_sim_action *action) {
  const bd_sim_message *message = &sim->problem->messages[action->message];
  const bd_sim_actor *receiver = &sim->actor[message->to];
  sim->queue[action->message].sent++;
  if (receiver->state == BD_SIM_WAITS_SENDER &&
      bd_sim_action_at(sim, message->to)->message == action->message)
    run_for(sim, message->to, BD_SIM_LATENCY, message->latency_seconds);
  sim->result->times[stage].send_seconds += sim->now - sim->actor[stage].since;
  note(sim, stage, BD_SIM_THREAD_SEND, sim->actor[stage].since, action);
  end_action(sim, stage);
}

// The sender, if it waits for room, goes on.
static void end_receive(bd_sim *sim, int stage, const bd_sim_action *action) {
  const bd_sim_message *message = &sim->problem->messages[action->message];
  bd_sim_actor *sender = &sim->actor[message->from];
  sim->queue[action->message].received++;
  bd_sim_end_moving(sim, stage, message);
  sim->result->times[stage].receive_seconds += sim->now - sim->actor[stage].since;
  note(sim, stage, BD_SIM_THREAD_RECEIVE, sim->actor[stage].since, action);
  end_action(sim, stage);
  if (sender->state == BD_SIM_WAITS_ROOM &&
      bd_sim_action_at(sim, message->from)->message == action->message)
    begin_action(sim, message->from, bd_sim_action_at(sim, message->from));
}

static void end_compute(bd_sim *sim, int stage, const bd_sim_action *action) {
  static const bd_sim_thread threads[BD_SIM_PHASE_COUNT] = {BD_SIM_THREAD_COMPUTE,
                                                            BD_SIM_THREAD_SYNC, BD_SIM_THREAD_SYNC};
  bd_sim_actor *actor = &sim->actor[stage];
  bd_sim_times *times = &sim->result->times[stage];
  if (actor->phase == BD_SIM_PASSES) {
    times->collective_seconds += action->collective_seconds;
    times->compute_seconds += action->seconds - action->collective_seconds;
  } else {
    *(actor->phase == BD_SIM_REDUCE ? &times->reduce_seconds : &times->update_seconds) +=
        action->seconds;
  }
  note(sim, stage, threads[actor->phase], actor->since, action);
  end_action(sim, stage);
}

static void step(bd_sim *sim, int stage) {
  bd_sim_actor *actor = &sim->actor[stage];
  const bd_sim_action *action = bd_sim_action_at(sim, stage);
  sim->now = actor->finish;
  if (actor->state == BD_SIM_LATENCY)
    bd_sim_begin_moving(sim, stage, &sim->problem->messages[action->message]);
  else if (actor->state == BD_SIM_MOVING)
    end_receive(sim, stage, action);
  else if (action->kind == BD_SIM_SEND)
    end_send(sim, stage, action);
  else
    end_compute(sim, stage, action);
}

// The actor whose state ends first; of equal ones the lowest stage; -1 when all wait.
static int first_to_end(const bd_sim *sim) {
  int first = -1;
  double finish = INFINITY;
  for (int s = 0; s < sim->problem->stages; s++)
    if (sim->actor[s].finish < finish) {
      finish = sim->actor[s].finish;
      first = s;
    }
  return first;
}

static bd_status open_actors(bd_sim *sim) {
  const bd_sim_problem *problem = sim->problem;
  bd_arena *arena = sim->ctx->arena;
  sim->actor = BD_NEW_ARRAY(arena, bd_sim_actor, problem->stages);
  sim->queue = BD_NEW_ARRAY(arena, bd_sim_queue, problem->message_count);
  sim->sending = bd_arena_array(arena, (size_t)problem->stages, sizeof *sim->sending);
  sim->result->times = BD_NEW_ARRAY(arena, bd_sim_times, problem->stages);
  sim->result->peak = BD_NEW_ARRAY(arena, bd_memory, problem->stages);
  int64_t per_stage = (int64_t)problem->micro_batches * problem->chunks;
  if (per_stage > MAX_FORWARDS / problem->stages)
    return bd_fail(sim->ctx, BD_EXHAUSTED, BD_NOWHERE,
                   "a step of %d stages, %d chunks and %d micro-batches has too many passes to "
                   "simulate",
                   problem->stages, problem->chunks, problem->micro_batches);
  for (int s = 0; s < problem->stages; s++) {
    bd_sim_actor *actor = &sim->actor[s];
    BD_TRY(bd_schedule_order(sim->ctx, problem->schedule, s, problem->stages, problem->chunks,
                             problem->micro_batches, &actor->passes, &actor->pass_count));
    bd_sim_open_memory(sim, s);
  }
  return BD_OK;
}

static bool all_done(const bd_sim *sim) {
  return sim->actor[0].state == BD_SIM_DONE;
}

// The rest of a stage's step is waiting.
static void close_times(bd_sim *sim) {
  bd_sim_result *result = sim->result;
  result->step_seconds = sim->now;
  for (int s = 0; s < sim->problem->stages; s++) {
    bd_sim_times *t = &result->times[s];
    double busy = t->compute_seconds + t->collective_seconds + t->send_seconds +
                  t->receive_seconds + t->reduce_seconds + t->update_seconds;
    t->bubble_seconds = fmax(0, sim->now - busy);
  }
}

bd_status bd_sim_run(bd_ctx *ctx, const bd_sim_problem *problem, bd_sim_record *record,
                     bd_sim_result *out_result) {
  bd_sim sim = {.ctx = ctx, .problem = problem, .record = record, .result = out_result};
  *out_result = (bd_sim_result){0};
  BD_TRY(open_actors(&sim));
  for (int s = 0; s < problem->stages; s++)
    advance(&sim, s);
  while (!all_done(&sim)) {
    int stage = first_to_end(&sim);
    if (stage >= 0)
      step(&sim, stage);
    else if (sim.waiting == problem->stages)
      pass_barrier(&sim);
    else
      return bd_fail(ctx, BD_INVALID, BD_NOWHERE,
                     "the stages of this plan wait for each other in a circle");
  }
  close_times(&sim);
  return BD_OK;
}
