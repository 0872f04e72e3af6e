// The settings of a search with what they are bounded by so far, and whose turn it is.
#ifndef BD_PLANNER_AGENDA_H
#define BD_PLANNER_AGENDA_H
#include "planner/attempt.h"

// What an item has been bounded by, and whether it was tried as well; each is dearer than the one
// before.
typedef enum bd_bound_kind {
  BD_BOUND_WORK,
  BD_BOUND_APART,
  BD_BOUND_SKETCH,
  BD_BOUND_LAYERS,
  BD_BOUND_ROOM,
  BD_BOUND_TRIED, // as before, and tried
  BD_BOUND_DONE
} bd_bound_kind;

// A setting and what no plan of it can beat. Until its layers are bounded it stands for all tied
// forms.
typedef struct bd_item {
  bd_bounded of;
  bd_bound_kind kind;
  int batched; // as an attempt of the batch at hand; -1: it is not
  bool tried;  // there is a plan of it, or none was found at once
} bd_item;

typedef struct bd_agenda {
  bd_ctx *ctx; // items live in its arena
  const bd_scene *scene;
  int item_count, item_capacity;
  bd_item *items;      // the first `settings` of them by their work
  int settings;        // of the space
  int bounded;         // of these, by their layers
  double best_seconds; // of the plan in hand; INFINITY: there is none
  bool tries;          // settings that may gain much are tried before they are solved
  int usual;           // where the look for usual settings stands
  int next_dive;       // settings bounded when the next one is tried out of turn
} bd_agenda;

// Fills the agenda with every degree, mesh and micro-batch that the request allows, bounded by its
// work. `lean`: any plan will do, so that none is tried. `scene` outlives it; items live in
// ctx->arena. Errors: those of bd_scene_read_work.
BD_NODISCARD bd_status bd_agenda_open(bd_ctx *ctx, const bd_scene *scene, bool lean,
                                      bd_agenda *out_agenda);

// Whether settings differ in their tied form alone, if at all.
bool bd_setting_same(const bd_setting *a, const bd_setting *b);

// Whether the item may have a plan that is faster than the best by more than a little.
bool bd_agenda_may_gain_much(const bd_agenda *agenda, const bd_item *item);

// Whether what comes next of an item whose layers are bounded is to try it: it may gain much. What
// the plan that is found leaves open is bounded within its memory then.
bool bd_agenda_tries_next(const bd_agenda *agenda, const bd_item *item);

// Whether what comes next of an item is to solve it.
bool bd_agenda_solves_next(const bd_agenda *agenda, const bd_item *item);

// The item to attempt next, which is not in the batch at hand; -1: there is none that may have a
// better plan than the best, or all of those wait for what the batch finds.
int bd_agenda_turn(bd_agenda *agenda);

// The item of the least bytes whose layers are bounded; -1: there is none.
int bd_agenda_leanest(const bd_agenda *agenda);

// Puts an item into the batch at hand as its attempt number `attempt`, with those that differ from
// it in the tied form alone and may still have a plan that is wanted, the least bound first: they
// are `*out_tied`, in ctx->arena. Where the item cannot fit (its bound is INFINITY), those go with
// it whose bytes are below `most_bytes`; 0: all do. Returns how many there are.
int bd_agenda_batch(bd_agenda *agenda, int item, int attempt, int64_t most_bytes,
                    const bd_bounded **out_tied);

// Takes what an attempt of the batch found. `left_out`: it was not run, and bounds stand.
void bd_agenda_take(bd_agenda *agenda, const bd_attempt *found, int attempt, bool left_out);

// Takes over what `before`, of the same settings under another cap, bounded of bytes, so that
// layers are not bounded for that again: for searches that do not ask how fast plans are. What
// holds more than the cap is done with.
void bd_agenda_take_bytes(bd_agenda *agenda, const bd_agenda *before);

// What no plan of the space beats, searched or not.
double bd_agenda_bound(const bd_agenda *agenda);
#endif
