#include "planner/pipeline/build.h"
#include <math.h>
#include <string.h>

static const bd_layer_candidate *candidate_of(const bd_stage_builder *b, int run, int k) {
  return &b->problem->runs[run].candidates[k];
}

static int slot(const bd_stage_builder *b, int run, int k) {
  return b->first_slot[run] + k;
}

static bd_exchange cheapest_exchange_of(const bd_stage_builder *b, int run, int k) {
  bd_exchange best = {-1, INFINITY, 0};
  int first = b->first_slot[run], own = slot(b, run, k);
  for (int j = 0; j < b->problem->runs[run].candidate_count; j++) {
    double saved = b->holds[own] - b->holds[first + j];
    if (saved <= 0 || candidate_of(b, run, j)->form != candidate_of(b, run, k)->form) continue;
    double price = (b->takes[first + j] - b->takes[own]) / saved;
    if (price < best.price) best = (bd_exchange){first + j, price, saved};
  }
  return best;
}

// The best candidates of every form, the first of equals.
static void find_extremes(bd_stage_builder *b, int run) {
  int forms = b->problem->form_count;
  double *seconds = &b->seconds[run * forms], *bytes = &b->bytes[run * forms];
  bd_extremes *best = &b->best[run * forms];
  for (int f = 0; f < forms; f++) {
    seconds[f] = bytes[f] = INFINITY;
    best[f] = (bd_extremes){-1, -1, INFINITY};
  }
  for (int k = 0; k < b->problem->runs[run].candidate_count; k++) {
    const bd_layer_candidate *x = candidate_of(b, run, k);
    int own = slot(b, run, k), f = x->form;
    b->holds[own] = bd_pipeline_layer_bytes(b->problem, b->stage, x);
    double alone = b->holds[own] + (double)x->workspace_bytes;
    if (b->takes[own] < seconds[f]) {
      seconds[f] = b->takes[own];
      best[f].fastest = own;
    }
    if (alone < best[f].alone_bytes) {
      best[f].alone_bytes = alone;
      best[f].leanest = own;
    }
    bytes[f] = fmin(bytes[f], b->holds[own]);
  }
}

void bd_stage_builder_go_to(bd_stage_builder *b, int stage) {
  b->stage = stage;
  for (int r = 0; r < b->problem->run_count; r++) {
    find_extremes(b, r);
    for (int k = 0; k < b->problem->runs[r].candidate_count; k++)
      b->exchanges[slot(b, r, k)] = cheapest_exchange_of(b, r, k);
  }
}

// Where every layer and every candidate is.
static void place(bd_stage_builder *b) {
  for (int r = 0, cell = 0, layer = 0; r < b->problem->run_count; r++) {
    b->first_slot[r] = cell;
    b->first_layer[r] = layer;
    for (int k = 0; k < b->problem->runs[r].candidate_count; k++) {
      b->workspace[cell] = (double)candidate_of(b, r, k)->workspace_bytes;
      b->takes[cell++] = bd_pipeline_layer_seconds(candidate_of(b, r, k));
    }
    for (int i = 0; i < b->problem->runs[r].calls; i++)
      b->run_of[layer++] = r;
  }
}

bd_stage_builder bd_stage_builder_create(bd_arena *arena, const bd_pipeline_problem *p) {
  bd_stage_builder b = {.problem = p, .cells = bd_pipeline_candidates(p)};
  int runs = p->run_count, forms = p->form_count;
  for (int r = 0; r < runs; r++)
    b.layers += p->runs[r].calls;
  b.run_of = BD_NEW_ARRAY(arena, int, b.layers + 1);
  b.first_layer = BD_NEW_ARRAY(arena, int, runs);
  b.first_slot = BD_NEW_ARRAY(arena, int, runs);
  b.takes = BD_NEW_ARRAY(arena, double, b.cells);
  b.seconds = BD_NEW_ARRAY(arena, double, runs *forms);
  b.workspace = BD_NEW_ARRAY(arena, double, b.cells);
  b.holds = BD_NEW_ARRAY(arena, double, b.cells);
  b.bytes = BD_NEW_ARRAY(arena, double, runs *forms);
  b.best = BD_NEW_ARRAY(arena, bd_extremes, runs * forms);
  b.exchanges = BD_NEW_ARRAY(arena, bd_exchange, b.cells);
  b.forms = BD_NEW_ARRAY(arena, int, runs);
  b.count = BD_NEW_ARRAY(arena, int, b.cells);
  b.used = BD_NEW_ARRAY(arena, int, b.cells + 1);
  b.next = BD_NEW_ARRAY(arena, double, forms);
  for (int lean = 0; lean < 2; lean++) {
    b.reached[lean].least = BD_NEW_ARRAY(arena, double, forms);
    b.reached[lean].before = BD_NEW_ARRAY(arena, int, runs *forms);
  }
  place(&b);
  bd_stage_builder_go_to(&b, 0);
  return b;
}

// Layers from `from` to before `to` that belong to a run.
static int layers_in(const bd_stage_builder *b, int run, int from, int to) {
  int first = b->first_layer[run], end = first + b->problem->runs[run].calls;
  return (to < end ? to : end) - (from > first ? from : first);
}

