#include "planner/select/state.h"

#include <math.h>
#include <string.h>

bd_select_state *bd_select_state_create(bd_ctx *ctx, const bd_select_model *m) {
  bd_select_state *state = BD_NEW(ctx->arena, bd_select_state);
  state->model = m;
  state->choice = BD_NEW_ARRAY(ctx->arena, int, m->nodes);
  state->load = bd_select_load_create(ctx->arena, m->points);
  for (int i = 0; i < m->nodes; i++) {
    const int64_t *usage = m->usage + m->start[i];
    for (int s = 1; s < bd_select_choices(m, i); s++)
      if (usage[s] < usage[state->choice[i]]) state->choice[i] = s;
  }
  bd_select_state_set(state, state->choice);
  return state;
}

double bd_select_state_cost(const bd_select_model *m, const int *choice) {
  double cost = 0;
  for (int i = 0; i < m->nodes; i++)
    cost += m->cost[m->start[i] + choice[i]];
  for (int e = 0; e < m->edges; e++)
    cost += bd_select_between(m, e, choice[m->low[e]], choice[m->high[e]]);
  return cost;
}

static void load_room(bd_select_state *state) {
  bd_select_load_clear(&state->load);
  for (int k = 0; k < state->model->points; k++)
    bd_select_load_add(&state->load, k, k + 1, -state->model->room[k]);
}

void bd_select_state_set(bd_select_state *state, const int *choice) {
  const bd_select_model *m = state->model;
  memmove(state->choice, choice, (size_t)m->nodes * sizeof *choice);
  state->cost = bd_select_state_cost(m, choice);
  load_room(state);
  for (int i = 0; i < m->nodes; i++)
    bd_select_load_add(&state->load, m->first[i], m->last[i], m->usage[m->start[i] + choice[i]]);
}

static int64_t least_usage(const bd_select_model *m, int node) {
  int64_t least = INT64_MAX;
  for (int s = m->start[node]; s < m->start[node + 1]; s++)
    least = m->usage[s] < least ? m->usage[s] : least;
  return least;
}

// What a strategy costs, given the choices below and the messages from above.
static double preference(const bd_select_state *state, const bd_select_dual *d, int node, int s) {
  const bd_select_model *m = d->model;
  double value = d->unary[m->start[node] + s];
  for (int l = m->link_start[node]; l < m->link_start[node + 1]; l++) {
    const bd_select_link *link = &m->link[l];
    value += link->first ? d->message[d->low[link->edge] + (size_t)s]
                         : bd_select_between(m, link->edge, state->choice[link->other], s);
  }
  return value;
}

void bd_select_state_decode(bd_select_state *state, const bd_select_dual *d) {
  const bd_select_model *m = state->model;
  load_room(state);
  for (int i = 0; i < m->nodes; i++)
    bd_select_load_add(&state->load, m->first[i], m->last[i], least_usage(m, i));
  for (int i = 0; i < m->nodes; i++) {
    int64_t least = least_usage(m, i);
    int64_t room = least - bd_select_load_max(&state->load, m->first[i], m->last[i]);
    double best = INFINITY;
    for (int s = 0; s < bd_select_choices(m, i); s++) {
      int64_t usage = m->usage[m->start[i] + s];
      if (m->first[i] < m->last[i] && usage > least && usage > room) continue;
      double value = preference(state, d, i, s);
      if (value >= best) continue;
      best = value;
      state->choice[i] = s;
    }
    int64_t extra = m->usage[m->start[i] + state->choice[i]] - least;
    bd_select_load_add(&state->load, m->first[i], m->last[i], extra);
  }
  state->cost = bd_select_state_cost(m, state->choice);
}
