#include "planner/step/traffic.h"
#include <limits.h>
#include <math.h>

static int count_told(const bd_plan *plan) {
  int count = 0;
  for (int s = 0; s < plan->stages; s++)
    count += plan->predicted[s].message_count;
  return count;
}

bool bd_step_messages_untold(const bd_plan *plan) {
  return plan->stages > 1 && count_told(plan) == 0;
}

static bool is_detour(int stage, const bd_message_prediction *m) {
  return m->to != (m->backward ? stage - 1 : stage + 1);
}

// Whether a message between neighbours is the largest of its pass, or the first of such.
static bool is_main(const bd_stage_prediction *sender, const bd_message_prediction *m) {
  for (int i = 0; i < sender->message_count; i++) {
    const bd_message_prediction *other = &sender->messages[i];
    bool same = other->to == m->to && other->backward == m->backward;
    if (same && (other->bytes > m->bytes || (other < m && other->bytes == m->bytes))) return false;
  }
  return true;
}

bool bd_step_has_detours(const bd_plan *plan) {
  for (int s = 0; s < plan->stages; s++) {
    int seen[2] = {0}; // forward and backward
    for (int i = 0; i < plan->predicted[s].message_count; i++) {
      const bd_message_prediction *m = &plan->predicted[s].messages[i];
      if (is_detour(s, m) || seen[m->backward]++) return true;
    }
  }
  return false;
}

void bd_step_leave_out_detours(const bd_plan *plan, bd_stage_seconds *stage) {
  for (int s = 0; s < plan->stages; s++)
    for (int i = 0; i < plan->predicted[s].message_count; i++) {
      const bd_message_prediction *m = &plan->predicted[s].messages[i];
      if (!is_detour(s, m) && is_main(&plan->predicted[s], m)) continue;
      *(m->backward ? &stage[s].backward : &stage[s].forward) -= m->copy_seconds;
      *(m->backward ? &stage[m->to].backward : &stage[m->to].forward) -=
          m->latency_seconds + m->move_seconds;
    }
}

// Programs have as many copies of what they send as is needed; others any number.
static int copies_of(const bd_plan *plan, int from, int to) {
  return bd_schedule_emitted(plan->schedule) ? bd_schedule_copies(from, to) : INT_MAX;
}

static void take_told(const bd_plan *plan, bd_step_traffic *out) {
  for (int s = 0; s < plan->stages; s++)
    for (int i = 0; i < plan->predicted[s].message_count; i++) {
      const bd_message_prediction *m = &plan->predicted[s].messages[i];
      out->messages[out->message_count++] =
          (bd_step_message){.from = s,
                            .to = m->to,
                            .backward = m->backward,
                            .link = 2 * s + m->between_nodes,
                            .copies = copies_of(plan, s, m->to),
                            .copy_seconds = m->copy_seconds,
                            .latency_seconds = m->latency_seconds,
                            .move_seconds = m->move_seconds,
                            .received_turn = m->received_turn,
                            .sent_turn = m->sent_turn,
                            .received_after_seconds = m->received_after_seconds,
                            .sent_before_seconds = m->sent_before_seconds};
    }
}

static void add_between(const bd_plan *plan, int from, int to, bd_step_traffic *out) {
  int sender = from % plan->stages, stage = to % plan->stages;
  int received = 2 * bd_plan_chunks(plan) - (stage == 0) - (stage == plan->stages - 1);
  out->messages[out->message_count++] =
      (bd_step_message){.from = from,
                        .to = to,
                        .backward = from > to,
                        .link = 2 * sender + 1,
                        .copies = copies_of(plan, sender, stage),
                        .move_seconds = plan->predicted[stage].send_seconds / received};
}

static bool is_of_pass(const bd_step_message *m, int part, bool backward) {
  return m->backward == backward && (m->from == part || m->to == part);
}

// What a stage spends on messages in all its passes of a kind.
static double message_seconds(const bd_plan *plan, const bd_step_traffic *t, int stage,
                              bool backward) {
  double seconds = 0;
  for (int i = 0; i < t->message_count; i++) {
    const bd_step_message *m = &t->messages[i];
    if (m->backward != backward) continue;
    if (m->from % plan->stages == stage) seconds += m->copy_seconds;
    if (m->to % plan->stages == stage) seconds += m->latency_seconds + m->move_seconds;
  }
  return seconds;
}

