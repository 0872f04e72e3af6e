// What a problem's tables tell of a layer and of what passes between layers.
#include "planner/pipeline/pipeline.h"
#include <math.h>

int bd_pipeline_candidates(const bd_pipeline_problem *problem) {
  int total = 0;
  for (int r = 0; r < problem->run_count; r++)
    total += problem->runs[r].candidate_count;
  return total;
}

int bd_pipeline_index(const bd_pipeline_problem *problem, int stage, int run, int candidate) {
  int index = stage * bd_pipeline_candidates(problem) + candidate;
  for (int r = 0; r < run; r++)
    index += problem->runs[r].candidate_count;
  return index;
}

int bd_pipeline_layers(const bd_pipeline_problem *problem, const int *count, int stage, int run) {
  int layers = 0;
  for (int k = 0; k < problem->runs[run].candidate_count; k++)
    layers += count[bd_pipeline_index(problem, stage, run, k)];
  return layers;
}

int bd_pipeline_hand_at(const bd_pipeline_problem *problem, int stage, int from, int to) {
  int link = problem->link ? problem->link[stage] : 0;
  return (link * problem->form_count + from) * problem->form_count + to;
}

static int in_flight(const bd_pipeline_problem *problem, int stage) {
  return bd_schedule_in_flight(problem->schedule, stage, problem->stages, problem->micro_batches);
}

double bd_pipeline_layer_bytes(const bd_pipeline_problem *problem, int stage,
                               const bd_layer_candidate *c) {
  return (double)(c->weight_bytes + c->gradient_bytes + c->passing_bytes +
                  c->optimizer_bytes[problem->zero]) +
         (double)in_flight(problem, stage) * (double)(c->tape_bytes + c->boundary_bytes);
}

// The value in its new form, for every micro-batch in flight, and its gradient in the old one.
double bd_pipeline_change_bytes(const bd_pipeline_problem *problem, int stage, int run, int from,
                                int to) {
  const double *handed = problem->runs[run].handed_bytes;
  return from == to ? 0 : in_flight(problem, stage) * handed[to] + handed[from];
}

// The gradient that comes back, as it comes and as it is wanted, and the message. The value itself
// is not held for every micro-batch in flight, as no layer of the stage reads it again.
double bd_pipeline_send_bytes(const bd_pipeline_problem *problem, int stage, int run, int from,
                              int to) {
  const double *handed = problem->runs[run].handed_bytes;
  return handed[to] + (from == to ? 0 : handed[from]) + (problem->sends_held ? handed[from] : 0) -
         (in_flight(problem, stage) - 1) * handed[from];
}

// The value as it is wanted, for every micro-batch in flight, and as it comes; and the message.
double bd_pipeline_receive_bytes(const bd_pipeline_problem *problem, int stage, int run, int from,
                                 int to) {
  const double *handed = problem->runs[run].handed_bytes;
  return in_flight(problem, stage) * handed[to] + (from == to ? 0 : handed[from]) +
         (problem->sends_held ? handed[to] : 0);
}

double bd_pipeline_least_sent_bytes(const bd_pipeline_problem *problem, int stage) {
  double least = 0;
  for (int r = 0; r < problem->run_count && stage + 1 < problem->stages; r++)
    for (int f = 0; f < problem->form_count; f++)
      for (int g = 0; g < problem->form_count; g++)
        least = fmin(least, bd_pipeline_send_bytes(problem, stage, r, f, g));
  return least;
}

double bd_pipeline_shared_bytes(const bd_pipeline_problem *problem, int first, int last) {
  double bytes = 0;
  for (int w = 0; w < problem->shared_count; w++) {
    int r = first;
    while (r <= last && !problem->shared[w].used[r])
      r++;
    if (r <= last) bytes += problem->shared[w].bytes;
  }
  return bytes;
}

double bd_pipeline_beside_bytes(const bd_pipeline_problem *problem, int stage) {
  return problem->beside_bytes ? problem->beside_bytes[stage] : 0;
}

double bd_pipeline_sum(bd_both_ways seconds) {
  return seconds.forward + seconds.backward;
}

double bd_pipeline_layer_seconds(const bd_layer_candidate *c) {
  return c->forward_seconds + c->backward_seconds;
}

int bd_pipeline_exit_form(const bd_pipeline_problem *problem, const int *count, int stage, int run,
                          int entry) {
  for (int k = 0; k < problem->runs[run].candidate_count; k++) {
    int form = problem->runs[run].candidates[k].form;
    if (form != entry && count[bd_pipeline_index(problem, stage, run, k)]) return form;
  }
  return entry;
}
