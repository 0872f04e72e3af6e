#include "planner/pipeline_program.h"
#include <math.h>
#include <string.h>

// Numbers enter the program as multiples of the largest layer's, since solvers' tolerances are
// absolute near 1.
typedef struct units {
  double seconds, bytes;
} units;

// Where a run goes on: to itself on the next stage, to the next run on this stage or on the next.
enum { SAME_RUN, SAME_STAGE, BOTH_NEXT, WAYS };

typedef struct building {
  bd_ctx *ctx;
  const bd_pipeline_problem *problem;
  bd_program program;
  units unit;
  int *count, *used; // per (stage, run, candidate)
  int *pass;         // per (stage, run, form, form): enters in one, leaves in the other; -1: none
  int *link;         // per (stage, run, way, form, form): leaves in one, goes on in the other
  int slowest, sync, *workspace;
  int height; // leanest: bytes of the fullest stage; else -1
} building;

static int forms_of(const building *b) {
  return b->problem->form_count;
}

static int pass_at(const building *b, int s, int r, int f, int g) {
  return b->pass[((s * b->problem->run_count + r) * forms_of(b) + f) * forms_of(b) + g];
}

static int *link_at(const building *b, int s, int r, int way, int f, int g) {
  int cell = s * b->problem->run_count + r, F = forms_of(b);
  return &b->link[((cell * WAYS + way) * F + f) * F + g];
}

static bool has_form(const bd_pipeline_run *run, int form) {
  for (int k = 0; k < run->candidate_count; k++)
    if (run->candidates[k].form == form) return true;
  return false;
}

static bool goes_on(const building *b, int s, int r, int way, int *out_stage, int *out_run) {
  *out_stage = s + (way != SAME_STAGE);
  *out_run = r + (way != SAME_RUN);
  return *out_stage < b->problem->stages && *out_run < b->problem->run_count;
}

static units find_units(const bd_pipeline_problem *problem) {
  units out = {0, 0};
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
  int columns = 2 * problem->stages * bd_pipeline_candidates(problem), before = 0;
  for (int r = 0; r < problem->run_count; r++) {
    int forms = 0;
    for (int f = 0; f < problem->form_count; f++)
      forms += has_form(&problem->runs[r], f);
    columns += problem->stages * (2 * forms * forms + 2 * before * forms);
    before = forms;
  }
  return columns;
}

static int add_column(building *b, double seconds, double upper) {
  double cost = b->height >= 0 ? 0 : seconds / b->unit.seconds;
  return bd_program_add_column(b->ctx, &b->program, cost, 0, upper, true);
}

static void add_passes(building *b, int s, int r) {
  const bd_pipeline_run *run = &b->problem->runs[r];
  int F = forms_of(b);
  for (int f = 0; f < F; f++)
    for (int g = 0; g < F; g++) {
      int *pass = &b->pass[((s * b->problem->run_count + r) * F + f) * F + g];
      bool can = has_form(run, f) && has_form(run, g) && (f == g || run->calls > 1);
      *pass = can ? add_column(b, f == g ? 0 : run->change[f * F + g], 1) : -1;
    }
}

static void add_links(building *b, int s, int r) {
  const bd_pipeline_run *run = &b->problem->runs[r];
  int F = forms_of(b), stage, next;
  for (int way = 0; way < WAYS; way++)
    for (int f = 0; f < F; f++)
      for (int g = 0; g < F; g++) {
        int *link = link_at(b, s, r, way, f, g);
        *link = -1;
        if (!goes_on(b, s, r, way, &stage, &next) || !has_form(run, f) ||
            !has_form(&b->problem->runs[next], g))
          continue;
        double seconds = way == SAME_STAGE ? run->change[f * F + g]
                                           : run->send[f * F + g] + run->receive[f * F + g];
        *link = add_column(b, seconds, 1);
      }
}

