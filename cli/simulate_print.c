#include "cli/simulate.h"
#include <string.h>

static void add_seconds(bd_text *text, double seconds) {
  if (seconds >= 1 || seconds == 0)
    bd_text_addf(text, "%.3f s", seconds);
  else if (seconds >= 1e-3)
    bd_text_addf(text, "%.2f ms", seconds * 1e3);
  else
    bd_text_addf(text, "%.2f us", seconds * 1e6);
}

// Whether all stages need the bytes that are predicted, segment by segment. Where a plan does not
// tell the bytes of a micro-batch in flight there is nothing to compare.
typedef enum bytes_verdict { BYTES_EQUAL, BYTES_DIFFER, BYTES_UNTOLD } bytes_verdict;
static bytes_verdict judge_bytes(const bd_told_replay *replay) {
  for (int s = 0; s < replay->plan->stages; s++) {
    const bd_memory *told = &replay->plan->predicted[s].memory, *peak = &replay->result->peak[s];
    if (!told->slots) return BYTES_UNTOLD;
    if (told->total_bytes != peak->total_bytes) return BYTES_DIFFER;
    for (int segment = 0; segment < BD_SEGMENT_COUNT; segment++)
      if (told->bytes[segment] != peak->bytes[segment]) return BYTES_DIFFER;
  }
  return BYTES_EQUAL;
}

static void add_head(const bd_told_replay *replay, bd_text *text) {
  const bd_plan *plan = replay->plan;
  const bd_sim_problem *problem = replay->problem;
  bd_text_add(text, "model       ");
  bd_text_add_printable(text, plan->model, strlen(plan->model));
  bd_text_addf(text, ", %d rank%s in %d stage%s", bd_plan_ranks(plan),
               bd_plural(bd_plan_ranks(plan), "s"), plan->stages, bd_plural(plan->stages, "s"));
  if (problem->chunks > 1) bd_text_addf(text, " of %d chunks", problem->chunks);
  bd_text_addf(text, ", %d micro-batch%s, schedule %s\n", problem->micro_batches,
               bd_plural(problem->micro_batches, "es"), bd_schedule_name(problem->schedule));
  bd_text_add(text, "replayed    ");
  if (replay->cluster) {
    bd_text_add(text, "the plan's program on ");
    bd_text_add_printable(text, replay->cluster, strlen(replay->cluster));
    bd_text_add(text, "\n");
  } else {
    bd_text_add(text, "the plan's predictions\n");
  }
}

static void add_verdict(const bd_told_replay *replay, bd_text *text) {
  static const char *const bytes[] = {"as predicted, segment by segment",
                                      "not as predicted: see the last column",
                                      "the plan does not tell those of a micro-batch in flight"};
  double simulated = replay->result->step_seconds, predicted = replay->plan->step_seconds;
  bd_text_add(text, "\nsimulated   ");
  add_seconds(text, simulated);
  bd_text_add(text, ", of which the passes take ");
  add_seconds(text, replay->result->passes_seconds);
  bd_text_add(text, "\npredicted   ");
  add_seconds(text, predicted);
  if (predicted > 0) {
    bd_text_add(text, "; the replay takes ");
    bd_text_add_change(text, predicted, simulated, 2);
  }
  bd_text_addf(text, "\nbytes       %s\n", bytes[judge_bytes(replay)]);
}

static void add_part(bd_text *text, double seconds, double whole) {
  bd_text_addf(text, " %9.2f %%", whole > 0 ? 100 * seconds / whole : 0);
}

void bd_simulate_page(const bd_told_replay *replay, bd_text *text) {
  double step = replay->result->step_seconds;
  add_head(replay, text);
  add_verdict(replay, text);
  bd_text_addf(text, "\nof the step %11s %11s %11s %11s %11s %11s  peak bytes of a rank\n",
               "compute", "collectives", "sends", "receives", "sync", "bubble");
  for (int s = 0; s < replay->plan->stages; s++) {
    const bd_sim_times *t = &replay->result->times[s];
    int64_t peak = replay->result->peak[s].total_bytes;
    int64_t told = replay->plan->predicted[s].memory.total_bytes;
    bd_text_addf(text, "  stage %-4d", s);
    add_part(text, t->compute_seconds, step);
    add_part(text, t->collective_seconds, step);
    add_part(text, t->send_seconds, step);
    add_part(text, t->receive_seconds, step);
    add_part(text, t->reduce_seconds + t->update_seconds, step);
    add_part(text, t->bubble_seconds, step);
    bd_text_addf(text, "  %lld", (long long)peak);
    if (peak != told) bd_text_addf(text, " (predicted %lld)", (long long)told);
    bd_text_add(text, "\n");
  }
}

static void add_stage(const bd_told_replay *replay, int s, bd_text *text) {
  const bd_sim_times *t = &replay->result->times[s];
  const bd_memory *peak = &replay->result->peak[s];
  const struct {
    const char *key;
    double seconds;
  } parts[] = {
      {"compute_seconds", t->compute_seconds}, {"collective_seconds", t->collective_seconds},
      {"send_seconds", t->send_seconds},       {"receive_seconds", t->receive_seconds},
      {"reduce_seconds", t->reduce_seconds},   {"update_seconds", t->update_seconds},
      {"bubble_seconds", t->bubble_seconds}};
  bd_text_addf(text, "    {\"stage\": %d, \"ranks\": %d", s, replay->problem->stage[s].ranks);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    bd_text_add(text, ", ");
    bd_text_add_json_member(text, parts[i].key, parts[i].seconds);
  }
  bd_text_addf(text, ",\n     \"peak_bytes\": %lld, \"predicted_bytes\": %lld, \"segments\": {",
               (long long)peak->total_bytes,
               (long long)replay->plan->predicted[s].memory.total_bytes);
  for (int segment = 1; segment < BD_SEGMENT_COUNT; segment++)
    bd_text_addf(text, "%s\"%s\": %lld", segment > 1 ? ", " : "",
                 bd_segment_name((bd_segment)segment), (long long)peak->bytes[segment]);
  bd_text_add(text, "}}");
}

void bd_simulate_json(const bd_told_replay *replay, bd_text *text) {
  static const char *const bytes[] = {"equal", "differ", "untold"};
  const bd_plan *plan = replay->plan;
  bd_text_add(text, "{\n  \"braid_simulate\": 1,\n  \"model\": ");
  bd_text_add_json_string(text, plan->model);
  bd_text_addf(text, ",\n  \"replayed\": \"%s\",\n  \"schedule\": \"%s\",\n",
               replay->cluster ? "program" : "predictions", bd_schedule_name(plan->schedule));
  bd_text_addf(text, "  \"ranks\": %d, \"chunks\": %d, \"micro_batches\": %d,\n  ",
               bd_plan_ranks(plan), replay->problem->chunks, replay->problem->micro_batches);
  bd_text_add_json_member(text, "step_seconds", replay->result->step_seconds);
  bd_text_add(text, ", ");
  bd_text_add_json_member(text, "passes_seconds", replay->result->passes_seconds);
  bd_text_add(text, ",\n  ");
  bd_text_add_json_member(text, "predicted_seconds", plan->step_seconds);
  bd_text_addf(text, ",\n  \"bytes\": \"%s\",\n  \"stages\": [\n", bytes[judge_bytes(replay)]);
  for (int s = 0; s < plan->stages; s++) {
    add_stage(replay, s, text);
    bd_text_add(text, s + 1 < plan->stages ? ",\n" : "\n");
  }
  bd_text_add(text, "  ]\n}\n");
}