// The form before every form of a run, and what the layers so far come to, the first form given, at
// the least seconds, or bytes.
static void reach_forms(bd_stage_builder *b, bd_reached *out, bool lean) {
  int first = b->run_of[b->from], last = b->run_of[b->to - 1], F = b->problem->form_count;
  const double *weight = lean ? b->bytes : b->seconds;
  for (int f = 0; f < F; f++)
    out->least[f] =
        f == b->entry ? layers_in(b, first, b->from, b->to) * weight[first * F + f] : INFINITY;
  for (int r = first + 1; r <= last; r++) {
    int layers = layers_in(b, r, b->from, b->to);
    for (int g = 0; g < F; g++) {
      b->next[g] = INFINITY;
      double own = layers * weight[r * F + g];
      for (int f = 0; f < F; f++) {
        double change = lean ? 0 : bd_pipeline_sum(b->problem->runs[r - 1].change[f * F + g]);
        if (out->least[f] + own + change >= b->next[g]) continue;
        b->next[g] = out->least[f] + own + change;
        out->before[r * F + g] = f;
      }
    }
    memcpy(out->least, b->next, sizeof *b->next * (size_t)F);
  }
}

void bd_stage_enter(bd_stage_builder *b, int from, int to, int entry) {
  b->from = from;
  b->to = to;
  b->entry = entry;
  for (int lean = 0; lean < 2; lean++)
    b->reached[lean].known = false;
}

static bool choose_forms(bd_stage_builder *b, int exit, bool lean) {
  int first = b->run_of[b->from], last = b->run_of[b->to - 1];
  bd_reached *reached = &b->reached[lean];
  if (!reached->known) reach_forms(b, reached, lean);
  reached->known = true;
  if (isinf(reached->least[exit])) return false;
  b->forms[last] = exit;
  for (int r = last; r > first; r--)
    b->forms[r - 1] = reached->before[r * b->problem->form_count + b->forms[r]];
  return true;
}

// What the stage holds for its neighbours, as if no form changed on the way.
static double passed_bytes(const bd_stage_builder *b) {
  int last = b->run_of[b->to - 1];
  double bytes = 0;
  if (b->stage > 0)
    bytes +=
        bd_pipeline_receive_bytes(b->problem, b->stage, b->run_of[b->from - 1], b->entry, b->entry);
  if (b->stage + 1 < b->problem->stages)
    bytes += bd_pipeline_send_bytes(b->problem, b->stage, last, b->forms[last], b->forms[last]);
  return bytes;
}

// What the stage holds whatever its candidates are.
static double fixed_bytes(const bd_stage_builder *b, int first, int last) {
  double bytes = passed_bytes(b) + bd_pipeline_beside_bytes(b->problem, b->stage) +
                 bd_pipeline_shared_bytes(b->problem, first, last);
  for (int r = first; r < last; r++)
    bytes += bd_pipeline_change_bytes(b->problem, b->stage, r, b->forms[r], b->forms[r + 1]);
  return bytes;
}

static double layer_bytes(const bd_stage_builder *b) {
  double bytes = 0, workspace = 0;
  for (int i = 0; i < b->used_count; i++) {
    int at = b->used[i];
    bytes += b->count[at] * b->holds[at];
    if (b->count[at]) workspace = fmax(workspace, b->workspace[at]);
  }
  return bytes + workspace;
}

static double stage_seconds(const bd_stage_builder *b, int first, int last) {
  double seconds = 0;
  for (int i = 0; i < b->used_count; i++)
    seconds += b->count[b->used[i]] * b->takes[b->used[i]];
  for (int r = first; r < last; r++)
    seconds += bd_pipeline_sum(
        b->problem->runs[r].change[b->forms[r] * b->problem->form_count + b->forms[r + 1]]);
  return seconds;
}

// Keeps slots in order.
static void use(bd_stage_builder *b, int at, int layers) {
  int i = b->used_count;
  while (i > 0 && b->used[i - 1] > at)
    i--;
  bool there = i > 0 && b->used[i - 1] == at;
  b->count[at] += layers;
  if (there) return;
  memmove(&b->used[i + 1], &b->used[i], sizeof *b->used * (size_t)(b->used_count++ - i));
  b->used[i] = at;
}

// All layers of every run with the fastest, or leanest, candidate of its form.
static void fill(bd_stage_builder *b, int first, int last, bool lean) {
  while (b->used_count > 0)
    b->count[b->used[--b->used_count]] = 0;
  for (int r = first; r <= last; r++) {
    const bd_extremes *best = &b->best[r * b->problem->form_count + b->forms[r]];
    use(b, lean ? best->leanest : best->fastest, layers_in(b, r, b->from, b->to));
  }
}

// The slot that has layers and the cheapest exchange; -1: none saves bytes.
static int cheapest_exchange(const bd_stage_builder *b) {
  int best = -1;
  for (int i = 0; i < b->used_count; i++) {
    int at = b->used[i];
    if (b->count[at] && b->exchanges[at].to >= 0 &&
        (best < 0 || b->exchanges[at].price < b->exchanges[best].price))
      best = at;
  }
  return best;
}

// Exchanges candidates until the stage is within the cap.
static bool fit(bd_stage_builder *b, int first, int last) {
  double room = (double)b->problem->cap_bytes - fixed_bytes(b, first, last), over;
  while ((over = layer_bytes(b) - room) > 0) {
    int at = cheapest_exchange(b);
    if (at < 0) return false;
    int moved = (int)fmin(ceil(over / b->exchanges[at].saved_bytes), b->count[at]);
    b->count[at] -= moved;
    use(b, b->exchanges[at].to, moved);
  }
  return true;
}

bool bd_stage_build(bd_stage_builder *b, int exit, double *out_seconds) {
  int first = b->run_of[b->from], last = b->run_of[b->to - 1];
  for (int lean = 0; lean < 2; lean++) {
    if (!choose_forms(b, exit, lean)) return false;
    fill(b, first, last, lean);
    if (!fit(b, first, last)) continue;
    *out_seconds = stage_seconds(b, first, last);
    return true;
  }
  return false;
}
