#include "ir/plan_replay.h"
#include <string.h>

#define MAX_SLOTS ((int64_t)1 << 24)
#define MAX_TURNS ((int64_t)1 << 24)

static void print_slots(const bd_memory *memory, const char *indent, bd_text *text) {
  bd_text_addf(text, ",\n%s\"slots\": {\"count\": %d", indent, memory->slots);
  for (int s = 1; s < BD_SEGMENT_COUNT; s++)
    if (memory->slot_bytes[s])
      bd_text_addf(text, ", \"%s\": %lld", bd_segment_name((bd_segment)s),
                   (long long)memory->slot_bytes[s]);
  bd_text_add(text, "}");
}

// Where a message goes in a pass; of the first of a pass, and of the last one, there is nothing to
// say.
static void print_turn(int turn, const char *turn_key, double seconds, const char *seconds_key,
                       bd_text *text) {
  if (turn) bd_text_addf(text, ", \"%s\": %d", turn_key, turn);
  if (seconds <= 0) return;
  bd_text_add(text, ", ");
  bd_text_add_json_member(text, seconds_key, seconds);
}

static void print_messages(const bd_stage_prediction *stage, const char *indent, bd_text *text) {
  bd_text_addf(text, ",\n%s\"messages\": [", indent);
  for (int i = 0; i < stage->message_count; i++) {
    const bd_message_prediction *m = &stage->messages[i];
    bd_text_addf(text, "%s\n%s  {\"to\": %d, \"pass\": \"%s\", \"between_nodes\": %s, \"bytes\": ",
                 i ? "," : "", indent, m->to, m->backward ? "backward" : "forward",
                 m->between_nodes ? "true" : "false");
    bd_text_add_json_number(text, m->bytes);
    bd_text_add(text, ", \"copy_seconds\": ");
    bd_text_add_json_number(text, m->copy_seconds);
    bd_text_add(text, ", \"latency_seconds\": ");
    bd_text_add_json_number(text, m->latency_seconds);
    bd_text_add(text, ", \"move_seconds\": ");
    bd_text_add_json_number(text, m->move_seconds);
    print_turn(m->received_turn, "received_turn", m->received_after_seconds,
               "received_after_seconds", text);
    print_turn(m->sent_turn, "sent_turn", m->sent_before_seconds, "sent_before_seconds", text);
    bd_text_add(text, "}");
  }
  bd_text_add(text, "]");
}

void bd_plan_replay_print(const bd_stage_prediction *stage, const char *indent, bd_text *text) {
  if (stage->memory.slots) print_slots(&stage->memory, indent, text);
  if (stage->message_count) print_messages(stage, indent, text);
}

static bd_status read_slots(bd_ctx *ctx, const bd_json *stage, bd_memory *out) {
  const char *keys[BD_SEGMENT_COUNT + 1] = {"count"};
  const bd_json *slots = NULL;
  int64_t count;
  BD_TRY(bd_json_object(ctx, stage, "slots", false, &slots));
  if (!slots) return BD_OK;
  for (int s = 1; s < BD_SEGMENT_COUNT; s++)
    keys[s] = bd_segment_name((bd_segment)s);
  BD_TRY(bd_json_only(ctx, slots, keys));
  BD_TRY(bd_json_int(ctx, slots, "count", true, 1, MAX_SLOTS, &count));
  out->slots = (int)count;
  for (int s = 1; s < BD_SEGMENT_COUNT; s++)
    BD_TRY(bd_json_int(ctx, slots, keys[s], false, 0, out->bytes[s] / count, &out->slot_bytes[s]));
  return BD_OK;
}

static bd_status read_turn(bd_ctx *ctx, const bd_json *item, const char *turn_key,
                           const char *seconds_key, int *out_turn, double *out_seconds) {
  int64_t turn = 0;
  BD_TRY(bd_json_int(ctx, item, turn_key, false, 0, MAX_TURNS, &turn));
  *out_turn = (int)turn;
  return bd_json_real(ctx, item, seconds_key, false, 0, 1e300, out_seconds);
}

static bd_status read_message(bd_ctx *ctx, const bd_json *item, int stages,
                              bd_message_prediction *out) {
  static const char *const keys[] = {"to",
                                     "pass",
                                     "between_nodes",
                                     "bytes",
                                     "copy_seconds",
                                     "latency_seconds",
                                     "move_seconds",
                                     "received_turn",
                                     "received_after_seconds",
                                     "sent_turn",
                                     "sent_before_seconds",
                                     NULL};
  int64_t to;
  const char *pass;
  BD_TRY(bd_json_only(ctx, item, keys));
  BD_TRY(bd_json_int(ctx, item, "to", true, 0, stages - 1, &to));
  BD_TRY(bd_json_string(ctx, item, "pass", true, &pass));
  BD_TRY(bd_json_bool(ctx, item, "between_nodes", true, &out->between_nodes));
  BD_TRY(bd_json_real(ctx, item, "bytes", true, 0, 1e300, &out->bytes));
  BD_TRY(bd_json_real(ctx, item, "copy_seconds", true, 0, 1e300, &out->copy_seconds));
  BD_TRY(bd_json_real(ctx, item, "latency_seconds", true, 0, 1e300, &out->latency_seconds));
  BD_TRY(bd_json_real(ctx, item, "move_seconds", true, 0, 1e300, &out->move_seconds));
  BD_TRY(read_turn(ctx, item, "received_turn", "received_after_seconds", &out->received_turn,
                   &out->received_after_seconds));
  BD_TRY(read_turn(ctx, item, "sent_turn", "sent_before_seconds", &out->sent_turn,
                   &out->sent_before_seconds));
  if (strcmp(pass, "forward") && strcmp(pass, "backward"))
    return bd_fail(ctx, BD_INVALID, item->loc, "a message is of the forward or backward pass");
  out->to = (int)to;
  out->backward = strcmp(pass, "backward") == 0;
  return BD_OK;
}

// Activations go up the stages, gradients down.
static bd_status read_messages(bd_ctx *ctx, const bd_json *item, int stage, int stages,
                               bd_stage_prediction *out) {
  const bd_json *list = NULL;
  BD_TRY(bd_json_array(ctx, item, "messages", false, &list));
  if (!list) return BD_OK;
  bd_message_prediction *messages = BD_NEW_ARRAY(ctx->arena, bd_message_prediction, list->count);
  for (size_t i = 0; i < list->count; i++) {
    BD_TRY(read_message(ctx, &list->items[i], stages, &messages[i]));
    if (messages[i].backward ? messages[i].to >= stage : messages[i].to <= stage)
      return bd_fail(ctx, BD_INVALID, list->items[i].loc,
                     "a message of the %s pass of stage %d goes to a %s stage",
                     messages[i].backward ? "backward" : "forward", stage,
                     messages[i].backward ? "lower" : "higher");
  }
  out->messages = messages;
  out->message_count = (int)list->count;
  return BD_OK;
}

bd_status bd_plan_replay_parse(bd_ctx *ctx, const bd_json *item, int stage, int stages,
                               bd_stage_prediction *out) {
  BD_TRY(read_slots(ctx, item, &out->memory));
  return read_messages(ctx, item, stage, stages, out);
}
