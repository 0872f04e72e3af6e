// Bytes that live on the ranks of a stage.
#include "planner/simulate/engine.h"

static void note_level(bd_sim *sim, int stage) {
  bd_sim_record *record = sim->record;
  if (!record || record->level_count >= BD_SIM_MOST_EVENTS) return;
  if (record->level_count == record->level_capacity) {
    size_t capacity = record->level_capacity ? 2 * (size_t)record->level_capacity : 256;
    record->levels = bd_arena_grow(sim->ctx->arena, record->levels, (size_t)record->level_count,
                                   capacity, sizeof *record->levels);
    record->level_capacity = (int)capacity;
  }
  bd_sim_level *level = &record->levels[record->level_count++];
  level->stage = stage;
  level->seconds = sim->now;
  for (int segment = 0; segment < BD_SEGMENT_COUNT; segment++)
    level->bytes[segment] = sim->actor[stage].live[segment];
}

// Holds so many more slots, and so many more inputs of delayed weight passes.
static void change(bd_sim *sim, int stage, int slots, int inputs) {
  const bd_sim_stage *of = &sim->problem->stage[stage];
  bd_sim_actor *actor = &sim->actor[stage];
  bd_memory *peak = &sim->result->peak[stage];
  int64_t total = 0;
  actor->live[BD_SEGMENT_TAPE] += inputs * of->weight_input_bytes;
  for (int segment = 0; segment < BD_SEGMENT_COUNT; segment++) {
    actor->live[segment] += slots * of->slot_bytes[segment];
    if (actor->live[segment] > peak->bytes[segment]) peak->bytes[segment] = actor->live[segment];
    total += actor->live[segment];
  }
  if (total > peak->total_bytes) peak->total_bytes = total;
  note_level(sim, stage);
}

void bd_sim_open_memory(bd_sim *sim, int stage) {
  for (int segment = 0; segment < BD_SEGMENT_COUNT; segment++)
    sim->actor[stage].live[segment] = sim->problem->stage[stage].fixed_bytes[segment];
  change(sim, stage, 0, 0);
}

void bd_sim_hold(bd_sim *sim, int stage, const bd_stage_pass *pass) {
  bool split = sim->problem->schedule == BD_SCHEDULE_ZERO_BUBBLE;
  if (pass->kind == BD_PASS_FORWARD) change(sim, stage, 1, 0);
  if (pass->kind == BD_PASS_BACKWARD && split) change(sim, stage, 0, 1);
}

void bd_sim_release(bd_sim *sim, int stage, const bd_stage_pass *pass) {
  bool split = sim->problem->schedule == BD_SCHEDULE_ZERO_BUBBLE;
  if (pass->kind == (split ? BD_PASS_WEIGHT : BD_PASS_BACKWARD)) change(sim, stage, -1, -split);
}