static void add_columns(building *b, bool leanest) {
  const bd_pipeline_problem *p = b->problem;
  bd_program *program = &b->program;
  int cells = p->stages * bd_pipeline_candidates(p), F = p->form_count;
  b->unit = find_units(p);
  b->count = BD_NEW_ARRAY(b->ctx->arena, int, cells);
  b->used = BD_NEW_ARRAY(b->ctx->arena, int, cells);
  b->pass = BD_NEW_ARRAY(b->ctx->arena, int, p->stages * p->run_count * F * F);
  b->link = BD_NEW_ARRAY(b->ctx->arena, int, p->stages * p->run_count * WAYS * F * F);
  b->workspace = BD_NEW_ARRAY(b->ctx->arena, int, p->stages);
  b->height = leanest ? bd_program_add_column(b->ctx, program, 1, 0, INFINITY, false) : -1;
  for (int s = 0; s < p->stages; s++) {
    b->workspace[s] = bd_program_add_column(b->ctx, program, 0, 0, INFINITY, false);
    for (int r = 0; r < p->run_count; r++) {
      for (int k = 0; k < p->runs[r].candidate_count; k++) {
        int cell = bd_pipeline_index(p, s, r, k);
        double seconds = bd_pipeline_layer_seconds(&p->runs[r].candidates[k]);
        b->count[cell] = add_column(b, seconds, p->runs[r].calls);
        b->used[cell] = add_column(b, 0, 1);
      }
      add_passes(b, s, r);
      add_links(b, s, r);
    }
  }
  double others = leanest ? 0 : p->micro_batches - 1;
  b->slowest = bd_program_add_column(b->ctx, program, others, 0, INFINITY, false);
  b->sync = bd_program_add_column(b->ctx, program, leanest ? 0 : 1, 0, INFINITY, false);
}

static void add_entry(building *b, int row, int column, double value) {
  if (column >= 0) bd_program_add_entry(b->ctx, &b->program, row, column, value);
}

// What an arc adds to a stage's time and bytes.
static void add_arc(building *b, int time, int memory, int column, double seconds, double bytes) {
  add_entry(b, time, column, seconds / b->unit.seconds);
  if (bytes > 0) add_entry(b, memory, column, bytes / b->unit.bytes);
}

static void add_arcs(building *b, int time, int memory, int s) {
  const bd_pipeline_problem *p = b->problem;
  int F = forms_of(b), stage, next;
  for (int r = 0; r < p->run_count; r++) {
    const bd_pipeline_run *run = &p->runs[r];
    for (int f = 0; f < F; f++)
      for (int g = 0; g < F; g++) {
        double change = run->change[f * F + g], held = bd_pipeline_change_bytes(p, s, r, f, g);
        if (f != g) add_arc(b, time, memory, pass_at(b, s, r, f, g), change, held);
        add_arc(b, time, memory, *link_at(b, s, r, SAME_STAGE, f, g), change, held);
        for (int way = 0; way < WAYS; way++) {
          if (way == SAME_STAGE) continue;
          add_arc(b, time, memory, *link_at(b, s, r, way, f, g), run->send[f * F + g],
                  bd_pipeline_send_bytes(p, r, f, g));
          if (s > 0 && goes_on(b, s - 1, r, way, &stage, &next))
            add_arc(b, time, memory, *link_at(b, s - 1, r, way, f, g), run->receive[f * F + g],
                    bd_pipeline_receive_bytes(p, s, r, f, g));
        }
      }
  }
}

// A shared weight is on a stage where a run that uses it has layers.
static void add_shared(building *b, int memory, int s) {
  const bd_pipeline_problem *p = b->problem;
  int forms = forms_of(b);
  for (int w = 0; w < p->shared_count; w++) {
    int held = bd_program_add_column(b->ctx, &b->program, 0, 0, 1, false);
    add_entry(b, memory, held, p->shared[w].bytes / b->unit.bytes);
    for (int r = 0; r < p->run_count; r++) {
      if (!p->shared[w].used[r]) continue;
      int row = bd_program_add_row(b->ctx, &b->program, 0, INFINITY);
      add_entry(b, row, held, 1);
      for (int f = 0; f < forms; f++)
        for (int g = 0; g < forms; g++)
          add_entry(b, row, pass_at(b, s, r, f, g), -1);
    }
  }
}

