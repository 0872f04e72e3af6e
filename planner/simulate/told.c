// A plan's own predictions as the replay sees them.
#include "ir/plan_details.h"
#include "planner/simulate/source.h"
#include "planner/simulate/work.h"
#include <math.h>

typedef struct telling {
  bd_ctx *ctx;
  const bd_plan *plan;
  int stages, chunks;
  bd_sim_stage *stage;
  bd_sim_message *messages;
  double *copy_seconds;           // per message
  bool *backward;                 // per message
  int *received_turn, *sent_turn; // per message: its place in the passes of both stages
  double *received_after_seconds, *sent_before_seconds;
  int message_count;
  int *chunk_from, *chunk_to; // per message: of the stage that sends it, and of the receiver
} telling;

static bool is_told(const bd_plan *plan) {
  for (int s = 0; s < plan->stages; s++)
    if (plan->predicted[s].message_count) return true;
  return false;
}

static void take_messages(telling *t) {
  for (int s = 0; s < t->stages; s++)
    for (int i = 0; i < t->plan->predicted[s].message_count; i++) {
      const bd_message_prediction *m = &t->plan->predicted[s].messages[i];
      t->copy_seconds[t->message_count] = m->copy_seconds;
      t->backward[t->message_count] = m->backward;
      t->received_turn[t->message_count] = m->received_turn;
      t->sent_turn[t->message_count] = m->sent_turn;
      t->received_after_seconds[t->message_count] = m->received_after_seconds;
      t->sent_before_seconds[t->message_count] = m->sent_before_seconds;
      t->messages[t->message_count++] = (bd_sim_message){.from = s,
                                                         .to = m->to,
                                                         .between_nodes = m->between_nodes,
                                                         .bytes = m->bytes,
                                                         .latency_seconds = m->latency_seconds,
                                                         .move_seconds = m->move_seconds};
    }
}

// Where nobody told the messages: what a stage spends on them is spread over those that it
// receives.
static double received_seconds(const telling *t, int part) {
  int stage = part % t->stages, received = 2 * t->chunks;
  if (stage == 0) received--;
  if (stage == t->stages - 1) received--;
  return t->plan->predicted[stage].send_seconds / received;
}

static void add_between(telling *t, int from, int to) {
  int m = t->message_count++;
  t->backward[m] = from > to;
  t->chunk_from[m] = from / t->stages;
  t->chunk_to[m] = to / t->stages;
  t->messages[m] = (bd_sim_message){.from = from % t->stages,
                                    .to = to % t->stages,
                                    .between_nodes = true,
                                    .move_seconds = received_seconds(t, to)};
}

// One message each way between the parts of the pipeline that follow one another.
static void make_messages(telling *t) {
  for (int part = 0; t->stages > 1 && part + 1 < t->stages * t->chunks; part++) {
    add_between(t, part, part + 1);
    add_between(t, part + 1, part);
  }
}

// Whether a pass has to do with a message.
static bool is_of_pass(const telling *t, int m, int stage, int chunk, bool backward) {
  if (t->backward[m] != backward) return false;
  return (t->messages[m].to == stage && t->chunk_to[m] == chunk) ||
         (t->messages[m].from == stage && t->chunk_from[m] == chunk);
}

// Which of the pass's messages it is, of so many; receives and sends that nobody gave a turn come
// first and last.
static int turn_of(const telling *t, int m, int stage, int count) {
  return t->messages[m].to == stage ? t->received_turn[m] : count - 1 - t->sent_turn[m];
}

// The messages of a pass, in turn.
static int list_messages(const telling *t, int stage, int chunk, bool backward, int *out) {
  int count = 0;
  for (int m = 0; m < t->message_count; m++)
    if (is_of_pass(t, m, stage, chunk, backward)) out[count++] = m;
  for (int i = 1; i < count; i++)
    for (int at = i;
         at > 0 && turn_of(t, out[at - 1], stage, count) > turn_of(t, out[at], stage, count);
         at--) {
      int moved = out[at];
      out[at] = out[at - 1];
      out[at - 1] = moved;
    }
  return count;
}

