#include "planner/pipeline/fill.h"
#include <math.h>
#include <string.h>

enum { PRICE_ROUNDS = 40 }; // a guard: each finds another choice

static const bd_layer_candidate *candidate_of(const bd_stage_fill *f, int run, int k) {
  return &f->problem->runs[run].candidates[k];
}

static int *count_of(const bd_stage_fill *f, int run, int k) {
  return &f->count[f->first_slot[run] + k];
}

static double seconds_of(const bd_stage_fill *f, int run, int k) {
  return f->takes[f->first_slot[run] + k];
}

static double bytes_of(const bd_stage_fill *f, int run, int k) {
  return f->holds[f->first_slot[run] + k];
}

bd_stage_fill bd_stage_fill_create(bd_arena *arena, const bd_pipeline_problem *p) {
  int cells = p->run_count * p->form_count, slots = bd_pipeline_candidates(p);
  bd_stage_fill f = {.problem = p,
                     .layers = BD_NEW_ARRAY(arena, int, p->run_count),
                     .first_slot = BD_NEW_ARRAY(arena, int, p->run_count),
                     .takes = BD_NEW_ARRAY(arena, double, slots),
                     .holds = BD_NEW_ARRAY(arena, double, slots),
                     .passes = p->micro_batches + p->stages - 1,
                     .ceiling = INFINITY,
                     .form = BD_NEW_ARRAY(arena, int, p->run_count),
                     .best = BD_NEW_ARRAY(arena, int, cells),
                     .value = BD_NEW_ARRAY(arena, double, p->form_count),
                     .reach = BD_NEW_ARRAY(arena, double, p->form_count),
                     .next = BD_NEW_ARRAY(arena, double, p->form_count),
                     .back = BD_NEW_ARRAY(arena, int, cells),
                     .count = BD_NEW_ARRAY(arena, int, slots)};
  for (int r = 0; r < p->run_count; r++)
    f.first_slot[r] = bd_pipeline_index(p, 0, r, 0);
  return f;
}

void bd_stage_fill_measure(bd_stage_fill *f) {
  for (int r = f->first; r <= f->last; r++)
    for (int k = 0; k < f->problem->runs[r].candidate_count; k++) {
      const bd_layer_candidate *c = candidate_of(f, r, k);
      int slot = f->first_slot[r] + k;
      f->takes[slot] = bd_pipeline_layer_seconds(c) + c->sync_seconds[f->problem->zero] / f->passes;
      f->holds[slot] = bd_pipeline_layer_bytes(f->problem, f->stage, c);
    }
}

static bool may_use(const bd_stage_fill *f, int run, int k) {
  return (double)candidate_of(f, run, k)->workspace_bytes <= f->ceiling;
}

static double change_seconds(const bd_stage_fill *f, int run, int from, int to) {
  return bd_pipeline_sum(f->problem->runs[run].change[from * f->problem->form_count + to]);
}

static double change_bytes(const bd_stage_fill *f, int run, int from, int to) {
  return bd_pipeline_change_bytes(f->problem, f->stage, run, from, to);
}

// The best candidate of every form for a run's layers.
static void price_run(bd_stage_fill *f, int run) {
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

static void enter(bd_stage_fill *f, int run, int form) {
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
static bool choose_forms(bd_stage_fill *f) {
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

static void take_best(bd_stage_fill *f) {
  memset(f->count, 0, sizeof *f->count * (size_t)bd_pipeline_candidates(f->problem));
  for (int r = f->first; r <= f->last; r++)
    *count_of(f, r, f->best[r * f->problem->form_count + f->form[r]]) = f->layers[r];
}

// Bytes of what is chosen.
static double filled_bytes(const bd_stage_fill *f) {
  double bytes = 0;
  for (int r = f->first; r <= f->last; r++) {
    for (int k = 0; k < f->problem->runs[r].candidate_count; k++)
      bytes += *count_of(f, r, k) ? *count_of(f, r, k) * bytes_of(f, r, k) : 0;
    if (r < f->last) bytes += change_bytes(f, r, f->form[r], f->form[r + 1]);
  }
  return bytes;
}

double bd_stage_fill_seconds(const bd_stage_fill *f) {
  double seconds = 0;
  for (int r = f->first; r <= f->last; r++) {
    for (int k = 0; k < f->problem->runs[r].candidate_count; k++)
      seconds += *count_of(f, r, k) ? *count_of(f, r, k) * seconds_of(f, r, k) : 0;
    if (r < f->last) seconds += change_seconds(f, r, f->form[r], f->form[r + 1]);
  }
  return seconds;
}

// What is left of the room. The workspace may come to the ceiling.
static double left_over(const bd_stage_fill *f) {
  return f->room - f->ceiling - filled_bytes(f);
}

static bool fits_at(bd_stage_fill *f, double price) {
  f->price = price;
  f->chosen = choose_forms(f);
  if (!f->chosen) return false;
  take_best(f);
  return left_over(f) >= 0;
}

typedef struct exchange {
  int run, from, to, layers;
  double gain, bytes; // of all of them
} exchange;

// The exchange of candidates of one form that saves most.
static exchange best_exchange(const bd_stage_fill *f, double left) {
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

static void spend(bd_stage_fill *f) {
  double left = left_over(f);
  for (exchange x; (x = best_exchange(f, left)).gain > 0; left -= x.bytes) {
    *count_of(f, x.run, x.from) -= x.layers;
    *count_of(f, x.run, x.to) += x.layers;
  }
}

// The least price of a byte at which what is best fits: where the lines, over the price, of a
// choice that does not fit and of one that does meet, either is the best, or another one lies below
// both and takes the place of one of them (Handler and Zang, Networks 1980, section 2).
static void find_price(bd_stage_fill *f, double over_seconds, double over_bytes) {
  double fitting = f->price, price = fitting;
  double seconds = bd_stage_fill_seconds(f), bytes = filled_bytes(f);
  for (int round = 0; round < PRICE_ROUNDS; round++) {
    price = (seconds - over_seconds) / (over_bytes - bytes);
    bool fits = fits_at(f, price);
    double now_seconds = bd_stage_fill_seconds(f), now_bytes = filled_bytes(f);
    if (now_bytes >= over_bytes || now_bytes <= bytes) break;
    if (fits) {
      fitting = price;
      seconds = now_seconds;
      bytes = now_bytes;
    } else {
      over_seconds = now_seconds;
      over_bytes = now_bytes;
    }
  }
  fits_at(f, fitting);
  f->price = price;
}

bool bd_stage_fill_choose(bd_stage_fill *f) {
  if (fits_at(f, 0)) return true;
  if (!f->chosen) return false; // whatever the price
  double seconds = bd_stage_fill_seconds(f), bytes = filled_bytes(f);
  if (!fits_at(f, BD_ANY_PRICE)) return false;
  find_price(f, seconds, bytes);
  spend(f);
  return true;
}

bool bd_stage_fill_lower(bd_stage_fill *f) {
  double next = -1;
  for (int r = f->first; r <= f->last; r++)
    for (int k = 0; k < f->problem->runs[r].candidate_count; k++) {
      double own = (double)candidate_of(f, r, k)->workspace_bytes;
      if (own < f->ceiling) next = fmax(next, own);
    }
  f->ceiling = next;
  return next >= 0;
}
