#include "planner/select/bucket_plan.h"
#include "planner/select/random.h"

#include <math.h>
#include <string.h>

enum { WORDS = BD_SELECT_MOST_FREE / 64, OVERHEAD = 2000 };

// A node that is still to be eliminated, and which others would be in its table.
typedef struct vertex {
  double score; // entries its elimination looks at; INFINITY: too many nodes in the table
  uint64_t neighbour[WORDS];
} vertex;

struct bd_select_bucket_planner {
  const bd_select_model *model;
  const bd_select_free_set *set;
  size_t entries, used;
  vertex *vertex;
  int waiting, *wait; // vertices neither eliminated nor held
  int count;          // vertices
};

typedef struct bd_select_bucket_planner planner;

bd_select_bucket_order *bd_select_bucket_order_create(bd_ctx *ctx, const bd_select_model *m,
                                                      size_t entries) {
  bd_arena *arena = ctx->arena;
  bd_select_bucket_order *order = BD_NEW(arena, bd_select_bucket_order);
  order->step = BD_NEW_ARRAY(arena, bd_select_bucket_step, BD_SELECT_MOST_FREE);
  order->position = BD_NEW_ARRAY(arena, int, m->nodes);
  for (int i = 0; i < m->nodes; i++)
    order->position[i] = -1;
  order->planner = BD_NEW(arena, planner);
  *order->planner = (planner){.model = m,
                              .entries = entries,
                              .vertex = BD_NEW_ARRAY(arena, vertex, BD_SELECT_MOST_FREE),
                              .wait = BD_NEW_ARRAY(arena, int, BD_SELECT_MOST_FREE)};
  return order;
}

static double choices(const planner *p, int v) {
  return p->set->start[v + 1] - p->set->start[v];
}

static void rate(planner *p, int v) {
  double score = choices(p, v);
  int scope = 0;
  for (int w = 0; w < WORDS; w++) {
    for (uint64_t bits = p->vertex[v].neighbour[w]; bits; bits &= bits - 1) {
      score *= choices(p, w * 64 + __builtin_ctzll(bits));
      scope++;
    }
  }
  p->vertex[v].score = scope > BD_SELECT_MOST_SCOPE ? INFINITY : score;
}

static void set_bit(uint64_t *bits, int v, bool on) {
  uint64_t bit = (uint64_t)1 << (v % 64);
  bits[v / 64] = on ? bits[v / 64] | bit : bits[v / 64] & ~bit;
}

static void collect(bd_select_bucket_order *order) {
  planner *p = order->planner;
  const int *node = p->set->node, count = p->set->count;
  const bd_select_model *m = p->model;
  p->count = p->waiting = count;
  p->used = 0;
  for (int v = 0; v < count; v++) {
    memset(&p->vertex[v], 0, sizeof p->vertex[v]);
    p->wait[v] = v;
    order->position[node[v]] = v;
  }
  for (int v = 0; v < count; v++) {
    for (int l = m->link_start[node[v]]; l < m->link_start[node[v] + 1]; l++) {
      int other = order->position[m->link[l].other];
      if (other >= 0) set_bit(p->vertex[v].neighbour, other, true);
    }
  }
  for (int v = 0; v < count; v++) {
    rate(p, v);
    order->position[node[v]] = -1;
  }
}

// Takes the vertex at `place` of the waiting ones out of the graph. `join`: its neighbours become
// neighbours of each other.
static void take_out(planner *p, int place, bool join) {
  int v = p->wait[place];
  const uint64_t *mine = p->vertex[v].neighbour;
  p->wait[place] = p->wait[--p->waiting];
  for (int w = 0; w < WORDS; w++) {
    for (uint64_t bits = mine[w]; bits; bits &= bits - 1) {
      int u = w * 64 + __builtin_ctzll(bits);
      uint64_t *theirs = p->vertex[u].neighbour;
      for (int k = 0; join && k < WORDS; k++)
        theirs[k] |= mine[k];
      set_bit(theirs, u, false);
      set_bit(theirs, v, false);
    }
  }
  for (int w = 0; w < WORDS; w++)
    for (uint64_t bits = mine[w]; bits; bits &= bits - 1)
      rate(p, w * 64 + __builtin_ctzll(bits));
}

// Whether tables and turned matrices of this elimination still fit.
static bool fits(planner *p, int v) {
  double size = p->vertex[v].score / choices(p, v);
  for (int w = 0; w < WORDS; w++)
    for (uint64_t bits = p->vertex[v].neighbour[w]; bits; bits &= bits - 1)
      size += choices(p, v) * choices(p, w * 64 + __builtin_ctzll(bits));
  if ((double)p->used + size > (double)p->entries) return false;
  p->used += (size_t)size;
  return true;
}

static int cheapest(const planner *p) {
  int best = 0;
  for (int k = 1; k < p->waiting; k++)
    if (p->vertex[p->wait[k]].score < p->vertex[p->wait[best]].score) best = k;
  return best;
}

// A vertex to hold: of some drawn at random, the one whose elimination is dearest.
static int burden(const planner *p, uint64_t *random) {
  enum { DRAWS = 3 };
  int worst = bd_select_below(random, p->waiting);
  for (int k = 1; k < DRAWS; k++) {
    int other = bd_select_below(random, p->waiting);
    if (p->vertex[p->wait[other]].score > p->vertex[p->wait[worst]].score) worst = other;
  }
  return worst;
}

// Turns the vertices noted in a step's scope into steps, without those that were held.
static void finish(bd_select_bucket_order *order, bd_select_bucket_step *step,
                   const uint64_t *neighbour) {
  planner *p = order->planner;
  step->scope_count = 0;
  for (int w = 0; w < WORDS; w++) {
    for (uint64_t bits = neighbour[w]; bits; bits &= bits - 1) {
      int at = order->position[p->set->node[w * 64 + __builtin_ctzll(bits)]];
      if (at < 0) continue;
      int q = step->scope_count++;
      for (; q > 0 && step->scope[q - 1] < at; q--)
        step->scope[q] = step->scope[q - 1];
      step->scope[q] = at;
    }
  }
}

double bd_select_bucket_order_plan(bd_select_bucket_order *order, const bd_select_free_set *set,
                                   double cap, uint64_t *random) {
  planner *p = order->planner;
  p->set = set;
  for (int k = 0; k < order->count; k++)
    order->position[order->step[k].node] = -1;
  order->count = 0;
  collect(order);
  double work = OVERHEAD;
  while (p->waiting > 0) {
    int place = cheapest(p), v = p->wait[place];
    work += p->waiting + WORDS * 4;
    if (p->vertex[v].score > cap || !fits(p, v)) {
      take_out(p, burden(p, random), false);
      continue;
    }
    order->position[set->node[v]] = order->count;
    order->step[order->count++] = (bd_select_bucket_step){.node = set->node[v], .member = v};
    take_out(p, place, true);
  }
  for (int k = 0; k < order->count; k++)
    finish(order, &order->step[k], p->vertex[order->step[k].member].neighbour);
  return work;
}