// What a pass spends on messages, over all chunks.
static double message_seconds(const telling *t, int stage, bool backward) {
  double seconds = 0;
  for (int m = 0; m < t->message_count; m++) {
    const bd_sim_message *message = &t->messages[m];
    if (t->backward[m] != backward) continue;
    if (message->from == stage) seconds += t->copy_seconds[m];
    if (message->to == stage) seconds += message->latency_seconds + message->move_seconds;
  }
  return seconds;
}

// The part of a stage's passes that is collectives between its ranks.
static double collective_part(const bd_plan *plan, int stage) {
  if (!plan->details) return 0;
  const bd_stage_details *details = &plan->details->stages[stage];
  double collectives = 0;
  for (int kind = 0; kind < BD_TRAFFIC_SEND; kind++)
    for (int axis = 0; axis < BD_MAX_AXES; axis++)
      collectives += details->traffic_seconds[kind][axis];
  double whole = details->compute_seconds + collectives;
  return whole > 0 ? collectives / whole : 0;
}

// So many seconds, such a part of them collectives.
static void add_compute(const telling *t, double seconds, double part, bd_sim_work *work) {
  bd_sim_add_compute(t->ctx, work, seconds * (1 - part), seconds * part);
}

// A pass of so many seconds of the stage's own.
static void tell_pass(const telling *t, int stage, int chunk, bool backward, double own,
                      double part, bd_sim_work *work) {
  int *messages = BD_NEW_ARRAY(t->ctx->arena, int, t->message_count);
  int count = list_messages(t, stage, chunk, backward, messages);
  double done = 0;
  for (int i = 0; i < count; i++) {
    int m = messages[i];
    bool receives = t->messages[m].to == stage;
    double until =
        receives ? fmin(own, t->received_after_seconds[m]) : own - t->sent_before_seconds[m];
    if (until > done) add_compute(t, until - done, part, work);
    done = fmax(done, until);
    if (receives)
      bd_sim_add_receive(t->ctx, work, m);
    else
      bd_sim_add_send(t->ctx, work, m, t->copy_seconds[m]);
  }
  add_compute(t, own - done, part, work);
}

static void tell_passes(const telling *t, int s, bd_sim_stage *out) {
  const bd_stage_prediction *told = &t->plan->predicted[s];
  double weight = t->plan->schedule == BD_SCHEDULE_ZERO_BUBBLE ? told->weight_seconds : 0;
  double part = collective_part(t->plan, s);
  double apply = fmin(told->apply_seconds, told->sync_seconds); // hand-written plans say anything
  const double seconds[BD_SIM_PASS_KINDS] = {
      told->forward_seconds - message_seconds(t, s, false),
      told->backward_seconds - weight - message_seconds(t, s, true), weight};
  for (int kind = 0; kind < BD_SIM_PASS_KINDS; kind++) {
    bd_sim_work *works = BD_NEW_ARRAY(t->ctx->arena, bd_sim_work, t->chunks);
    double own = fmax(0, seconds[kind]) / t->chunks;
    for (int chunk = 0; chunk < t->chunks; chunk++)
      if (kind == BD_PASS_WEIGHT)
        add_compute(t, own, part, &works[chunk]);
      else
        tell_pass(t, s, chunk, kind == BD_PASS_BACKWARD, own, part, &works[chunk]);
    out->pass[kind] = works;
  }
  bd_sim_add_compute(t->ctx, &out->reduce, told->sync_seconds - apply, 0);
  bd_sim_add_compute(t->ctx, &out->update, apply, 0);
}

