#include "planner/pipeline/flow_rows.h"
#include <math.h>

// Layers of a form lie where a pass has that form, one at least.
static void add_places(bd_posing *b, int s, int r, int form) {
  const bd_pipeline_run *run = &b->problem->runs[r];
  if (!bd_posing_has_form(run, form)) return;
  int some = bd_program_add_row(b->ctx, &b->program, 0, INFINITY);
  int most = bd_program_add_row(b->ctx, &b->program, -INFINITY, 0);
  for (int k = 0; k < run->candidate_count; k++) {
    if (run->candidates[k].form != form) continue;
    int column = b->count[bd_pipeline_index(b->problem, s, r, k)];
    bd_posing_put(b, some, column, 1);
    bd_posing_put(b, most, column, 1);
  }
  for (int other = 0; other < b->problem->form_count; other++)
    for (int way = 0; way < (other == form ? 1 : 2); way++) {
      int pass =
          way ? bd_posing_pass_at(b, s, r, other, form) : bd_posing_pass_at(b, s, r, form, other);
      bd_posing_put(b, some, pass, -1);
      bd_posing_put(b, most, pass, -run->calls);
    }
}

// What enters a run on a stage in a form leaves it, and what leaves it goes on.
static void add_flow(bd_posing *b, int s, int r, int form) {
  const bd_pipeline_problem *p = b->problem;
  bool first = s == 0 && r == 0, last = s + 1 == p->stages && r + 1 == p->run_count;
  // The source and the sink take any form.
  int enter = first ? -1 : bd_program_add_row(b->ctx, &b->program, 0, 0);
  int leave = last ? -1 : bd_program_add_row(b->ctx, &b->program, 0, 0);
  for (int other = 0; other < b->problem->form_count; other++) {
    if (!first) bd_posing_put(b, enter, bd_posing_pass_at(b, s, r, form, other), -1);
    if (!last) bd_posing_put(b, leave, bd_posing_pass_at(b, s, r, other, form), -1);
    for (int way = 0; way < BD_WAYS; way++) {
      int stage = s - (way != BD_SAME_STAGE), run = r - (way != BD_SAME_RUN);
      if (!last) bd_posing_put(b, leave, bd_posing_link_at(b, s, r, way, form, other), 1);
      if (!first && stage >= 0 && run >= 0)
        bd_posing_put(b, enter, bd_posing_link_at(b, stage, run, way, other, form), 1);
    }
  }
}

// Layers on stages 0 to s.
static void add_cut(bd_posing *b, int s) {
  const bd_pipeline_problem *p = b->problem;
  int row = bd_program_add_row(b->ctx, &b->program, p->cut_least[s], p->cut_most[s]);
  for (int i = 0; i < (s + 1) * bd_pipeline_candidates(p); i++)
    bd_posing_put(b, row, b->count[i], 1);
}

void bd_posing_add_flow(bd_posing *b, int s) {
  for (int r = 0; r < b->problem->run_count; r++)
    for (int f = 0; f < b->problem->form_count; f++) {
      add_places(b, s, r, f);
      add_flow(b, s, r, f);
    }
}

void bd_posing_add_totals(bd_posing *b) {
  const bd_pipeline_problem *p = b->problem;
  for (int s = 0; p->cut_least && s < p->stages; s++)
    add_cut(b, s);
  int starts = bd_program_add_row(b->ctx, &b->program, 1, 1);
  for (int f = 0; f < p->form_count; f++)
    for (int g = 0; g < p->form_count; g++)
      bd_posing_put(b, starts, bd_posing_pass_at(b, 0, 0, f, g), 1);
  for (int r = 0; r < p->run_count; r++) {
    int all = bd_program_add_row(b->ctx, &b->program, p->runs[r].calls, p->runs[r].calls);
    for (int s = 0; s < p->stages; s++)
      for (int k = 0; k < p->runs[r].candidate_count; k++)
        bd_posing_put(b, all, b->count[bd_pipeline_index(p, s, r, k)], 1);
  }
}
