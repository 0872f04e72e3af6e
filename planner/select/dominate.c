#include "planner/select/dominate.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct comparison {
  const bd_select_model *m;
  bool *dropped; // of each strategy of the model
  double work;
} comparison;

// The costs of one strategy of a node on an edge, other end by other end.
static double at(const bd_select_model *m, const bd_select_link *link, int count, int s, int x) {
  const double *matrix = m->matrix[link->edge];
  int others = bd_select_choices(m, link->other);
  return link->first ? matrix[(size_t)s * (size_t)others + (size_t)x]
                     : matrix[(size_t)x * (size_t)count + (size_t)s];
}

// The most that choosing `a` instead of `b` may cost more; gives up above 0.
static bool replaces(comparison *c, int node, int a, int b) {
  const bd_select_model *m = c->m;
  const int start = m->start[node], count = bd_select_choices(m, node);
  if (m->first[node] < m->last[node] && m->usage[start + a] > m->usage[start + b]) return false;
  double more = m->cost[start + a] - m->cost[start + b];
  double magnitude = m->cost[start + a] + m->cost[start + b];
  // What the edges can make up for at most is not known before they are looked at, so each is.
  for (int l = m->link_start[node]; l < m->link_start[node + 1]; l++) {
    const bd_select_link *link = &m->link[l];
    double most = -INFINITY, largest = 0;
    for (int x = 0; x < bd_select_choices(m, link->other); x++) {
      if (c->dropped[m->start[link->other] + x]) continue;
      double mine = at(m, link, count, a, x), other = at(m, link, count, b, x);
      c->work -= 1;
      if (other == INFINITY) continue;
      if (mine == INFINITY) return false;
      most = mine - other > most ? mine - other : most;
      largest = fmax(largest, mine + other);
    }
    if (most == -INFINITY) return true;
    more += most;
    magnitude += largest;
  }
  // Differences of whole numbers below 2^53 are exact.
  return more <= (magnitude < 0x1p53 ? 0 : -magnitude * DBL_EPSILON);
}

int bd_select_dominate(bd_ctx *ctx, const bd_select_problem *p, const bd_select_model *m,
                       double work, bd_deadline deadline, bd_select_domain *domain) {
  comparison c = {
      .m = m, .dropped = BD_NEW_ARRAY(ctx->arena, bool, m->start[m->nodes]), .work = work};
  int dropped = 0;
  for (int i = 0; i < m->nodes && c.work > 0; i++) {
    int start = m->start[i], count = bd_select_choices(m, i);
    for (int b = count; b-- > 0 && !bd_deadline_passed(deadline);) {
      for (int a = 0; a < count && !c.dropped[start + b]; a++) {
        if (a == b || c.dropped[start + a] || !replaces(&c, i, a, b)) continue;
        c.dropped[start + b] = true;
        domain->live[p->start[m->origin[i]] + (size_t)m->strategy[start + b]] = false;
        domain->count[m->origin[i]]--;
        dropped++;
      }
    }
  }
  return dropped;
}
