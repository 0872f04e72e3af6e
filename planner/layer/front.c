// The first candidates of a layer: corners of its trade between seconds and bytes.
#include "planner/layer/pool.h"
#include "planner/layer/state.h"
#include <math.h>
#include <string.h>

enum {
  PRICES = 7,     // of a byte: the free one, the highest, and slopes between
  FORM_LIMIT = 5, // forms with candidates: the fastest, and the leanest
};
// A price or time so small that it only decides between equals.
#define TIE 1e-7
// How far beside a price that is thought to be right others are tried.
#define BESIDE 1e-3

// Points found so far: per form, one at each price.
typedef struct front {
  bd_ctx *ctx;
  bd_layer *layer;
  int in_flight, forms, prices;
  bd_layer_point (*points)[PRICES + 2]; // per form; no option: none
  bd_layer_point best[PRICES];          // of all forms, by falling bytes
} front;

static bool add_price(front *f, double seconds_weight, double bytes_weight, bd_layer_point *out) {
  const bd_choice_problem *problem = &f->layer->problem;
  if (!bd_layer_eliminate(f->ctx, f->layer, seconds_weight, bytes_weight, f->in_flight, out))
    return false;
  for (int form = 0; form < f->forms; form++) {
    bd_layer_point *p = &f->points[form][f->prices];
    p->option = BD_NEW_ARRAY(f->ctx->arena, int, problem->nodes);
    if (isfinite(bd_elimination_choose(f->layer->elimination, form, p->option)) &&
        bd_layer_mend_pools(f->ctx, f->layer, seconds_weight, bytes_weight, p->option))
      bd_choice_evaluate(problem, p->option, &p->seconds, &p->bytes);
    else
      p->option = NULL;
  }
  f->prices++;
  return true;
}

// Corners of the trade: the fastest and the leanest point, then where the line between neighbours
// leaves room below it, the widest gap in bytes first.
static bool find_corners(front *f) {
  bd_layer_point *best = f->best, next;
  if (!add_price(f, 1, 0, &next)) return false;
  f->layer->least_seconds = fmin(next.seconds, f->layer->left_out);
  double tie = TIE * next.seconds / fmax(next.bytes, 1);
  add_price(f, 1, tie, &best[0]);
  add_price(f, TIE / fmax(tie, 1e-300) * TIE, 1, &best[1]);
  int count = 2;
  bool closed[PRICES] = {false}; // no corner lies between a point and the next
  while (f->prices < PRICES) {
    int widest = -1;
    for (int i = 0; i + 1 < count; i++) {
      double gap = best[i].bytes - best[i + 1].bytes;
      if (closed[i] || gap <= 0 || best[i + 1].seconds <= best[i].seconds) continue;
      if (widest < 0 || gap > best[widest].bytes - best[widest + 1].bytes) widest = i;
    }
    if (widest < 0) break;
    const bd_layer_point *fast = &best[widest], *lean = &best[widest + 1];
    double price = (lean->seconds - fast->seconds) / (fast->bytes - lean->bytes);
    add_price(f, 1, price, &next);
    double value = next.seconds + price * next.bytes, known = fast->seconds + price * fast->bytes;
    if (value >= known * (1 - 1e-9) || next.bytes >= fast->bytes || next.bytes <= lean->bytes) {
      closed[widest] = true;
      continue;
    }
    for (int i = count++; i > widest + 1; i--) {
      best[i] = best[i - 1];
      closed[i] = closed[i - 1];
    }
    best[widest + 1] = next;
    closed[widest + 1] = false;
  }
  return true;
}

// The fastest forms, and the leanest one. Point 1 is the fastest, point 2 the leanest.
static int choose_forms(const front *f, int *out_forms) {
  int count = 0, leanest = -1;
  bool *taken = BD_NEW_ARRAY(f->ctx->arena, bool, f->forms);
  for (int form = 0; form < f->forms; form++)
    if (f->points[form][2].option &&
        (leanest < 0 || f->points[form][2].bytes < f->points[leanest][2].bytes))
      leanest = form;
  while (count + 1 < FORM_LIMIT) {
    int fastest = -1;
    for (int form = 0; form < f->forms; form++)
      if (!taken[form] && f->points[form][1].option &&
          (fastest < 0 || f->points[form][1].seconds < f->points[fastest][1].seconds))
        fastest = form;
    if (fastest < 0) break;
    taken[fastest] = true;
    out_forms[count++] = fastest;
  }
  if (leanest >= 0 && !taken[leanest]) out_forms[count++] = leanest;
  return count;
}

// Whether layers of the form that is best beside a price mix two points there, which is to say that
// it is the price of the cap: where those differ in one node alone, there are more candidates. They
// cost as much a byte, but need not hold the workspace of the leaner one.
static bd_status add_switched(front *f, double price, bd_layer_candidate *list, int *count) {
  const bd_choice_problem *problem = &f->layer->problem;
  const bd_layer_point *fast = NULL, *lean = NULL;
  int best = -1;
  for (int form = 0; form < f->forms; form++) {
    const bd_layer_point *p = &f->points[form][f->prices - 2];
    if (!p->option || !f->points[form][f->prices - 1].option) continue;
    if (best >= 0 && p->seconds + price * p->bytes >= fast->seconds + price * fast->bytes) continue;
    best = form;
    fast = p;
    lean = &f->points[form][f->prices - 1];
  }
  for (int node = 0; best >= 0 && node < problem->nodes; node++) {
    if (fast->option[node] == lean->option[node]) continue;
    double seconds, bytes;
    int *option = BD_NEW_ARRAY(f->ctx->arena, int, problem->nodes);
    memcpy(option, fast->option, sizeof *option * (size_t)problem->nodes);
    option[node] = lean->option[node];
    bd_choice_evaluate(problem, option, &seconds, &bytes);
    if (isfinite(seconds))
      BD_TRY(bd_layer_add_candidate(f->ctx, f->layer, best, option, list, count));
  }
  return BD_OK;
}

bd_status bd_layer_candidates(bd_ctx *ctx, bd_layer *layer, int in_flight, double price,
                              bd_layer_candidate **out_candidates, int *out_count) {
  front f = {.ctx = ctx, .layer = layer, .in_flight = in_flight};
  f.forms = layer->request->form_count;
  f.points = bd_arena_array(ctx->arena, (size_t)f.forms, sizeof *f.points);
  *out_count = 0;
  *out_candidates = NULL;
  if (!find_corners(&f)) return BD_OK;
  bd_layer_point beside;
  for (int side = -1; side <= 1 && price > 0; side += 2)
    add_price(&f, 1, price * (1 + side * BESIDE), &beside);
  int *forms = BD_NEW_ARRAY(ctx->arena, int, f.forms + FORM_LIMIT);
  int form_count = choose_forms(&f, forms);
  *out_candidates = BD_NEW_ARRAY(ctx->arena, bd_layer_candidate,
                                 2 * (form_count * (PRICES + 2) + layer->problem.nodes + 1));
  for (int i = 0; i < form_count; i++) {
    const bd_layer_point *points = f.points[forms[i]];
    for (int k = 1; k < f.prices; k++) {
      bool again = !points[k].option;
      for (int before = 1; before < k && !again; before++)
        again = points[before].option && points[before].seconds == points[k].seconds &&
                points[before].bytes == points[k].bytes;
      if (!again)
        BD_TRY(bd_layer_add_candidate(ctx, layer, forms[i], points[k].option, *out_candidates,
                                      out_count));
    }
  }
  return price > 0 ? add_switched(&f, price, *out_candidates, out_count) : BD_OK;
}
