#include "planner/pipeline/refill.h"
#include <math.h>
#include <string.h>

enum { PRICE_ROUNDS = 40 };

// One stage: how many layers of each run it has, and what is chosen for them.
typedef struct refill {
  const bd_pipeline_problem *problem;
  int stage, first, last; // runs that have layers
  const int *layers;      // per run
  int entry, exit;        // forms; -1: any will do
  double passes;          // of a micro-batch in a step, among which synchronization is divided
  double room;            // bytes for layers, changes of form and workspace
  double ceiling;         // no candidate has a larger workspace
  double price;           // of a byte, in seconds of a micro-batch
  int *form;              // per run: chosen
  int *best;              // [run][form]: the candidate that is best at the price, or -1
  double *value;          // [form]: what it comes to
  double *reach, *next;   // [form]: the least so far, and with the next run
  int *back;              // [run][form]: the form before
  int *count;             // [candidate over all runs]
} refill;

static const bd_layer_candidate *candidate_of(const refill *f, int run, int k) {
  return &f->problem->runs[run].candidates[k];
}

static int *count_of(const refill *f, int run, int k) {
  return &f->count[bd_pipeline_index(f->problem, 0, run, k)];
}

static double seconds_of(const refill *f, int run, int k) {
  const bd_layer_candidate *c = candidate_of(f, run, k);
  return bd_pipeline_layer_seconds(c) + c->sync_seconds[f->problem->zero] / f->passes;
}

static double bytes_of(const refill *f, int run, int k) {
  return bd_pipeline_layer_bytes(f->problem, f->stage, candidate_of(f, run, k));
}

static bool may_use(const refill *f, int run, int k) {
  return (double)candidate_of(f, run, k)->workspace_bytes <= f->ceiling;
}

static double change_seconds(const refill *f, int run, int from, int to) {
  return bd_pipeline_sum(f->problem->runs[run].change[from * f->problem->form_count + to]);
}

static double change_bytes(const refill *f, int run, int from, int to) {
  return bd_pipeline_change_bytes(f->problem, f->stage, run, from, to);
}

// The best candidate of every form for a run's layers.
static void price_run(refill *f, int run) {
  int forms = f->problem->form_count, *best = &f->best[run * forms];
  for (int g = 0; g < forms; g++) {
    best[g] = -1;
    f->value[g] = INFINITY;
  }
  for (int k = 0; k < f->problem->runs[run].candidate_count; k++) {
    int form = candidate_of(f, run, k)->form;
    double own = f->layers[run] * (seconds_of(f, run, k) + f->price * bytes_of(f, run, k));
    if (!may_use(f, run, k) || own >= f->value[form]) continue;
    f->value[form] = own;
    best[form] = k;
  }
}

static void enter(refill *f, int run, int form) {
  f->next[form] = INFINITY;
  for (int before = 0; before < f->problem->form_count; before++) {
    double change = change_seconds(f, run - 1, before, form) +
                    f->price * change_bytes(f, run - 1, before, form);
    double total = f->reach[before] + change + f->value[form];
    if (total >= f->next[form]) continue;
    f->next[form] = total;
    f->back[run * f->problem->form_count + form] = before;
  }
}

// The forms of all runs at the least seconds and price of bytes; false when there are none.
static bool choose_forms(refill *f) {
  int forms = f->problem->form_count, best = -1;
  price_run(f, f->first);
  for (int g = 0; g < forms; g++)
    f->reach[g] = f->entry < 0 || f->entry == g ? f->value[g] : INFINITY;
  for (int r = f->first + 1; r <= f->last; r++) {
    price_run(f, r);
    for (int g = 0; g < forms; g++)
      enter(f, r, g);
    memcpy(f->reach, f->next, sizeof *f->reach * (size_t)forms);
  }
  for (int g = 0; g < forms; g++)
    if ((f->exit < 0 || f->exit == g) && isfinite(f->reach[g]) &&
        (best < 0 || f->reach[g] < f->reach[best]))
      best = g;
  for (int r = f->last; r >= f->first && best >= 0; r--) {
    f->form[r] = best;
    if (r > f->first) best = f->back[r * forms + best];
  }
  return best >= 0;
}

static void take_best(refill *f) {
  memset(f->count, 0, sizeof *f->count * (size_t)bd_pipeline_candidates(f->problem));
  for (int r = f->first; r <= f->last; r++)
    *count_of(f, r, f->best[r * f->problem->form_count + f->form[r]]) = f->layers[r];
}

