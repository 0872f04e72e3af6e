#include "planner/select/dual.h"
#include "planner/select/message.h"

#include <float.h>
#include <math.h>
#include <string.h>

bd_select_dual *bd_select_dual_create(bd_ctx *ctx, const bd_select_model *m) {
  bd_arena *arena = ctx->arena;
  bd_select_dual *d = BD_NEW(arena, bd_select_dual);
  size_t strategies = (size_t)m->start[m->nodes], messages = 0, widest = 1;
  d->model = m;
  d->price = BD_NEW_ARRAY(arena, double, m->points);
  d->total = BD_NEW_ARRAY(arena, double, m->points + 1);
  d->unary = BD_NEW_ARRAY(arena, double, strategies);
  d->belief = BD_NEW_ARRAY(arena, double, strategies);
  d->low = BD_NEW_ARRAY(arena, size_t, m->edges);
  d->high = BD_NEW_ARRAY(arena, size_t, m->edges);
  for (int e = 0; e < m->edges; e++) {
    d->low[e] = messages;
    d->high[e] = messages + (size_t)bd_select_choices(m, m->low[e]);
    messages = d->high[e] + (size_t)bd_select_choices(m, m->high[e]);
  }
  for (int i = 0; i < m->nodes; i++)
    widest = (size_t)bd_select_choices(m, i) > widest ? (size_t)bd_select_choices(m, i) : widest;
  d->message = BD_NEW_ARRAY(arena, double, messages);
  d->messages = messages;
  d->scratch = BD_NEW_ARRAY(arena, double, 4 * widest);
  bd_select_dual_reprice(d);
  return d;
}

void bd_select_dual_reprice(bd_select_dual *d) {
  const bd_select_model *m = d->model;
  double sum = 0;
  for (int k = 0; k < m->points; k++)
    sum += d->price[k];
  // Multiples of `grain`, at most 2^52 of them: sums of prices have no rounding error.
  double grain = sum > 0 ? ldexp(1, ilogb(sum) - 50) : 1;
  for (int k = 0; k < m->points; k++) {
    d->price[k] = floor(d->price[k] / grain) * grain;
    d->total[k + 1] = d->total[k] + d->price[k];
  }
  for (int i = 0; i < m->nodes; i++) {
    double price = d->total[m->last[i]] - d->total[m->first[i]];
    for (int s = m->start[i]; s < m->start[i + 1]; s++)
      d->unary[s] = m->cost[s] + (double)m->usage[s] * price;
  }
}

void bd_select_dual_copy(bd_select_dual *d, const bd_select_dual *from) {
  memcpy(d->message, from->message, d->messages * sizeof *d->message);
}

// The unary costs of a node and all messages to it.
static void gather(bd_select_dual *d, int node) {
  const bd_select_model *m = d->model;
  int count = bd_select_choices(m, node);
  double *belief = d->belief + m->start[node];
  memcpy(belief, d->unary + m->start[node], (size_t)count * sizeof *belief);
  for (int l = m->link_start[node]; l < m->link_start[node + 1]; l++) {
    const bd_select_link *link = &m->link[l];
    const double *message = d->message + (link->first ? d->low : d->high)[link->edge];
    for (int s = 0; s < count; s++)
      belief[s] += message[s];
  }
}

static double least(const double *values, int count) {
  double most = INFINITY;
  for (int s = 0; s < count; s++)
    most = values[s] < most ? values[s] : most;
  return most;
}

// How many chains pass through a node: as many as its edges up or down, whichever are more.
static int chains(const bd_select_model *m, int node) {
  int up = 0, degree = bd_select_degree(m, node);
  for (int l = m->link_start[node]; l < m->link_start[node + 1]; l++)
    up += m->link[l].first;
  int most = up > degree - up ? up : degree - up;
  return most > 0 ? most : 1;
}

// Sends a node's share of its belief over one edge.
static void send(bd_select_dual *d, int node, const bd_select_link *link, double share) {
  const bd_select_model *m = d->model;
  int e = link->edge, count = bd_select_choices(m, node);
  int other_count = bd_select_choices(m, link->other);
  const double *belief = d->belief + m->start[node];
  const double *received = d->message + (link->first ? d->low : d->high)[e];
  double *sent = d->message + (link->first ? d->high : d->low)[e];
  double *values = d->scratch;
  for (int s = 0; s < count; s++)
    values[s] = share * belief[s] - received[s];
  if (link->first)
    bd_select_min_rows(m->matrix[e], count, other_count, values, sent);
  else
    bd_select_min_columns(m->matrix[e], other_count, count, values, sent);
  double base = least(sent, other_count);
  for (int s = 0; s < other_count; s++)
    sent[s] -= base;
}

