#include "planner/simulate/trace.h"

typedef struct tracing {
  const bd_sim_problem *problem;
  const bd_sim_record *record;
  bd_text *text;
  int64_t *sent, *received; // per kind of message: how many have been told
} tracing;

static void add_time(bd_text *text, const char *key, double seconds) {
  bd_text_add(text, ", ");
  bd_text_add_json_member(text, key, seconds * 1e6);
}

static void name_thread(bd_text *text, int stage, int thread, const char *name) {
  bd_text_addf(text,
               ",\n{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": %d, \"tid\": %d, \"args\": "
               "{\"name\": \"%s\"}}",
               stage, thread, name);
  bd_text_addf(text,
               ",\n{\"ph\": \"M\", \"name\": \"thread_sort_index\", \"pid\": %d, \"tid\": %d, "
               "\"args\": {\"sort_index\": %d}}",
               stage, thread, thread);
}

static void name_stages(const tracing *t) {
  static const char *const threads[BD_SIM_THREAD_COUNT] = {"compute", "send", "receive", "sync"};
  int first = 0;
  for (int s = 0; s < t->problem->stages; s++) {
    int ranks = t->problem->stage[s].ranks;
    bd_text_addf(
        t->text,
        "%s\n{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %d, \"args\": {\"name\": "
        "\"stage %d: ",
        s ? "," : "", s, s);
    if (ranks == 1)
      bd_text_addf(t->text, "rank %d\"}}", first);
    else
      bd_text_addf(t->text, "ranks %d to %d, one of them\"}}", first, first + ranks - 1);
    bd_text_addf(t->text,
                 ",\n{\"ph\": \"M\", \"name\": \"process_sort_index\", \"pid\": %d, \"args\": "
                 "{\"sort_index\": %d}}",
                 s, s);
    for (int thread = 0; thread < BD_SIM_THREAD_COUNT; thread++)
      name_thread(t->text, s, thread, threads[thread]);
    first += ranks;
  }
}

static void add_name(const tracing *t, const bd_sim_event *event) {
  static const char *const passes[] = {"forward", "backward", "weight gradients"};
  if (event->phase != BD_SIM_PASSES) {
    bd_text_add(t->text, event->phase == BD_SIM_REDUCE ? "reduce" : "update");
    return;
  }
  bd_text_addf(t->text, "%s %d", passes[event->pass.kind], event->pass.micro_batch);
  if (t->problem->chunks > 1) bd_text_addf(t->text, " of chunk %d", event->pass.chunk);
}

static void add_details(const tracing *t, const bd_sim_event *event) {
  bd_text_add(t->text, ", \"args\": {");
  if (event->message >= 0) {
    const bd_sim_message *message = &t->problem->messages[event->message];
    bd_text_addf(t->text, "\"from\": %d, \"to\": %d, \"bytes\": ", message->from, message->to);
    bd_text_add_json_number(t->text, message->bytes);
  } else {
    bd_text_add(t->text, "\"collective_us\": ");
    bd_text_add_json_number(t->text, event->collective_seconds * 1e6);
  }
  bd_text_add(t->text, "}}");
}

// A flow binds to the slice around its time on its thread: it leaves in the middle of the send and
// arrives at the end of the receive.
static void add_flow(const tracing *t, const bd_sim_event *event) {
  bool sends = event->thread == BD_SIM_THREAD_SEND;
  int64_t index = (sends ? t->sent : t->received)[event->message]++;
  long long id = (long long)(index * t->problem->message_count + event->message);
  bd_text_addf(t->text,
               ",\n{\"ph\": \"%s\", \"cat\": \"message\", \"name\": \"message\", \"id\": %lld, "
               "\"pid\": %d, \"tid\": %d",
               sends ? "s" : "f\", \"bp\": \"e", id, event->stage, (int)event->thread);
  add_time(t->text, "ts", event->start_seconds + event->seconds * (sends ? 0.5 : 1));
  bd_text_add(t->text, "}");
}

static void add_event(const tracing *t, const bd_sim_event *event) {
  static const char *const kinds[BD_SIM_THREAD_COUNT] = {"compute", "send", "receive", "sync"};
  bd_text_add(t->text, ",\n{\"ph\": \"X\", \"name\": \"");
  add_name(t, event);
  bd_text_addf(t->text, "\", \"cat\": \"%s\", \"pid\": %d, \"tid\": %d", kinds[event->thread],
               event->stage, (int)event->thread);
  add_time(t->text, "ts", event->start_seconds);
  add_time(t->text, "dur", event->seconds);
  add_details(t, event);
  if (event->message >= 0) add_flow(t, event);
}

static void add_level(const tracing *t, const bd_sim_level *level) {
  bd_text_addf(t->text, ",\n{\"ph\": \"C\", \"name\": \"live bytes\", \"pid\": %d", level->stage);
  add_time(t->text, "ts", level->seconds);
  bd_text_add(t->text, ", \"args\": {");
  for (int segment = 1; segment < BD_SEGMENT_COUNT; segment++)
    bd_text_addf(t->text, "%s\"%s\": %lld", segment > 1 ? ", " : "",
                 bd_segment_name((bd_segment)segment), (long long)level->bytes[segment]);
  bd_text_add(t->text, "}}");
}

bd_status bd_sim_trace(bd_ctx *ctx, const bd_sim_problem *problem, const bd_sim_record *record,
                       bd_text *text) {
  if (record->event_count == BD_SIM_MOST_EVENTS || record->level_count == BD_SIM_MOST_EVENTS)
    return bd_fail(ctx, BD_EXHAUSTED, BD_NOWHERE,
                   "a trace of this step would have more than %d events; leave --trace out, or "
                   "plan fewer micro-batches",
                   BD_SIM_MOST_EVENTS);
  tracing t = {.problem = problem, .record = record, .text = text};
  t.sent = BD_NEW_ARRAY(ctx->arena, int64_t, problem->message_count);
  t.received = BD_NEW_ARRAY(ctx->arena, int64_t, problem->message_count);
  bd_text_add(text, "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [");
  name_stages(&t);
  for (int i = 0; i < record->event_count; i++)
    add_event(&t, &record->events[i]);
  for (int i = 0; i < record->level_count; i++)
    add_level(&t, &record->levels[i]);
  bd_text_add(text, "\n]}\n");
  return BD_OK;
}