// Counts the tapes that a stage's order holds at once, and what waits for delayed weight passes.
static bd_status count_held(const telling *t, int s, int *out_tapes, int *out_inputs) {
  const bd_stage_pass *passes;
  int count, tapes = 0, inputs = 0;
  bool split = t->plan->schedule == BD_SCHEDULE_ZERO_BUBBLE;
  BD_TRY(bd_schedule_order(t->ctx, t->plan->schedule, s, t->stages, t->chunks,
                           bd_plan_micro_batches(t->plan), &passes, &count));
  *out_tapes = *out_inputs = 0;
  for (int i = 0; i < count; i++) {
    bd_stage_pass_kind kind = passes[i].kind;
    if (kind == BD_PASS_FORWARD && ++tapes > *out_tapes) *out_tapes = tapes;
    if (kind == BD_PASS_BACKWARD && split && ++inputs > *out_inputs) *out_inputs = inputs;
    if (kind == BD_PASS_WEIGHT) inputs--;
    if (kind == (split ? BD_PASS_WEIGHT : BD_PASS_BACKWARD)) tapes--;
  }
  return BD_OK;
}

// Where nobody told the bytes of a slot, the tape's are divided among those that are held. What a
// delayed weight pass waits for is as large as the tape (planner/full/full.h).
static bd_status tell_bytes(const telling *t, int s, bd_sim_stage *out) {
  const bd_memory *memory = &t->plan->predicted[s].memory;
  int slots = memory->slots, tapes, inputs;
  BD_TRY(count_held(t, s, &tapes, &inputs));
  if (!slots) slots = tapes;
  for (int segment = 0; segment < BD_SEGMENT_COUNT; segment++) {
    int64_t bytes = memory->bytes[segment];
    out->slot_bytes[segment] = memory->slots                ? memory->slot_bytes[segment]
                               : segment == BD_SEGMENT_TAPE ? bytes / (slots + inputs)
                                                            : 0;
    out->fixed_bytes[segment] = bytes - slots * out->slot_bytes[segment];
  }
  if (inputs) {
    int64_t rest = out->fixed_bytes[BD_SEGMENT_TAPE] / inputs; // hand-written plans say anything
    out->weight_input_bytes = out->slot_bytes[BD_SEGMENT_TAPE];
    if (out->weight_input_bytes > rest) out->weight_input_bytes = rest;
  }
  out->fixed_bytes[BD_SEGMENT_TAPE] -= inputs * out->weight_input_bytes;
  return BD_OK;
}

bd_status bd_sim_tell(bd_ctx *ctx, const bd_plan *plan, bd_sim_problem *out_problem) {
  telling t = {.ctx = ctx, .plan = plan, .stages = plan->stages, .chunks = bd_plan_chunks(plan)};
  int room = 2 * t.stages * t.chunks;
  for (int s = 0; s < plan->stages; s++)
    room += plan->predicted[s].message_count;
  t.messages = BD_NEW_ARRAY(ctx->arena, bd_sim_message, room);
  t.copy_seconds = BD_NEW_ARRAY(ctx->arena, double, room);
  t.backward = BD_NEW_ARRAY(ctx->arena, bool, room);
  t.received_turn = BD_NEW_ARRAY(ctx->arena, int, room);
  t.sent_turn = BD_NEW_ARRAY(ctx->arena, int, room);
  t.received_after_seconds = BD_NEW_ARRAY(ctx->arena, double, room);
  t.sent_before_seconds = BD_NEW_ARRAY(ctx->arena, double, room);
  t.chunk_from = BD_NEW_ARRAY(ctx->arena, int, room);
  t.chunk_to = BD_NEW_ARRAY(ctx->arena, int, room);
  if (t.chunks == 1 && is_told(plan))
    take_messages(&t);
  else
    make_messages(&t);
  t.stage = BD_NEW_ARRAY(ctx->arena, bd_sim_stage, plan->stages);
  for (int s = 0; s < plan->stages; s++) {
    t.stage[s].ranks = bd_mesh_devices(bd_plan_mesh(plan, s));
    tell_passes(&t, s, &t.stage[s]);
    BD_TRY(tell_bytes(&t, s, &t.stage[s]));
  }
  *out_problem = (bd_sim_problem){.schedule = plan->schedule,
                                  .stages = plan->stages,
                                  .chunks = t.chunks,
                                  .micro_batches = bd_plan_micro_batches(plan),
                                  .blocking = bd_schedule_emitted(plan->schedule),
                                  .message_count = t.message_count,
                                  .messages = t.messages,
                                  .stage = t.stage};
  return BD_OK;
}
