#include "planner/pipeline/stage_rows.h"
#include <math.h>

// The rows of a stage that its layers and arcs add to.
typedef struct stage_rows {
  int forward, backward, memory;
} stage_rows;

static void add_time(bd_posing *b, stage_rows rows, int column, bd_both_ways seconds) {
  bd_posing_put(b, rows.forward, column, seconds.forward / b->unit.seconds);
  bd_posing_put(b, rows.backward, column, seconds.backward / b->unit.seconds);
}

// What an arc adds to a stage's time and bytes.
static void add_arc(bd_posing *b, stage_rows rows, int column, bd_both_ways seconds, double bytes) {
  add_time(b, rows, column, seconds);
  if (bytes != 0) bd_posing_put(b, rows.memory, column, bytes / b->unit.bytes);
}

static void add_arcs(bd_posing *b, stage_rows rows, int s) {
  const bd_pipeline_problem *p = b->problem;
  int F = b->problem->form_count, stage, next;
  for (int r = 0; r < p->run_count; r++) {
    const bd_pipeline_run *run = &p->runs[r];
    for (int f = 0; f < F; f++)
      for (int g = 0; g < F; g++) {
        bd_both_ways change = run->change[f * F + g];
        double held = bd_pipeline_change_bytes(p, s, r, f, g);
        if (f != g) add_arc(b, rows, bd_posing_pass_at(b, s, r, f, g), change, held);
        add_arc(b, rows, bd_posing_link_at(b, s, r, BD_SAME_STAGE, f, g), change, held);
        for (int way = 0; way < BD_WAYS; way++) {
          if (way == BD_SAME_STAGE) continue;
          if (bd_posing_goes_on(b, s, r, way, &stage, &next))
            add_arc(b, rows, bd_posing_link_at(b, s, r, way, f, g),
                    run->send[bd_pipeline_hand_at(p, s, f, g)],
                    bd_pipeline_send_bytes(p, s, r, f, g));
          if (s > 0 && bd_posing_goes_on(b, s - 1, r, way, &stage, &next))
            add_arc(b, rows, bd_posing_link_at(b, s - 1, r, way, f, g),
                    run->receive[bd_pipeline_hand_at(p, s - 1, f, g)],
                    bd_pipeline_receive_bytes(p, s, r, f, g));
        }
      }
  }
}

// A shared weight is on a stage where a run that uses it has layers.
static void add_shared(bd_posing *b, int memory, int s) {
  const bd_pipeline_problem *p = b->problem;
  int forms = b->problem->form_count;
  for (int w = 0; w < p->shared_count; w++) {
    int held = bd_program_add_column(b->ctx, &b->program, 0, 0, 1, false);
    bd_posing_put(b, memory, held, p->shared[w].bytes / b->unit.bytes);
    for (int r = 0; r < p->run_count; r++) {
      if (!p->shared[w].used[r]) continue;
      int row = bd_program_add_row(b->ctx, &b->program, 0, INFINITY);
      bd_posing_put(b, row, held, 1);
      for (int f = 0; f < forms; f++)
        for (int g = 0; g < forms; g++)
          bd_posing_put(b, row, bd_posing_pass_at(b, s, r, f, g), -1);
    }
  }
}

// The workspace holds that of any layer, and so the mean of a run's.
static void add_workspace(bd_posing *b, int s, int r) {
  const bd_pipeline_run *run = &b->problem->runs[r];
  int mean = bd_program_add_row(b->ctx, &b->program, 0, INFINITY);
  bd_posing_put(b, mean, b->workspace[s], run->calls);
  for (int k = 0; k < run->candidate_count; k++) {
    int cell = bd_pipeline_index(b->problem, s, r, k);
    double bytes = (double)run->candidates[k].workspace_bytes / b->unit.bytes;
    bd_posing_put(b, mean, b->count[cell], -bytes);
    if (run->calls == 1) continue;
    int uses = bd_program_add_row(b->ctx, &b->program, -INFINITY, 0);
    bd_posing_put(b, uses, b->count[cell], 1);
    bd_posing_put(b, uses, b->used[cell], -run->calls);
    int holds = bd_program_add_row(b->ctx, &b->program, 0, INFINITY);
    bd_posing_put(b, holds, b->workspace[s], 1);
    bd_posing_put(b, holds, b->used[cell], -bytes);
  }
}

void bd_posing_add_stage(bd_posing *b, double cap_bytes, int s) {
  const bd_pipeline_problem *p = b->problem;
  bd_program *program = &b->program;
  double room = cap_bytes - bd_pipeline_beside_bytes(p, s);
  stage_rows rows = {bd_program_add_row(b->ctx, program, 0, 0),
                     bd_program_add_row(b->ctx, program, 0, 0),
                     bd_program_add_row(b->ctx, program, -INFINITY, room / b->unit.bytes)};
  int reduce = bd_program_add_row(b->ctx, program, -INFINITY, 0);
  int apply = b->apply < 0 ? -1 : bd_program_add_row(b->ctx, program, -INFINITY, 0);
  bd_posing_put(b, rows.forward, b->forward[s], -1);
  bd_posing_put(b, rows.backward, b->backward[s], -1);
  bd_posing_put(b, reduce, b->reduce, -1);
  if (apply >= 0) bd_posing_put(b, apply, b->apply, -1);
  bd_posing_put(b, rows.memory, b->workspace[s], 1);
  add_arcs(b, rows, s);
  add_shared(b, rows.memory, s);
  for (int r = 0; r < p->run_count; r++) {
    for (int k = 0; k < p->runs[r].candidate_count; k++) {
      const bd_layer_candidate *c = &p->runs[r].candidates[k];
      int cell = bd_pipeline_index(p, s, r, k);
      add_time(b, rows, b->count[cell], (bd_both_ways){c->forward_seconds, c->backward_seconds});
      double applied = c->apply_seconds[p->zero] / b->unit.seconds;
      bd_posing_put(b, reduce, b->count[cell],
                    c->sync_seconds[p->zero] / b->unit.seconds - applied);
      if (apply >= 0) bd_posing_put(b, apply, b->count[cell], applied);
      bd_posing_put(b, rows.memory, b->count[cell],
                    bd_pipeline_layer_bytes(p, s, c) / b->unit.bytes);
    }
    add_workspace(b, s, r);
  }
}
