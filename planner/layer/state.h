// What a layer keeps between its prices and its candidates: for the files of layers alone.
#ifndef BD_PLANNER_LAYER_STATE_H
#define BD_PLANNER_LAYER_STATE_H
#include "planner/choice/eliminate.h"
#include "planner/layer/holding.h"
#include "planner/layer/problem.h"
#include "planner/layer/workspace.h"

enum { BD_LAYER_RECENT = 64 }; // prices whose points a layer remembers

// The workspace that is charged to a layer.
typedef struct bd_held_workspace {
  int moment;
  double share; // 0: none is
} bd_held_workspace;

// A point that nothing but these changes.
typedef struct bd_priced_point {
  double seconds_weight, bytes_weight;
  int in_flight;
  bd_held_workspace holds;
  bd_layer_point point;
} bd_priced_point;

struct bd_layer {
  const bd_layer_request *request;
  bd_layer_space space;
  bd_choice_problem problem;
  double **tape, **state; // per node and option: bytes of one tape; of weights and the like
  bd_layer_workspace *workspace;
  bd_held_workspace holds;
  double **held; // per node and option: the share of the workspace that is charged; NULL: none
  bd_elimination *elimination;
  bd_layer_point free; // the choice at no price of bytes, of which only the bytes depend on what is
                       // held; no option: not yet known
  int recent_count;    // of all that were, the last of which are remembered, in turn
  bd_priced_point recent[BD_LAYER_RECENT];
  double least_seconds; // of any choice
  double left_out;      // seconds of any choice with options that are not listed, at least
  const bd_layer_holding *holding; // ... which hold no less; where there are such
  double backward_seconds;         // of any choice, at least
  int measured_count, measured_capacity;
  const int **measured;            // options that candidates on lists were made of
  struct bd_made_candidate **made; // all candidates (layer/candidate.c); NULL: none yet
  int polished_count, polished_capacity;
  struct bd_polished *polished; // where polishing began (layer/polish.c)
  bool *filled; // per form: what lies between its corners was looked for; NULL: of none
};

// Readies a layer whose problem is made for being priced.
void bd_layer_set_up(bd_ctx *ctx, bd_layer *layer);

// As bd_layer_price, for every form at once (bd_elimination_choose), never from memory, and for
// options that are listed alone.
bool bd_layer_eliminate(bd_ctx *ctx, bd_layer *layer, double seconds_weight, double bytes_weight,
                        int in_flight, bd_layer_point *out_point);

// Seconds of a micro-batch, with its share of synchronization, without or with ZeRO-1.
double bd_layer_seconds(const bd_layer_request *request, const bd_layer_candidate *candidate,
                        int zero);

// Whether a candidate of the choice was put on a list before; from now on it was. `option` lives as
// long as the layer.
bool bd_layer_was_measured(bd_ctx *ctx, bd_layer *layer, const int *option);

// A choice as a candidate, measured once however often it is asked for; `form` is the option of its
// last node. `option` lives as long as the layer.
BD_NODISCARD bd_status bd_layer_make_candidate(bd_ctx *ctx, bd_layer *layer, int form,
                                               const int *option,
                                               bd_layer_candidate *out_candidate);

// Puts a candidate on the list, and the leaner one of it if there is any; drops what another of its
// form dominates. The list has room for both.
void bd_layer_keep(const bd_layer_request *request, bd_layer_candidate *list, int *count,
                   const bd_layer_candidate *candidate);

// All of that, unless the choice was measured before.
BD_NODISCARD bd_status bd_layer_add_candidate(bd_ctx *ctx, bd_layer *layer, int form,
                                              const int *option, bd_layer_candidate *list,
                                              int *count);
#endif
