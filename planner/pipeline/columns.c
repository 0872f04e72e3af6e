#include "planner/pipeline/columns.h"
#include "planner/pipeline/program.h"
#include <math.h>

int bd_posing_pass_at(const bd_posing *b, int s, int r, int f, int g) {
  return b->pass[((s * b->problem->run_count + r) * b->problem->form_count + f) *
                     b->problem->form_count +
                 g];
}

static int *link_cell(const bd_posing *b, int s, int r, int way, int f, int g) {
  int cell = s * b->problem->run_count + r, F = b->problem->form_count;
  return &b->link[((cell * BD_WAYS + way) * F + f) * F + g];
}

int bd_posing_link_at(const bd_posing *b, int s, int r, int way, int f, int g) {
  return *link_cell(b, s, r, way, f, g);
}

bool bd_posing_has_form(const bd_pipeline_run *run, int form) {
  for (int k = 0; k < run->candidate_count; k++)
    if (run->candidates[k].form == form) return true;
  return false;
}

bool bd_posing_goes_on(const bd_posing *b, int s, int r, int way, int *out_stage, int *out_run) {
  *out_stage = s + (way != BD_SAME_STAGE);
  *out_run = r + (way != BD_SAME_RUN);
  return *out_stage < b->problem->stages && *out_run < b->problem->run_count;
}

static bd_posing_units find_units(const bd_pipeline_problem *problem) {
  bd_posing_units out = {0, 0};
  for (int r = 0; r < problem->run_count; r++)
    for (int k = 0; k < problem->runs[r].candidate_count; k++) {
      const bd_layer_candidate *c = &problem->runs[r].candidates[k];
      out.seconds = fmax(out.seconds, bd_pipeline_layer_seconds(c));
      out.bytes = fmax(out.bytes, bd_pipeline_layer_bytes(problem, 0, c));
    }
  if (out.seconds <= 0) out.seconds = 1;
  if (out.bytes <= 0) out.bytes = 1;
  return out;
}

int bd_pipeline_program_columns(const bd_pipeline_problem *problem) {
  int columns = 0, before = 0;
  for (int r = 0; r < problem->run_count; r++) {
    int forms = 0, kinds = problem->runs[r].calls > 1 ? 2 : 1;
    columns += kinds * problem->stages * problem->runs[r].candidate_count;
    for (int f = 0; f < problem->form_count; f++)
      forms += bd_posing_has_form(&problem->runs[r], f);
    columns += problem->stages * (2 * forms * forms + 2 * before * forms);
    before = forms;
  }
  return columns;
}

// What adds so many seconds to the sum of the stages.
static int add_integer(bd_posing *b, double seconds, double upper) {
  return bd_program_add_column(b->ctx, &b->program, seconds / b->unit.seconds, 0, upper, true);
}

int bd_posing_add_seconds(bd_posing *b, double times) {
  return bd_program_add_column(b->ctx, &b->program, times, 0, INFINITY, false);
}

static void add_passes(bd_posing *b, int s, int r) {
  const bd_pipeline_run *run = &b->problem->runs[r];
  int F = b->problem->form_count;
  for (int f = 0; f < F; f++)
    for (int g = 0; g < F; g++) {
      int *pass = &b->pass[((s * b->problem->run_count + r) * F + f) * F + g];
      bool can =
          bd_posing_has_form(run, f) && bd_posing_has_form(run, g) && (f == g || run->calls > 1);
      *pass = can ? add_integer(b, f == g ? 0 : bd_pipeline_sum(run->change[f * F + g]), 1) : -1;
    }
}

static void add_links(bd_posing *b, int s, int r) {
  const bd_pipeline_run *run = &b->problem->runs[r];
  int F = b->problem->form_count, stage, next;
  for (int way = 0; way < BD_WAYS; way++)
    for (int f = 0; f < F; f++)
      for (int g = 0; g < F; g++) {
        int *link = link_cell(b, s, r, way, f, g);
        *link = -1;
        if (!bd_posing_goes_on(b, s, r, way, &stage, &next) || !bd_posing_has_form(run, f) ||
            !bd_posing_has_form(&b->problem->runs[next], g))
          continue;
        double seconds = bd_pipeline_sum(run->change[f * F + g]);
        if (way != BD_SAME_STAGE) {
          int at = bd_pipeline_hand_at(b->problem, s, f, g);
          seconds = bd_pipeline_sum(run->send[at]) + bd_pipeline_sum(run->receive[at]);
        }
        *link = add_integer(b, seconds, 1);
      }
}

static bool has_updates(const bd_pipeline_problem *p) {
  for (int r = 0; r < p->run_count; r++)
    for (int k = 0; k < p->runs[r].candidate_count; k++)
      if (p->runs[r].candidates[k].apply_seconds[p->zero] > 0) return true;
  return false;
}

void bd_posing_add_columns(bd_posing *b) {
  const bd_pipeline_problem *p = b->problem;
  bd_program *program = &b->program;
  int cells = p->stages * bd_pipeline_candidates(p), F = p->form_count;
  b->unit = find_units(p);
  b->count = BD_NEW_ARRAY(b->ctx->arena, int, cells);
  b->used = BD_NEW_ARRAY(b->ctx->arena, int, cells);
  b->pass = BD_NEW_ARRAY(b->ctx->arena, int, p->stages * p->run_count * F * F);
  b->link = BD_NEW_ARRAY(b->ctx->arena, int, p->stages * p->run_count * BD_WAYS * F * F);
  b->forward = BD_NEW_ARRAY(b->ctx->arena, int, p->stages);
  b->backward = BD_NEW_ARRAY(b->ctx->arena, int, p->stages);
  b->workspace = BD_NEW_ARRAY(b->ctx->arena, int, p->stages);
  b->reduce = bd_posing_add_seconds(b, 1);
  b->apply = has_updates(p) ? bd_posing_add_seconds(b, 1) : -1;
  for (int s = 0; s < p->stages; s++) {
    b->forward[s] = bd_posing_add_seconds(b, 0);
    b->backward[s] = bd_posing_add_seconds(b, 0);
    b->workspace[s] = bd_program_add_column(b->ctx, program, 0, 0, INFINITY, false);
    for (int r = 0; r < p->run_count; r++) {
      for (int k = 0; k < p->runs[r].candidate_count; k++) {
        int cell = bd_pipeline_index(p, s, r, k);
        double seconds = bd_pipeline_layer_seconds(&p->runs[r].candidates[k]);
        b->count[cell] = add_integer(b, seconds, p->runs[r].calls);
        b->used[cell] = p->runs[r].calls > 1 ? add_integer(b, 0, 1) : -1;
      }
      add_passes(b, s, r);
      add_links(b, s, r);
    }
  }
}

void bd_posing_put(bd_posing *b, int row, int column, double value) {
  if (column >= 0) bd_program_add_entry(b->ctx, &b->program, row, column, value);
}
