#include "planner/remat/graph_search.h"
#include <string.h>

void bd_graph_states_init(bd_graph_states *states, bd_arena *arena, int words, int limit) {
  *states = (bd_graph_states){.arena = arena, .words = words, .limit = limit, .slots = 1024};
  states->slot = BD_NEW_ARRAY(arena, int, states->slots);
}

static uint64_t hash(const uint64_t *resident, int words, int next) {
  uint64_t value = (uint64_t)next * UINT64_C(0x9e3779b97f4a7c15);
  for (int i = 0; i < words; i++) {
    value = (value ^ resident[i]) * UINT64_C(0xff51afd7ed558ccd);
    value ^= value >> 32;
  }
  return value;
}

// Where the state with these residents is, or where it would be.
static int *find_slot(const bd_graph_states *states, const uint64_t *resident, int next) {
  size_t mask = (size_t)states->slots - 1, bytes = (size_t)states->words * sizeof *resident;
  for (size_t at = hash(resident, states->words, next) & mask;; at = (at + 1) & mask) {
    int *slot = &states->slot[at];
    if (!*slot || (states->state[*slot - 1].next == next &&
                   memcmp(bd_graph_resident(states, *slot - 1), resident, bytes) == 0))
      return slot;
  }
}

static void grow_states(bd_graph_states *states) {
  size_t count = (size_t)states->count, words = (size_t)states->words;
  int capacity = states->capacity ? 2 * states->capacity : 512;
  states->state =
      bd_arena_grow(states->arena, states->state, count, (size_t)capacity, sizeof *states->state);
  states->resident = bd_arena_grow(states->arena, states->resident, count * words,
                                   (size_t)capacity * words, sizeof *states->resident);
  states->capacity = capacity;
  const int *old = states->slot;
  int old_slots = states->slots;
  states->slots = 4 * capacity;
  states->slot = BD_NEW_ARRAY(states->arena, int, states->slots);
  for (int i = 0; i < old_slots; i++)
    if (old[i])
      *find_slot(states, bd_graph_resident(states, old[i] - 1), states->state[old[i] - 1].next) =
          old[i];
}

// Ties go to what is missing less deeply, then to the older one.
static bool before(const bd_graph_states *states, bool nearest, int a, int b) {
  const bd_graph_state *x = &states->state[a], *y = &states->state[b];
  if (nearest && x->missing != y->missing) return x->missing < y->missing;
  if (x->least != y->least) return x->least < y->least;
  if (x->depth != y->depth) return x->depth < y->depth;
  return x->missing != y->missing ? x->missing < y->missing : a < b;
}

static void push(bd_graph_states *states, int layer, bool nearest, int state) {
  bd_graph_heap *heap = &states->heap[layer][nearest];
  if (heap->count == heap->capacity) {
    int capacity = heap->capacity ? 2 * heap->capacity : 256;
    heap->state = bd_arena_grow(states->arena, heap->state, (size_t)heap->count, (size_t)capacity,
                                sizeof *heap->state);
    heap->capacity = capacity;
  }
  int at = heap->count++;
  while (at > 0 && before(states, nearest, state, heap->state[(at - 1) / 2])) {
    heap->state[at] = heap->state[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  heap->state[at] = state;
}

static int pop(bd_graph_states *states, int layer, bool nearest) {
  bd_graph_heap *heap = &states->heap[layer][nearest];
  int top = heap->state[0], last = heap->state[--heap->count], at = 0;
  for (;;) {
    int child = 2 * at + 1;
    if (child >= heap->count) break;
    if (child + 1 < heap->count &&
        before(states, nearest, heap->state[child + 1], heap->state[child]))
      child++;
    if (!before(states, nearest, heap->state[child], last)) break;
    heap->state[at] = heap->state[child];
    at = child;
  }
  heap->state[at] = last;
  return top;
}

int bd_graph_states_pop(bd_graph_states *states, int layer, bool nearest) {
  while (states->heap[layer][nearest].count) {
    int state = pop(states, layer, nearest);
    if (states->state[state].popped) continue;
    states->state[state].popped = true;
    return state;
  }
  return -1;
}

bool bd_graph_states_stale(const bd_graph_states *states, int state) {
  return *find_slot(states, bd_graph_resident(states, state), states->state[state].next) !=
         state + 1;
}

bool bd_graph_states_add(bd_graph_states *states, const bd_graph_state *state,
                         const uint64_t *resident, int layer) {
  if (states->count == states->limit) return false;
  if (states->count == states->capacity) grow_states(states);
  int *slot = find_slot(states, resident, state->next);
  if (*slot && states->state[*slot - 1].spent <= state->spent) return true;
  int now = states->count++;
  states->state[now] = *state;
  memcpy(states->resident + (size_t)now * (size_t)states->words, resident,
         (size_t)states->words * sizeof *resident);
  *slot = now + 1;
  push(states, layer, false, now);
  push(states, layer, true, now);
  return true;
}
