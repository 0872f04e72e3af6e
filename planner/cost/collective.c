// Collectives by algorithm: of each the seconds, of all the least.
#include "planner/cost/cost.h"
#include <math.h>

enum { SWITCH_RANKS = 5 }; // so many ranks or more are summed in the switch

// When a long message begins to move.
static double long_start(const bd_link *link) {
  return fmax(link->latency_seconds, link->half_rate_bytes / link->bytes_per_second);
}

// `hops` messages one after another that move all of `bytes`, in the way of short or of long ones.
static double hops_seconds(const bd_link *link, double hops, double bytes) {
  double move = bytes / link->bytes_per_second;
  return fmin(hops * link->latency_seconds + 2 * move, hops * long_start(link) + move);
}

double bd_cost_message(const bd_link *link, double bytes) {
  return hops_seconds(link, 1, bytes);
}

// Ranks that are apart by a stride and lie around those of a ring that is within it.
static void lay_around(bd_ring *ring, const bd_ring *outer) {
  bool one_switch = ring->switch_sum.bytes_per_second > 0 && outer->switch_sum.bytes_per_second > 0;
  if (!one_switch) ring->switch_sum = (bd_link){0};
  if (ring->levels == ring->node_levels) ring->node_levels += outer->node_levels;
  for (int l = 0; l < outer->levels; l++)
    ring->level[ring->levels++] = outer->level[l];
  ring->ranks *= outer->ranks;
}

_Static_assert(BD_MAX_AXES <= 4, "axes with others between them make at most two rings");

// Of all ranks along some axes. Neighbouring axes are like one.
static bd_ring ring_of(const bd_cost_model *model, unsigned axes) {
  const bd_mesh *mesh = &model->mesh;
  bd_ring ring = {.ranks = 1};
  int stride = 1;
  for (int a = mesh->axes - 1; a >= 0; a--) {
    int ranks = 1, from = stride;
    for (; a >= 0 && (axes >> a & 1 || mesh->size[a] == 1); a--)
      ranks *= mesh->size[a];
    stride *= ranks;
    if (a >= 0) stride *= mesh->size[a];
    if (ranks == 1) continue;
    bd_ring run = bd_cluster_ring(model->cluster, from, ranks);
    if (ring.ranks > 1)
      lay_around(&ring, &run);
    else
      ring = run;
  }
  return ring;
}

// One ring over all ranks. It crosses a level through the links of all ranks below it side by side.
// Latency and start are those of its ranks - 1 steps together.
static bd_link flat_ring(const bd_ring *ring, double *out_start) {
  bd_link out = {.bytes_per_second = INFINITY};
  int below = 1;
  *out_start = 0;
  for (int l = 0; l < ring->levels; l++) {
    const bd_link *link = &ring->level[l].link;
    int inside = below * ring->level[l].ranks;
    double hops = (double)(ring->level[l].ranks - 1) * ring->ranks / inside;
    out.latency_seconds += hops * link->latency_seconds;
    *out_start += hops * long_start(link);
    out.bytes_per_second = fmin(out.bytes_per_second, below * link->bytes_per_second);
    below = inside;
  }
  return out;
}

bd_link bd_cost_link(const bd_cost_model *model, int axis) {
  bd_ring ring = ring_of(model, 1u << axis);
  if (ring.levels == 0) return model->cluster->intra;
  double start;
  bd_link link = flat_ring(&ring, &start);
  link.latency_seconds /= ring.ranks - 1;
  link.half_rate_bytes = start / (ring.ranks - 1) * link.bytes_per_second;
  return link;
}

static double flat_exchange(const bd_ring *ring, double bytes) {
  double start;
  bd_link link = flat_ring(ring, &start);
  double move = bytes * (ring->ranks - 1) / ring->ranks / link.bytes_per_second;
  return fmin(link.latency_seconds + 2 * move, start + move);
}

// A ring of one level.
static double level_exchange(const bd_ring *ring, int level, double bytes) {
  int ranks = ring->level[level].ranks;
  return hops_seconds(&ring->level[level].link, ranks - 1, bytes * (ranks - 1) / ranks);
}

// Two binary trees, each of which moves half of the bytes up and down again.
static double level_trees(const bd_ring *ring, int level, double bytes) {
  return hops_seconds(&ring->level[level].link, 2 * ceil(log2(ring->level[level].ranks)),
                      2 * bytes);
}

double bd_cost_exchange_over(const bd_cost_model *model, unsigned axes, double bytes) {
  bd_ring ring = ring_of(model, axes);
  if (ring.levels == 0) return 0;
  double levels = 0, part = bytes;
  for (int l = 0; l < ring.levels; part /= ring.level[l++].ranks)
    levels += level_exchange(&ring, l, part);
  return fmin(flat_exchange(&ring, bytes), levels);
}

double bd_cost_exchange(const bd_cost_model *model, int axis, double bytes) {
  return bd_cost_exchange_over(model, 1u << axis, bytes);
}

double bd_cost_all_reduce_over(const bd_cost_model *model, unsigned axes, double bytes) {
  bd_ring ring = ring_of(model, axes);
  if (ring.levels == 0) return 0;
  double levels = 0, part = bytes;
  for (int l = 0; l < ring.levels; part /= ring.level[l++].ranks) {
    double seconds = 2 * level_exchange(&ring, l, part);
    if (l >= ring.node_levels) seconds = fmin(seconds, level_trees(&ring, l, part));
    levels += seconds;
  }
  double best = fmin(2 * flat_exchange(&ring, bytes), levels);
  if (ring.ranks >= SWITCH_RANKS && ring.switch_sum.bytes_per_second > 0)
    best = fmin(best, bd_cost_message(&ring.switch_sum, bytes));
  return best;
}

double bd_cost_all_reduce(const bd_cost_model *model, int axis, double bytes) {
  return bd_cost_all_reduce_over(model, 1u << axis, bytes);
}

// Messages to each other rank, one after another on each kind of link.
double bd_cost_all_to_all(const bd_cost_model *model, int axis, double bytes) {
  bd_ring ring = ring_of(model, 1u << axis);
  double longest = 0;
  int below = 1;
  for (int l = 0; l < ring.levels; below *= ring.level[l++].ranks) {
    double peers = (double)(ring.level[l].ranks - 1) * below;
    longest = fmax(longest, hops_seconds(&ring.level[l].link, peers, peers * bytes / ring.ranks));
  }
  return longest;
}

double bd_cost_mirror(const bd_cost_model *model, int axis, double bytes) {
  bd_ring ring = ring_of(model, 1u << axis);
  double longest = 0;
  for (int l = 0; l < ring.levels; l++)
    longest = fmax(longest, bd_cost_message(&ring.level[l].link, bytes));
  return longest;
}
