// A search: its settings are attempted in batches over threads; which ones a batch holds depends on
// what was found before it and on nothing else, so that equal inputs give equal plans.
#ifndef BD_PLANNER_BATCH_H
#define BD_PLANNER_BATCH_H
#include "ir/base/workers.h"
#include "planner/agenda.h"
#include "planner/told/alternatives.h"

enum { BD_BATCH_WEIGHT = 16 }; // a batch ends when it weighs this much; what is bounded weighs 1

// Why a search ended before its space was searched.
typedef enum bd_search_cut { BD_NOT_CUT, BD_CUT_BY_TIME, BD_CUT_BY_USER } bd_search_cut;

typedef struct bd_search {
  bd_ctx *ctx;
  bd_scene scene;
  bd_model_runs runs;
  bd_workers *workers;
  double deadline;
  double wanted_seconds; // plans that take less are looked for; INFINITY: any
  bd_search_cut cut;
  bd_agenda agenda;
  int attempt_count; // of the batch at hand
  bd_attempt attempts[BD_BATCH_WEIGHT];
  bool left_out[BD_BATCH_WEIGHT]; // since the search is over
  bd_plan best;
  bool found;
  bool last;       // no other search follows where nothing fits
  bool shown;      // there is something to show when the time is up
  bool lean;       // any plan that fits will do, the leanest of those that come together
  bd_plan leanest; // of all that do not fit
  int64_t leanest_bytes;
  int solved;
  bd_alternatives alternatives;
} bd_search;

// Whether the search must end now, and why is kept: at once when the user says so, at the time
// limit when it has something to show.
bool bd_search_is_over(bd_search *search);
// Whether the time is up with nothing to show: then the leanest setting that is bounded is tried or
// solved, and the next, until there is something.
bool bd_search_is_late(const bd_search *search);

// What layers may hold of so many bytes of a rank.
int64_t bd_search_for_layers(const bd_search *search, int64_t bytes);

// A plan that is now the one in hand.
void bd_search_take(bd_search *search, const bd_plan *plan);

// Puts the next attempt of an item of the agenda into the batch; returns what it weighs.
int bd_batch_add(bd_search *search, int index);
// Items as `next_of` finds them, -1 being none, until the batch has the weight.
void bd_batch_fill(bd_search *search, int most_weight, int (*next_of)(bd_search *));
// Runs the batch, takes what its attempts found, and empties it.
BD_NODISCARD bd_status bd_batch_run(bd_search *search);
#endif