static void visit(bd_select_dual *d, int node, bool up) {
  const bd_select_model *m = d->model;
  gather(d, node);
  double share = 1.0 / chains(m, node);
  for (int l = m->link_start[node]; l < m->link_start[node + 1]; l++)
    if (m->link[l].first == up) send(d, node, &m->link[l], share);
}

void bd_select_dual_pass(bd_select_dual *d) {
  for (int i = 0; i < d->model->nodes; i++)
    visit(d, i, true);
  for (int i = d->model->nodes; i-- > 0;)
    visit(d, i, false);
}

// What a bound adds up to, and the sum of the magnitudes of all terms: each was rounded a few
// times.
typedef struct tally {
  double sum, magnitude;
} tally;

static void count_in(tally *t, double value, double largest) {
  t->sum += value;
  t->magnitude += fabs(value) + largest;
}

static double largest(const double *values, int count) {
  double most = 0;
  for (int s = 0; s < count; s++)
    most = fabs(values[s]) > most ? fabs(values[s]) : most;
  return most;
}

// The least of an edge's costs less its messages, given the share of the upper node's belief above
// its minimum. Adds what each strategy of the upper and lower node has over that to `slack`.
static void bound_edge(bd_select_dual *d, int e, double share, tally *t, double *slack) {
  const bd_select_model *m = d->model;
  int low = m->low[e], high = m->high[e];
  int rows = bd_select_choices(m, low), columns = bd_select_choices(m, high);
  const double *to_low = d->message + d->low[e], *to_high = d->message + d->high[e];
  const double *belief = d->belief + m->start[high];
  double *in = d->scratch, *out = d->scratch + (columns > rows ? columns : rows);
  double base = least(belief, columns);
  for (int s = 0; s < columns; s++)
    in[s] = share * (belief[s] - base) - to_high[s];
  bd_select_min_columns(m->matrix[e], rows, columns, in, out);
  for (int s = 0; s < rows; s++)
    out[s] -= to_low[s];
  double edge = least(out, rows);
  count_in(t, edge, (largest(in, columns) + largest(to_low, rows)) * 4);
  if (!slack) return;
  for (int s = 0; s < rows; s++)
    slack[m->start[low] + s] += out[s] - edge;
  for (int s = 0; s < rows; s++)
    in[s] = -to_low[s];
  bd_select_min_rows(m->matrix[e], rows, columns, in, out);
  for (int s = 0; s < columns; s++)
    slack[m->start[high] + s] += out[s] - to_high[s] + share * (belief[s] - base) - edge;
}

double bd_select_dual_bound(bd_select_dual *d, double *slack) {
  const bd_select_model *m = d->model;
  tally t = {0};
  for (int k = 0; k < m->points; k++) {
    double value = d->price[k] * (double)m->room[k];
    count_in(&t, -value, 0);
  }
  for (int i = 0; i < m->nodes; i++) {
    int degree = bd_select_degree(m, i), count = bd_select_choices(m, i);
    double *belief = d->belief + m->start[i];
    gather(d, i);
    double base = least(belief, count);
    count_in(&t, base, largest(belief, count) * (degree + 3));
    int down = 0;
    double share = 1.0 / chains(m, i) * (1 - 0x1p-50);
    for (int l = m->link_start[i]; l < m->link_start[i + 1]; l++)
      down += !m->link[l].first;
    for (int s = 0; slack && s < count; s++)
      slack[m->start[i] + s] = (1 - share * down) * (belief[s] - base);
  }
  for (int i = 0; i < m->nodes; i++) {
    double share = 1.0 / chains(m, i) * (1 - 0x1p-50);
    for (int l = m->link_start[i]; l < m->link_start[i + 1]; l++)
      if (!m->link[l].first) bound_edge(d, m->link[l].edge, share, &t, slack);
  }
  // Each term errs by a few units of double's roundoff of its magnitude, the sum of n terms by at
  // most n units of long double's.
  double terms = (double)m->nodes + m->edges + m->points + 16;
  return (double)(t.sum - t.magnitude * (16 * DBL_EPSILON + terms * LDBL_EPSILON));
}
