// The states that the search of bd_graph_solve keeps, in layers by how many nodes have been
// computed.
#ifndef BD_PLANNER_REMAT_GRAPH_SEARCH_H
#define BD_PLANNER_REMAT_GRAPH_SEARCH_H
#include "planner/remat/graph_bound.h"

typedef struct bd_graph_state {
  double spent, least; // least: no completion of the state costs less
  int parent;          // -1: the beginning
  int next;            // nodes before it have been computed
  int node;            // what was computed last
  int missing;         // nodes to compute again before `next` can be
  double depth;        // how far what is missing lies from what is there, in costs, summed up
  bool popped;
} bd_graph_state;

typedef struct bd_graph_heap {
  int *state;
  int count, capacity;
} bd_graph_heap;

typedef struct bd_graph_states {
  bd_arena *arena;
  int words, count, capacity, limit;
  bd_graph_state *state;
  uint64_t *resident; // `words` per state
  int *slot;          // open addressing over (next, resident): a state + 1, or 0
  int slots;
  // Of the layer at hand and of the next; by `least`, and by `missing` first.
  bd_graph_heap heap[2][2];
} bd_graph_states;

void bd_graph_states_init(bd_graph_states *states, bd_arena *arena, int words, int limit);
static inline const uint64_t *bd_graph_resident(const bd_graph_states *states, int state) {
  return states->resident + (size_t)state * (size_t)states->words;
}
// Keeps the state unless one with the same `next` and residents has spent no more. False when there
// is no room for another state.
bool bd_graph_states_add(bd_graph_states *states, const bd_graph_state *state,
                         const uint64_t *resident, int layer);
// A state of the layer that was not popped yet: of least `least`, or the `nearest` to its next
// node; -1 when there is none.
int bd_graph_states_pop(bd_graph_states *states, int layer, bool nearest);
// Whether a cheaper way to the same residents was found later.
bool bd_graph_states_stale(const bd_graph_states *states, int state);
#endif
