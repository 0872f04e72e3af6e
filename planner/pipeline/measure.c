#include "planner/pipeline/measure.h"
#include "planner/pipeline/skip.h"
#include <math.h>
#include <string.h>

typedef struct stage_sums {
  bd_both_ways seconds;
  double sync, apply, bytes;
} stage_sums;

static void add_seconds(stage_sums *sums, bd_both_ways seconds) {
  sums->seconds.forward += seconds.forward;
  sums->seconds.backward += seconds.backward;
}

static void add_layers(const bd_pipeline_problem *problem, const int *count, int stage,
                       stage_sums *out) {
  double workspace = 0;
  for (int r = 0; r < problem->run_count; r++)
    for (int k = 0; k < problem->runs[r].candidate_count; k++) {
      const bd_layer_candidate *c = &problem->runs[r].candidates[k];
      int n = count[bd_pipeline_index(problem, stage, r, k)];
      if (!n) continue;
      add_seconds(out, (bd_both_ways){n * c->forward_seconds, n * c->backward_seconds});
      out->sync += n * c->sync_seconds[problem->zero];
      out->apply += n * c->apply_seconds[problem->zero];
      out->bytes += n * bd_pipeline_layer_bytes(problem, stage, c);
      workspace = fmax(workspace, (double)c->workspace_bytes);
    }
  out->bytes += workspace;
}

// What it takes that layers of `run` on stage `from_stage` hand on in form `from` what others on
// stage `to_stage` take in form `to`.
static void add_change(const bd_pipeline_problem *problem, int run, int from_stage, int to_stage,
                       int from, int to, stage_sums *sums) {
  const bd_pipeline_run *own = &problem->runs[run];
  if (from_stage == to_stage) {
    add_seconds(&sums[to_stage], own->change[from * problem->form_count + to]);
    sums[to_stage].bytes += bd_pipeline_change_bytes(problem, to_stage, run, from, to);
    return;
  }
  int at = bd_pipeline_hand_at(problem, from_stage, from, to);
  add_seconds(&sums[from_stage], own->send[at]);
  sums[from_stage].bytes += bd_pipeline_send_bytes(problem, from_stage, run, from, to);
  add_seconds(&sums[to_stage], own->receive[at]);
  sums[to_stage].bytes += bd_pipeline_receive_bytes(problem, to_stage, run, from, to);
}

static void add_skips(const bd_pipeline_problem *problem, const int *count, const int *entry,
                      stage_sums *sums) {
  for (int i = 0; i < problem->skip_count; i++) {
    const bd_pipeline_skip *skip = &problem->skips[i];
    bd_layer_place from = bd_pipeline_place(problem, count, entry, skip->from);
    bd_layer_place to = bd_pipeline_place(problem, count, entry, skip->to);
    bool there = false;
    for (int n = 0; n < i; n++)
      there = there ||
              (bd_skip_same_value(&problem->skips[n], skip) &&
               bd_pipeline_place(problem, count, entry, problem->skips[n].to).stage == to.stage);
    if (skip->next_too)
      there = there || bd_pipeline_place(problem, count, entry, skip->from + 1).stage == to.stage;
    bd_skip_cost cost = bd_pipeline_skip_cost(problem, skip, from, to, there);
    add_seconds(&sums[from.stage], cost.maker);
    add_seconds(&sums[to.stage], cost.reader);
    sums[from.stage].bytes += cost.maker_bytes;
    sums[to.stage].bytes += cost.reader_bytes;
  }
}

// Sums over the stages, what passes between layers included.
static void add_up(const bd_pipeline_problem *problem, const int *count, const int *entry,
                   stage_sums *sums) {
  int form = -1, before_stage = 0, before = -1;
  memset(sums, 0, sizeof *sums * (size_t)problem->stages);
  for (int s = 0; s < problem->stages; s++) {
    add_layers(problem, count, s, &sums[s]);
    int first_run = -1, last_run = -1;
    for (int r = 0; r < problem->run_count; r++) {
      int first = entry[s * problem->run_count + r];
      if (first < 0) continue;
      if (first_run < 0) first_run = r;
      last_run = r;
      if (before >= 0) add_change(problem, before, before_stage, s, form, first, sums);
      int last = bd_pipeline_exit_form(problem, count, s, r, first);
      if (last != first) add_change(problem, r, s, s, first, last, sums);
      form = last;
      before = r;
      before_stage = s;
    }
    if (first_run >= 0) sums[s].bytes += bd_pipeline_shared_bytes(problem, first_run, last_run);
    sums[s].bytes += bd_pipeline_beside_bytes(problem, s);
  }
  add_skips(problem, count, entry, sums);
}

void bd_pipeline_stage_bytes(const bd_pipeline_problem *problem, const int *count, const int *entry,
                             double *out) {
  stage_sums sums[BD_MAX_STAGES];
  add_up(problem, count, entry, sums);
  for (int s = 0; s < problem->stages; s++)
    out[s] = sums[s].bytes;
}

double bd_pipeline_bytes(const bd_pipeline_problem *problem, const int *count, const int *entry) {
  double bytes[BD_MAX_STAGES], most = 0;
  bd_pipeline_stage_bytes(problem, count, entry, bytes);
  for (int s = 0; s < problem->stages; s++)
    most = fmax(most, bytes[s]);
  return most;
}

static bool is_empty(const bd_pipeline_problem *problem, const int *count, int stage) {
  int width = bd_pipeline_candidates(problem);
  for (int i = 0; i < width; i++)
    if (count[stage * width + i]) return false;
  return true;
}

// Whether as many layers as are wanted run on the stages up to each.
static bool keeps_cuts(const bd_pipeline_problem *problem, const int *count) {
  int width = bd_pipeline_candidates(problem), layers = 0;
  for (int s = 0; problem->cut_least && s < problem->stages; s++) {
    for (int k = 0; k < width; k++)
      layers += count[s * width + k];
    if (layers < problem->cut_least[s] || layers > problem->cut_most[s]) return false;
  }
  return true;
}

static void list_stages(const bd_pipeline_problem *problem, const stage_sums *sums,
                        bd_stage_seconds *out) {
  for (int s = 0; s < problem->stages; s++)
    out[s] = (bd_stage_seconds){.forward = sums[s].seconds.forward,
                                .backward = sums[s].seconds.backward,
                                .sync = sums[s].sync,
                                .apply = sums[s].apply};
}

double bd_pipeline_seconds(const bd_pipeline_problem *problem, const int *count, const int *entry) {
  stage_sums sums[BD_MAX_STAGES];
  bd_stage_seconds stages[BD_MAX_STAGES];
  add_up(problem, count, entry, sums);
  if (!keeps_cuts(problem, count)) return INFINITY;
  for (int s = 0; s < problem->stages; s++)
    if (is_empty(problem, count, s) || sums[s].bytes > (double)problem->cap_bytes) return INFINITY;
  list_stages(problem, sums, stages);
  return bd_step_emitted_seconds(problem->schedule, problem->stages, problem->micro_batches,
                                 stages);
}

void bd_pipeline_stage_seconds(const bd_pipeline_problem *problem, const int *count,
                               const int *entry, bd_stage_seconds *out) {
  stage_sums sums[BD_MAX_STAGES];
  add_up(problem, count, entry, sums);
  list_stages(problem, sums, out);
}
