#include "planner/pipeline/program.h"
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
  int *count, *used; // per (stage, run, candidate); used: -1 where a run has one layer
  int *pass;         // per (stage, run, form, form): enters in one, leaves in the other; -1: none
  int *link;         // per (stage, run, way, form, form): leaves in one, goes on in the other
  int *forward, *backward;       // per stage: seconds of a micro-batch
  int reduce, apply, *workspace; // apply: -1 where no update takes any time
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
  int columns = 0, before = 0;
  for (int r = 0; r < problem->run_count; r++) {
    int forms = 0, kinds = problem->runs[r].calls > 1 ? 2 : 1;
    columns += kinds * problem->stages * problem->runs[r].candidate_count;
    for (int f = 0; f < problem->form_count; f++)
      forms += has_form(&problem->runs[r], f);
    columns += problem->stages * (2 * forms * forms + 2 * before * forms);
    before = forms;
  }
  return columns;
}

// What adds so many seconds to the sum of the stages.
static int add_integer(building *b, double seconds, double upper) {
  return bd_program_add_column(b->ctx, &b->program, seconds / b->unit.seconds, 0, upper, true);
}

// Of as many seconds, which count so many times.
static int add_seconds(building *b, double times) {
  return bd_program_add_column(b->ctx, &b->program, times, 0, INFINITY, false);
}