// Which of so many messages of its pass it is.
static int turn_of(const bd_step_message *m, int part, int count) {
  return m->to == part ? m->received_turn : count - 1 - m->sent_turn;
}

static int list_in_turn(const bd_step_traffic *t, int part, bool backward, int *out) {
  int count = 0;
  for (int i = 0; i < t->message_count; i++)
    count += is_of_pass(&t->messages[i], part, backward);
  for (int i = 0, listed = 0; i < t->message_count; i++) {
    if (!is_of_pass(&t->messages[i], part, backward)) continue;
    int at = listed++, turn = turn_of(&t->messages[i], part, count);
    for (; at > 0 && turn_of(&t->messages[out[at - 1]], part, count) > turn; at--)
      out[at] = out[at - 1];
    out[at] = i;
  }
  return count;
}

static void add_task(bd_step_tasks *tasks, bd_task_kind kind, double seconds, int message) {
  tasks->tasks[tasks->count++] = (bd_step_task){kind, seconds, message};
}

// A pass with so many seconds of the stage's own work.
static bd_step_tasks list_tasks(bd_ctx *ctx, const bd_step_traffic *t, int part, bool backward,
                                double own) {
  int *turns = BD_NEW_ARRAY(ctx->arena, int, t->message_count);
  int count = list_in_turn(t, part, backward, turns);
  bd_step_tasks out = {0, BD_NEW_ARRAY(ctx->arena, bd_step_task, 2 * count + 1)};
  double done = 0;
  for (int i = 0; i < count; i++) {
    const bd_step_message *m = &t->messages[turns[i]];
    bool receives = m->to == part;
    double until = receives ? fmin(own, m->received_after_seconds) : own - m->sent_before_seconds;
    if (until > done) add_task(&out, BD_TASK_WORK, until - done, -1);
    done = fmax(done, until);
    if (receives)
      add_task(&out, BD_TASK_RECEIVE, m->latency_seconds, turns[i]);
    else
      add_task(&out, BD_TASK_SEND, m->copy_seconds, turns[i]);
  }
  add_task(&out, BD_TASK_WORK, own - done, -1);
  return out;
}

static void list_passes(bd_ctx *ctx, const bd_plan *plan, bd_step_traffic *t, int part) {
  int stage = part % plan->stages, chunks = bd_plan_chunks(plan);
  const bd_stage_prediction *p = &plan->predicted[stage];
  double weight = plan->schedule == BD_SCHEDULE_ZERO_BUBBLE ? p->weight_seconds : 0;
  double forward = p->forward_seconds - message_seconds(plan, t, stage, false);
  double backward = p->backward_seconds - weight - message_seconds(plan, t, stage, true);
  bd_step_tasks *of = t->passes[part];
  of[BD_PASS_FORWARD] = list_tasks(ctx, t, part, false, fmax(0, forward) / chunks);
  of[BD_PASS_BACKWARD] = list_tasks(ctx, t, part, true, fmax(0, backward) / chunks);
  of[BD_PASS_WEIGHT] = (bd_step_tasks){0, BD_NEW(ctx->arena, bd_step_task)};
  add_task(&of[BD_PASS_WEIGHT], BD_TASK_WORK, weight / chunks, -1);
}

void bd_step_read_traffic(bd_ctx *ctx, const bd_plan *plan, bd_step_traffic *out) {
  int told = count_told(plan), parts = plan->stages * bd_plan_chunks(plan);
  *out = (bd_step_traffic){.parts = parts};
  out->messages = BD_NEW_ARRAY(ctx->arena, bd_step_message, told + 2 * parts);
  out->passes = bd_arena_array(ctx->arena, (size_t)parts, sizeof *out->passes);
  if (told) take_told(plan, out);
  for (int part = 0; !told && part + 1 < parts; part++) {
    add_between(plan, part, part + 1, out);
    add_between(plan, part + 1, part, out);
  }
  for (int part = 0; part < parts; part++)
    list_passes(ctx, plan, out, part);
}