// What is left of the room. The workspace may come to the ceiling.
static double left_over(const refill *f) {
  double left = f->room - f->ceiling;
  for (int r = f->first; r <= f->last; r++) {
    for (int k = 0; k < f->problem->runs[r].candidate_count; k++)
      left -= *count_of(f, r, k) ? *count_of(f, r, k) * bytes_of(f, r, k) : 0;
    if (r < f->last) left -= change_bytes(f, r, f->form[r], f->form[r + 1]);
  }
  return left;
}

static bool fits_at(refill *f, double price) {
  f->price = price;
  if (!choose_forms(f)) return false;
  take_best(f);
  return left_over(f) >= 0;
}

typedef struct exchange {
  int run, from, to, layers;
  double gain, bytes; // of all of them
} exchange;

// The exchange of candidates of one form that saves most.
static exchange best_exchange(const refill *f, double left) {
  exchange best = {.gain = 0};
  for (int r = f->first; r <= f->last; r++)
    for (int k = 0; k < f->problem->runs[r].candidate_count; k++)
      for (int j = 0; *count_of(f, r, k) && j < f->problem->runs[r].candidate_count; j++) {
        double gain = seconds_of(f, r, k) - seconds_of(f, r, j);
        double more = bytes_of(f, r, j) - bytes_of(f, r, k);
        if (candidate_of(f, r, j)->form != f->form[r] || !may_use(f, r, j) || more > left) continue;
        int layers = *count_of(f, r, k);
        if (more * layers > left) layers = (int)(left / more);
        if (gain * layers > best.gain)
          best = (exchange){r, k, j, layers, gain * layers, more * layers};
      }
  return best;
}

static void spend(refill *f) {
  double left = left_over(f);
  for (exchange x; (x = best_exchange(f, left)).gain > 0; left -= x.bytes) {
    *count_of(f, x.run, x.from) -= x.layers;
    *count_of(f, x.run, x.to) += x.layers;
  }
}

// The stage under the ceiling of its workspace; false when nothing fits.
static bool fill(refill *f) {
  if (fits_at(f, 0)) return true;
  double low = 0, high = 1e-15;
  while (!fits_at(f, high) && high < 1)
    high *= 32;
  if (!fits_at(f, high)) return false;
  for (int round = 0; round < PRICE_ROUNDS; round++) {
    double middle = (low + high) / 2;
    *(fits_at(f, middle) ? &high : &low) = middle;
  }
  fits_at(f, high);
  spend(f);
  return true;
}

// Takes the stage over into a copy of the assignment, which replaces it when the step is shorter.
static void offer(bd_ctx *ctx, const refill *f, bd_pipeline *pipeline) {
  const bd_pipeline_problem *p = f->problem;
  int cells = bd_pipeline_candidates(p), runs = p->run_count;
  size_t bytes = sizeof *f->count * (size_t)cells;
  if (isfinite(pipeline->seconds) &&
      memcmp(&pipeline->count[f->stage * cells], f->count, bytes) == 0)
    return;
  int *count = bd_arena_copy(ctx->arena, pipeline->count, p->stages * cells, sizeof *count);
  int *entry = bd_arena_copy(ctx->arena, pipeline->entry, p->stages * runs, sizeof *entry);
  memcpy(&count[f->stage * cells], f->count, bytes);
  for (int r = f->first; r <= f->last; r++)
    entry[f->stage * runs + r] = f->form[r];
  double seconds = bd_pipeline_seconds(p, count, entry);
  if (seconds >= pipeline->seconds) return;
  pipeline->count = count;
  pipeline->entry = entry;
  pipeline->seconds = seconds;
  pipeline->bytes = (int64_t)bd_pipeline_bytes(p, count, entry);
  pipeline->feasible = true;
  pipeline->optimal = false;
}

static int exit_form(const bd_pipeline_problem *p, const bd_pipeline *pipeline, int stage,
                     int run) {
  return bd_pipeline_exit_form(p, pipeline->count, stage, run,
                               pipeline->entry[stage * p->run_count + run]);
}

static int layers_of(const bd_pipeline_problem *p, const bd_pipeline *pipeline, int stage,
                     int run) {
  int layers = 0;
  for (int k = 0; k < p->runs[run].candidate_count; k++)
    layers += pipeline->count[bd_pipeline_index(p, stage, run, k)];
  return layers;
}