// A stage's time, memory and workspace.
static void add_stage(building *b, double cap_bytes, int s) {
  const bd_pipeline_problem *p = b->problem;
  bd_program *program = &b->program;
  double room = b->height >= 0 ? 0 : cap_bytes / b->unit.bytes;
  int time = bd_program_add_row(b->ctx, program, -INFINITY, 0);
  int sync = bd_program_add_row(b->ctx, program, -INFINITY, 0);
  int memory = bd_program_add_row(b->ctx, program, -INFINITY, room);
  add_entry(b, memory, b->height, -1);
  add_entry(b, time, b->slowest, -1);
  add_entry(b, sync, b->sync, -1);
  add_entry(b, memory, b->workspace[s], 1);
  add_arcs(b, time, memory, s);
  add_shared(b, memory, s);
  for (int r = 0; r < p->run_count; r++)
    for (int k = 0; k < p->runs[r].candidate_count; k++) {
      const bd_layer_candidate *c = &p->runs[r].candidates[k];
      int cell = bd_pipeline_index(p, s, r, k);
      add_entry(b, time, b->count[cell], bd_pipeline_layer_seconds(c) / b->unit.seconds);
      add_entry(b, sync, b->count[cell], c->sync_seconds / b->unit.seconds);
      add_entry(b, memory, b->count[cell], bd_pipeline_layer_bytes(p, s, c) / b->unit.bytes);
      int uses = bd_program_add_row(b->ctx, program, -INFINITY, 0);
      add_entry(b, uses, b->count[cell], 1);
      add_entry(b, uses, b->used[cell], -p->runs[r].calls);
      int holds = bd_program_add_row(b->ctx, program, 0, INFINITY);
      add_entry(b, holds, b->workspace[s], 1);
      add_entry(b, holds, b->used[cell], -(double)c->workspace_bytes / b->unit.bytes);
    }
}

// Layers of a form lie where a pass has that form, one at least.
static void add_places(building *b, int s, int r, int form) {
  const bd_pipeline_run *run = &b->problem->runs[r];
  if (!has_form(run, form)) return;
  int some = bd_program_add_row(b->ctx, &b->program, 0, INFINITY);
  int most = bd_program_add_row(b->ctx, &b->program, -INFINITY, 0);
  for (int k = 0; k < run->candidate_count; k++) {
    if (run->candidates[k].form != form) continue;
    int column = b->count[bd_pipeline_index(b->problem, s, r, k)];
    add_entry(b, some, column, 1);
    add_entry(b, most, column, 1);
  }
  for (int other = 0; other < forms_of(b); other++)
    for (int way = 0; way < (other == form ? 1 : 2); way++) {
      int pass = way ? pass_at(b, s, r, other, form) : pass_at(b, s, r, form, other);
      add_entry(b, some, pass, -1);
      add_entry(b, most, pass, -run->calls);
    }
}

// What enters a run on a stage in a form leaves it, and what leaves it goes on.
static void add_flow(building *b, int s, int r, int form) {
  const bd_pipeline_problem *p = b->problem;
  bool first = s == 0 && r == 0, last = s + 1 == p->stages && r + 1 == p->run_count;
  // The source and the sink take any form.
  int enter = first ? -1 : bd_program_add_row(b->ctx, &b->program, 0, 0);
  int leave = last ? -1 : bd_program_add_row(b->ctx, &b->program, 0, 0);
  for (int other = 0; other < forms_of(b); other++) {
    if (!first) add_entry(b, enter, pass_at(b, s, r, form, other), -1);
    if (!last) add_entry(b, leave, pass_at(b, s, r, other, form), -1);
    for (int way = 0; way < WAYS; way++) {
      int stage = s - (way != SAME_STAGE), run = r - (way != SAME_RUN);
      if (!last) add_entry(b, leave, *link_at(b, s, r, way, form, other), 1);
      if (!first && stage >= 0 && run >= 0)
        add_entry(b, enter, *link_at(b, stage, run, way, other, form), 1);
    }
  }
}