static void add_passes(building *b, int s, int r) {
  const bd_pipeline_run *run = &b->problem->runs[r];
  int F = forms_of(b);
  for (int f = 0; f < F; f++)
    for (int g = 0; g < F; g++) {
      int *pass = &b->pass[((s * b->problem->run_count + r) * F + f) * F + g];
      bool can = has_form(run, f) && has_form(run, g) && (f == g || run->calls > 1);
      *pass = can ? add_integer(b, f == g ? 0 : bd_pipeline_sum(run->change[f * F + g]), 1) : -1;
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
        double seconds = bd_pipeline_sum(run->change[f * F + g]);
        if (way != SAME_STAGE) {
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

static void add_columns(building *b) {
  const bd_pipeline_problem *p = b->problem;
  bd_program *program = &b->program;
  int cells = p->stages * bd_pipeline_candidates(p), F = p->form_count;
  b->unit = find_units(p);
  b->count = BD_NEW_ARRAY(b->ctx->arena, int, cells);
  b->used = BD_NEW_ARRAY(b->ctx->arena, int, cells);
  b->pass = BD_NEW_ARRAY(b->ctx->arena, int, p->stages * p->run_count * F * F);
  b->link = BD_NEW_ARRAY(b->ctx->arena, int, p->stages * p->run_count * WAYS * F * F);
  b->forward = BD_NEW_ARRAY(b->ctx->arena, int, p->stages);
  b->backward = BD_NEW_ARRAY(b->ctx->arena, int, p->stages);
  b->workspace = BD_NEW_ARRAY(b->ctx->arena, int, p->stages);
  b->reduce = add_seconds(b, 1);
  b->apply = has_updates(p) ? add_seconds(b, 1) : -1;
  for (int s = 0; s < p->stages; s++) {
    b->forward[s] = add_seconds(b, 0);
    b->backward[s] = add_seconds(b, 0);
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

static void add_entry(building *b, int row, int column, double value) {
  if (column >= 0) bd_program_add_entry(b->ctx, &b->program, row, column, value);
}

// The rows of a stage that its layers and arcs add to.
typedef struct stage_rows {
  int forward, backward, memory;
} stage_rows;

static void add_time(building *b, stage_rows rows, int column, bd_both_ways seconds) {
  add_entry(b, rows.forward, column, seconds.forward / b->unit.seconds);
  add_entry(b, rows.backward, column, seconds.backward / b->unit.seconds);
}

// What an arc adds to a stage's time and bytes.
static void add_arc(building *b, stage_rows rows, int column, bd_both_ways seconds, double bytes) {
  add_time(b, rows, column, seconds);
  if (bytes != 0) add_entry(b, rows.memory, column, bytes / b->unit.bytes);
}

static void add_arcs(building *b, stage_rows rows, int s) {
  const bd_pipeline_problem *p = b->problem;
  int F = forms_of(b), stage, next;
  for (int r = 0; r < p->run_count; r++) {
    const bd_pipeline_run *run = &p->runs[r];
    for (int f = 0; f < F; f++)
      for (int g = 0; g < F; g++) {
        bd_both_ways change = run->change[f * F + g];
        double held = bd_pipeline_change_bytes(p, s, r, f, g);
        if (f != g) add_arc(b, rows, pass_at(b, s, r, f, g), change, held);
        add_arc(b, rows, *link_at(b, s, r, SAME_STAGE, f, g), change, held);
        for (int way = 0; way < WAYS; way++) {
          if (way == SAME_STAGE) continue;
          if (goes_on(b, s, r, way, &stage, &next))
            add_arc(b, rows, *link_at(b, s, r, way, f, g),
                    run->send[bd_pipeline_hand_at(p, s, f, g)],
                    bd_pipeline_send_bytes(p, s, r, f, g));
          if (s > 0 && goes_on(b, s - 1, r, way, &stage, &next))
            add_arc(b, rows, *link_at(b, s - 1, r, way, f, g),
                    run->receive[bd_pipeline_hand_at(p, s - 1, f, g)],
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

// The workspace holds that of any layer, and so the mean of a run's.
static void add_workspace(building *b, int s, int r) {
  const bd_pipeline_run *run = &b->problem->runs[r];
  int mean = bd_program_add_row(b->ctx, &b->program, 0, INFINITY);
  add_entry(b, mean, b->workspace[s], run->calls);
  for (int k = 0; k < run->candidate_count; k++) {
    int cell = bd_pipeline_index(b->problem, s, r, k);
    double bytes = (double)run->candidates[k].workspace_bytes / b->unit.bytes;
    add_entry(b, mean, b->count[cell], -bytes);
    if (run->calls == 1) continue;
    int uses = bd_program_add_row(b->ctx, &b->program, -INFINITY, 0);
    add_entry(b, uses, b->count[cell], 1);
    add_entry(b, uses, b->used[cell], -run->calls);
    int holds = bd_program_add_row(b->ctx, &b->program, 0, INFINITY);
    add_entry(b, holds, b->workspace[s], 1);
    add_entry(b, holds, b->used[cell], -bytes);
  }
}

// A stage's time, memory and workspace. Its passes take exactly as long as its layers, since paths
// that leave a stage out count them off (add_paths).
static void add_stage(building *b, double cap_bytes, int s) {
  const bd_pipeline_problem *p = b->problem;
  bd_program *program = &b->program;
  double room = cap_bytes - bd_pipeline_beside_bytes(p, s);
  stage_rows rows = {bd_program_add_row(b->ctx, program, 0, 0),
                     bd_program_add_row(b->ctx, program, 0, 0),
                     bd_program_add_row(b->ctx, program, -INFINITY, room / b->unit.bytes)};
  int reduce = bd_program_add_row(b->ctx, program, -INFINITY, 0);
  int apply = b->apply < 0 ? -1 : bd_program_add_row(b->ctx, program, -INFINITY, 0);
  add_entry(b, rows.forward, b->forward[s], -1);
  add_entry(b, rows.backward, b->backward[s], -1);
  add_entry(b, reduce, b->reduce, -1);
  if (apply >= 0) add_entry(b, apply, b->apply, -1);
  add_entry(b, rows.memory, b->workspace[s], 1);
  add_arcs(b, rows, s);
  add_shared(b, rows.memory, s);
  for (int r = 0; r < p->run_count; r++) {
    for (int k = 0; k < p->runs[r].candidate_count; k++) {
      const bd_layer_candidate *c = &p->runs[r].candidates[k];
      int cell = bd_pipeline_index(p, s, r, k);
      add_time(b, rows, b->count[cell], (bd_both_ways){c->forward_seconds, c->backward_seconds});
      double applied = c->apply_seconds[p->zero] / b->unit.seconds;
      add_entry(b, reduce, b->count[cell], c->sync_seconds[p->zero] / b->unit.seconds - applied);
      if (apply >= 0) add_entry(b, apply, b->count[cell], applied);
      add_entry(b, rows.memory, b->count[cell], bd_pipeline_layer_bytes(p, s, c) / b->unit.bytes);
    }
    add_workspace(b, s, r);
  }
}

// GPipe: the slowest forward and the slowest backward pass.
static void add_slowest(building *b) {
  const bd_pipeline_problem *p = b->problem;
  for (int way = 0; way < 2; way++) {
    int slowest = add_seconds(b, p->micro_batches - 1);
    for (int s = 0; s < p->stages; s++) {
      int row = bd_program_add_row(b->ctx, &b->program, -INFINITY, 0);
      add_entry(b, row, way ? b->backward[s] : b->forward[s], 1);
      add_entry(b, row, slowest, -1);
    }
  }
}

static int new_path(building *b, int rest) {
  int row = bd_program_add_row(b->ctx, &b->program, -INFINITY, 0);
  add_entry(b, row, rest, -1);
  return row;
}

// So many passes of a stage, beside the one of each kind that every step counts.
static void add_passing(building *b, int row, int stage, int forwards, int backwards) {
  if (forwards) add_entry(b, row, b->forward[stage], forwards);
  if (backwards) add_entry(b, row, b->backward[stage], backwards);
}

// 1F1B: what paths take beside the sum of the stages (planner/step/bound.h).
static void add_paths(building *b, int path_count, const bd_step_path *paths) {
  const bd_pipeline_problem *p = b->problem;
  int rest = add_seconds(b, 1), others = p->micro_batches - 1;
  for (int s = 0; s < p->stages; s++) {
    int ahead = bd_schedule_in_flight(p->schedule, s, p->stages, p->micro_batches) - 1;
    if (others > ahead) {
      int around = new_path(b, rest);
      add_passing(b, around, s, others - ahead, others - ahead);
      for (int after = s + 1; after < p->stages; after++)
        add_passing(b, around, after, 1, 1);
    }
    if (ahead == 0) continue;
    add_passing(b, new_path(b, rest), s, others - ahead, others);
    add_passing(b, new_path(b, rest), s, others, others - ahead);
  }
  for (int i = 0; i < path_count; i++) {
    int row = new_path(b, rest);
    for (int s = 0; s < p->stages; s++)
      add_passing(b, row, s, paths[i].forwards[s] - 1, paths[i].backwards[s] - 1);
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

bd_status bd_pipeline_program_solve(bd_ctx *ctx, const bd_pipeline_problem *problem,
                                    const bd_pipeline_limits *limits, bd_pipeline *out) {
  *out = (bd_pipeline){.seconds = INFINITY, .bound = INFINITY};
  building b = {.ctx = ctx, .problem = problem, .program = {.solver = problem->solver}};
  add_columns(&b);
  add_rows(&b, limits->cap_bytes);
  if (problem->schedule == BD_SCHEDULE_GPIPE)
    add_slowest(&b);
  else
    add_paths(&b, limits->path_count, limits->paths);
  bd_solution solution;
  BD_TRY(bd_solver_run(ctx, &b.program, limits->limit_seconds, limits->cutoff / b.unit.seconds,
                       &solution));
  out->bound = solution.bound * b.unit.seconds;
  out->optimal = solution.outcome == BD_SOLVER_OPTIMAL || solution.outcome == BD_SOLVER_INFEASIBLE;
  if (!solution.values) return BD_OK;
  read_solution(&b, solution.values, out);
  out->seconds = bd_pipeline_seconds(problem, out->count, out->entry);
  out->bytes = (int64_t)bd_pipeline_bytes(problem, out->count, out->entry);
  out->feasible = isfinite(out->seconds);
  return BD_OK;
}