// What the stage has and what its neighbours leave open.
static void read_stage(const bd_pipeline *pipeline, int stage, int *layers, refill *f) {
  const bd_pipeline_problem *p = f->problem;
  const int *entry = pipeline->entry;
  f->stage = stage;
  f->first = f->last = -1;
  for (int r = 0; r < p->run_count; r++) {
    layers[r] = layers_of(p, pipeline, stage, r);
    if (!layers[r]) continue;
    if (f->first < 0) f->first = r;
    f->last = r;
  }
  f->entry = stage == 0 ? -1 : entry[stage * p->run_count + f->first];
  f->exit = stage + 1 == p->stages ? -1 : exit_form(p, pipeline, stage, f->last);
  f->room = (double)p->cap_bytes - bd_pipeline_beside_bytes(p, stage) -
            bd_pipeline_shared_bytes(p, f->first, f->last);
  if (stage > 0) {
    int before = entry[(stage - 1) * p->run_count + f->first] < 0 ? f->first - 1 : f->first;
    f->room -= bd_pipeline_receive_bytes(p, stage, before,
                                         exit_form(p, pipeline, stage - 1, before), f->entry);
  }
  if (stage + 1 < p->stages) {
    int next = entry[(stage + 1) * p->run_count + f->last];
    if (next < 0) next = entry[(stage + 1) * p->run_count + f->last + 1];
    f->room -= bd_pipeline_send_bytes(p, stage, f->last, f->exit, next);
  }
}

// The next smaller workspace that a candidate of the stage has; -1: none.
static double lower_ceiling(const refill *f) {
  double next = -1;
  for (int r = f->first; r <= f->last; r++)
    for (int k = 0; k < f->problem->runs[r].candidate_count; k++) {
      double own = (double)candidate_of(f, r, k)->workspace_bytes;
      if (own < f->ceiling) next = fmax(next, own);
    }
  return next;
}

// All layers on the one stage, as anything: every choice is made anew.
static void start_one_stage(bd_ctx *ctx, const bd_pipeline_problem *p, bd_pipeline *pipeline) {
  *pipeline = (bd_pipeline){.seconds = INFINITY, .bound = pipeline->bound};
  pipeline->count = BD_NEW_ARRAY(ctx->arena, int, bd_pipeline_candidates(p));
  pipeline->entry = BD_NEW_ARRAY(ctx->arena, int, p->run_count);
  for (int r = 0; r < p->run_count; r++) {
    pipeline->count[bd_pipeline_index(p, 0, r, 0)] = p->runs[r].calls;
    pipeline->entry[r] = p->runs[r].candidates[0].form;
  }
}

static double fill_seconds(const refill *f) {
  double seconds = 0;
  for (int r = f->first; r <= f->last; r++) {
    for (int k = 0; k < f->problem->runs[r].candidate_count; k++)
      seconds += *count_of(f, r, k) * seconds_of(f, r, k);
    if (r < f->last) seconds += change_seconds(f, r, f->form[r], f->form[r + 1]);
  }
  return seconds;
}

// Fills the stage under every ceiling; the price of a byte is that under the best.
static void refill_stage(bd_ctx *ctx, refill *f, bd_pipeline *pipeline) {
  double least = INFINITY;
  f->ceiling = INFINITY;
  while ((f->ceiling = lower_ceiling(f)) >= 0) {
    if (!fill(f)) continue;
    double seconds = fill_seconds(f);
    if (seconds < least) {
      least = seconds;
      pipeline->price[f->stage] = f->price;
      offer(ctx, f, pipeline);
    }
    if (f->price == 0) break; // no lower one is faster
  }
}

void bd_pipeline_refill(bd_ctx *ctx, const bd_pipeline_problem *p, bd_pipeline *pipeline) {
  bd_pipeline before = *pipeline;
  int cells = p->run_count * p->form_count;
  if (!pipeline->count && p->stages > 1) return;
  if (!pipeline->count) start_one_stage(ctx, p, pipeline);
  pipeline->price = BD_NEW_ARRAY(ctx->arena, double, p->stages);
  int *layers = BD_NEW_ARRAY(ctx->arena, int, p->run_count);
  refill f = {.problem = p,
              .layers = layers,
              .passes = p->micro_batches + p->stages - 1,
              .form = BD_NEW_ARRAY(ctx->arena, int, p->run_count),
              .best = BD_NEW_ARRAY(ctx->arena, int, cells),
              .value = BD_NEW_ARRAY(ctx->arena, double, p->form_count),
              .reach = BD_NEW_ARRAY(ctx->arena, double, p->form_count),
              .next = BD_NEW_ARRAY(ctx->arena, double, p->form_count),
              .back = BD_NEW_ARRAY(ctx->arena, int, cells),
              .count = BD_NEW_ARRAY(ctx->arena, int, bd_pipeline_candidates(p))};
  for (int s = 0; s < p->stages; s++) {
    read_stage(pipeline, s, layers, &f);
    refill_stage(ctx, &f, pipeline);
  }
  if (isinf(pipeline->seconds)) *pipeline = before;
}