// Layers on stages 0 to s.
static void add_cut(building *b, int s) {
  const bd_pipeline_problem *p = b->problem;
  int row = bd_program_add_row(b->ctx, &b->program, p->cut_least[s], p->cut_most[s]);
  for (int i = 0; i < (s + 1) * bd_pipeline_candidates(p); i++)
    add_entry(b, row, b->count[i], 1);
}

static void add_rows(building *b, double cap_bytes) {
  const bd_pipeline_problem *p = b->problem;
  for (int s = 0; s < p->stages; s++) {
    add_stage(b, cap_bytes, s);
    for (int r = 0; r < p->run_count; r++)
      for (int f = 0; f < p->form_count; f++) {
        add_places(b, s, r, f);
        add_flow(b, s, r, f);
      }
  }
  for (int s = 0; p->cut_least && s < p->stages; s++)
    add_cut(b, s);
  int starts = bd_program_add_row(b->ctx, &b->program, 1, 1);
  for (int f = 0; f < p->form_count; f++)
    for (int g = 0; g < p->form_count; g++)
      add_entry(b, starts, pass_at(b, 0, 0, f, g), 1);
  for (int r = 0; r < p->run_count; r++) {
    int all = bd_program_add_row(b->ctx, &b->program, p->runs[r].calls, p->runs[r].calls);
    for (int s = 0; s < p->stages; s++)
      for (int k = 0; k < p->runs[r].candidate_count; k++)
        add_entry(b, all, b->count[bd_pipeline_index(p, s, r, k)], 1);
  }
}

static void read_solution(building *b, const double *values, bd_pipeline *out) {
  const bd_pipeline_problem *p = b->problem;
  int cells = p->stages * bd_pipeline_candidates(p), F = p->form_count;
  out->count = BD_NEW_ARRAY(b->ctx->arena, int, cells);
  out->entry = BD_NEW_ARRAY(b->ctx->arena, int, p->stages * p->run_count);
  for (int i = 0; i < cells; i++)
    out->count[i] = (int)lround(values[b->count[i]]);
  for (int cell = 0; cell < p->stages * p->run_count; cell++) {
    out->entry[cell] = -1;
    for (int i = 0; i < F * F; i++)
      if (b->pass[cell * F * F + i] >= 0 && values[b->pass[cell * F * F + i]] > 0.5)
        out->entry[cell] = i / F;
  }
}

bd_status bd_pipeline_program_solve(bd_ctx *ctx, const bd_pipeline_problem *problem, bool leanest,
                                    double cap_bytes, double limit_seconds, double cutoff,
                                    bd_pipeline *out) {
  *out = (bd_pipeline){.seconds = INFINITY, .bound = INFINITY};
  building b = {.ctx = ctx, .problem = problem, .program = {.solver = problem->solver}};
  add_columns(&b, leanest);
  add_rows(&b, cap_bytes);
  double unit = leanest ? b.unit.bytes : b.unit.seconds;
  bd_solution solution;
  BD_TRY(bd_solver_run(ctx, &b.program, limit_seconds, cutoff / unit, &solution));
  out->bound = solution.bound * unit;
  out->optimal = solution.outcome == BD_SOLVER_OPTIMAL || solution.outcome == BD_SOLVER_INFEASIBLE;
  if (!solution.values) return BD_OK;
  read_solution(&b, solution.values, out);
  out->seconds = bd_pipeline_seconds(problem, out->count, out->entry);
  out->bytes = (int64_t)bd_pipeline_bytes(problem, out->count, out->entry);
  out->feasible = leanest || isfinite(out->seconds);
  return BD_OK;
}
