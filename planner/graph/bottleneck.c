#include "planner/graph/bottleneck.h"
#include "planner/graph/limited.h"
#include "planner/graph/weights.h"
#include <math.h>

enum { LIMITS = 400 };

// The least sum under a limit, as a path.
typedef struct narrowing {
  bd_limited_paths paths;
  double rest; // its slowest stage
  bd_priced_path path;
} narrowing;

static int fastest_option(const bd_layers_intervals *n, int layer, int mode) {
  const bd_layers_setting *s = n->setting;
  const bd_layers_usable *usable = bd_layers_usable_of(s, layer, mode);
  int best = usable->option[0];
  for (int i = 1; i < usable->count; i++)
    if (bd_layers_linear_rest(s, bd_layers_option_criteria(s, layer, usable->option[i])) <
        bd_layers_linear_rest(s, bd_layers_option_criteria(s, layer, best)))
      best = usable->option[i];
  return best;
}

static void trace(narrowing *d) {
  const bd_limited_paths *p = &d->paths;
  int end = p->intervals->layers, state = 0, mode = 0;
  d->rest = 0;
  for (int stage = p->intervals->stages - 1; stage >= 0; stage--) {
    bd_limited_parent at = p->parents[bd_limited_cell(p, stage + 1, end, state, mode)];
    bd_limited_passage on;
    (void)bd_limited_find_passage(p, stage, at.first, at.state, at.mode, end, mode, INFINITY, &on);
    d->rest = fmax(d->rest, on.rest);
    for (int l = at.first; l < end; l++) {
      d->path.part[l] = stage;
      d->path.mode[l] = at.mode;
      d->path.option[l] = fastest_option(p->intervals, l, at.mode);
    }
    end = at.first;
    state = at.state;
    mode = at.mode;
  }
}

void bd_layers_bottleneck(bd_ctx *ctx, bd_layers_intervals *n, double cutoff,
                          void (*visit)(void *user, const bd_priced_path *path), void *user,
                          double *out_bound) {
  narrowing d;
  double limit = INFINITY, best = cutoff;
  *out_bound = 0;
  if (!bd_limited_open(ctx, n, &d.paths)) return;
  d.path = bd_priced_path_new(ctx, n->layers);
  for (int round = 0; round < LIMITS; round++) {
    double sum = bd_limited_least_sum(&d.paths, limit);
    if (n->stopped) break;
    // Plans with a slower stage than the limit are no better than the best.
    *out_bound = fmin(sum, best);
    if (!(sum < best)) return;
    trace(&d);
    if (visit) visit(user, &d.path);
    best = fmin(best, sum + d.rest);
    limit = fmax(0, fmin(best - sum, d.rest * (1 - BD_LIMITED_ROUNDING)));
  }
}
