#include "planner/step/step.h"
#include "tests/unit/planner/support_pipeline.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static int slots_of(const bd_pipeline_problem *p, int stage) {
  return bd_schedule_in_flight(p->schedule, stage, p->stages, p->micro_batches);
}

// An assignment, told layer by layer.
typedef struct walk {
  const bd_pipeline_problem *problem;
  bd_stage_seconds seconds[MOST_STAGES];
  double bytes[MOST_STAGES], workspace[MOST_STAGES];
  bool holds[MOST_STAGES][MOST_SHARED]; // shared weights
  int stage, run, form;                 // of the layer before; no layer: run -1
} walk;

static void add_seconds(walk *w, int stage, bd_both_ways seconds) {
  w->seconds[stage].forward += seconds.forward;
  w->seconds[stage].backward += seconds.backward;
}

static void change_form(walk *w, int stage, int form) {
  const bd_pipeline_run *before = &w->problem->runs[w->run];
  double old = before->handed_bytes[w->form], fresh = before->handed_bytes[form];
  int forms = w->problem->form_count, at = w->form * forms + form;
  bool changes = form != w->form;
  if (w->stage == stage) {
    add_seconds(w, stage, before->change[at]);
    if (changes) w->bytes[stage] += slots_of(w->problem, stage) * fresh + old;
    return;
  }
  if (w->problem->link) at += w->problem->link[w->stage] * forms * forms;
  add_seconds(w, w->stage, before->send[at]);
  add_seconds(w, stage, before->receive[at]);
  w->bytes[w->stage] += fresh + (changes ? old : 0) + (w->problem->sends_held ? old : 0) -
                        (slots_of(w->problem, w->stage) - 1) * old;
  w->bytes[stage] += slots_of(w->problem, stage) * fresh + (changes ? old : 0) +
                     (w->problem->sends_held ? fresh : 0);
}

static void walk_to(walk *w, int stage, int run, const bd_layer_candidate *c) {
  if (w->run >= 0) change_form(w, stage, c->form);
  w->stage = stage;
  w->run = run;
  w->form = c->form;
  add_seconds(w, stage, (bd_both_ways){c->forward_seconds, c->backward_seconds});
  w->seconds[stage].sync += c->sync_seconds[w->problem->zero];
  w->seconds[stage].apply += c->apply_seconds[w->problem->zero];
  w->bytes[stage] += (double)(c->weight_bytes + c->gradient_bytes + c->passing_bytes +
                              c->optimizer_bytes[w->problem->zero] +
                              slots_of(w->problem, stage) * (c->tape_bytes + c->boundary_bytes));
  for (int i = 0; i < w->problem->shared_count; i++) {
    const bd_pipeline_shared *shared = &w->problem->shared[i];
    if (!shared->used[run] || w->holds[stage][i]) continue;
    w->holds[stage][i] = true;
    w->bytes[stage] += shared->bytes;
  }
  w->workspace[stage] = fmax(w->workspace[stage], (double)c->workspace_bytes);
}

static walk walk_all(const bd_pipeline_problem *p, const int *count, const int *entry) {
  walk w = {.problem = p, .run = -1};
  for (int s = 0; s < p->stages; s++)
    for (int r = 0; r < p->run_count; r++)
      for (int part = 0; part < 2; part++)
        for (int k = 0; k < p->runs[r].candidate_count; k++) {
          const bd_layer_candidate *c = &p->runs[r].candidates[k];
          bool enters = c->form == entry[s * p->run_count + r];
          for (int n = count[bd_pipeline_index(p, s, r, k)]; n > 0 && enters == !part; n--)
            walk_to(&w, s, r, c);
        }
  return w;
}

double peak_bytes(const bd_pipeline_problem *p, const int *count, const int *entry) {
  walk w = walk_all(p, count, entry);
  double most = 0;
  for (int s = 0; s < p->stages; s++)
    most = fmax(most, w.bytes[s] + w.workspace[s]);
  return most;
}

double step_seconds(const bd_pipeline_problem *p, const int *count, const int *entry) {
  walk w = walk_all(p, count, entry);
  return bd_step_emitted_seconds(p->schedule, p->stages, p->micro_batches, w.seconds);
}

void check_order(const bd_pipeline_problem *p, const int *count) {
  int last = 0;
  for (int r = 0; r < p->run_count; r++) {
    int first = p->stages, end = 0, calls = 0;
    for (int s = 0; s < p->stages; s++)
      for (int k = 0; k < p->runs[r].candidate_count; k++) {
        int n = count[bd_pipeline_index(p, s, r, k)];
        calls += n;
        if (n && s < first) first = s;
        if (n) end = s;
      }
    assert_int_equal(calls, p->runs[r].calls);
    assert_true(first >= last);
    last = end;
  }
}

void check_found(const bd_pipeline_problem *p, const bd_pipeline *found, double best) {
  check_order(p, found->count);
  assert_true(fabs(step_seconds(p, found->count, found->entry) - found->seconds) <= 1e-9 * best);
  assert_true(peak_bytes(p, found->count, found->entry) <= (double)p->cap_bytes);
}
