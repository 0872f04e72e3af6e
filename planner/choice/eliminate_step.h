// Private to elimination: functions of a few nodes' options, and steps that each minimize the sum
// of some of them over one node, which makes another.
#ifndef BD_PLANNER_CHOICE_ELIMINATE_STEP_H
#define BD_PLANNER_CHOICE_ELIMINATE_STEP_H
#include "planner/choice/choice.h"

// Entries of a table, and entries visited to make one, at most.
#define BD_TABLE_LIMIT ((int64_t)1 << 24)
enum { BD_MAX_SCOPE = 12 };

// A node's live options as a factor sees them.
typedef struct bd_view {
  int classes;
  const int *class_of; // per live option
} bd_view;

// A function of a few nodes.
typedef struct bd_factor {
  int scope_count, scope[BD_MAX_SCOPE];
  bd_view views[BD_MAX_SCOPE];
  int64_t stride[BD_MAX_SCOPE];
  double *table;
  bool used;
} bd_factor;

// Entries of its table; where these are too many, some number above the limit.
int64_t bd_factor_size(const bd_factor *factor);
void bd_factor_set_strides(bd_factor *factor);
// The place of a node in the scope, or -1.
int bd_factor_position(const bd_factor *factor, int node);

// The classes of `count` options that some of the views tell apart.
bd_view bd_view_join(bd_arena *arena, bd_arena *scratch, int count, int view_count,
                     const bd_view *const *views);

// The node's classes for one assignment of all neighbours but the last, likely ones first.
typedef struct bd_ranking {
  int count;      // a multiple of BD_LANES: filled up with what is never best
  int *order;     // classes, where those that can be best come first
  double *key;    // of these: no entry of theirs is less
  double *sum;    // of these: the factors that the last neighbour does not change
  double *floor;  // per BD_LANES of them: the least key from there on
  int64_t **from; // per factor that it does change, and of these: entries into its row
} bd_ranking;
enum { BD_LANES = 4 };

static inline int bd_ranking_room(int classes) {
  return (classes + BD_LANES - 1) / BD_LANES * BD_LANES;
}

// Of a node whose elimination would visit too many entries there are several steps, one after
// another, each with a share of its factors; the first has the node's own costs.
typedef struct bd_step {
  int node, options; // its live ones
  bool first;
  int factor_count;
  bd_factor **factors;
  bd_view own;                // of the node, as all its factors see it
  int64_t **own_offset;       // per factor and own class: entries into the factor's table
  int64_t ***offset;          // per factor, node of the message's scope, and class of it
  bd_factor *message;         // over the neighbours
  double *value;              // per own class: of its cheapest option
  int *cheapest;              // per own class: that option's place among the live ones
  int seeing_count;           // factors that see the last neighbour
  int *seeing, *blind;        // those, and the others
  double **least;             // per factor that does, and own class: the least of its entries
  double *sum;                // per own class: its value and the factors that do not
  const double **base, **row; // per factor that sees the last neighbour: entries for the others
                              // assigned, and for the last as well
  bd_ranking ranking;
} bd_step;

// Lays out the step of `node` that minimizes `factors`, which see the nodes of `scope` as well.
// `live_count`: per node. False when the message would be too large.
bool bd_step_init(bd_step *step, bd_arena *arena, bd_arena *scratch, const int *live_count,
                  int node, int factor_count, bd_factor **factors, const bd_factor *scope,
                  bd_factor *message);

// Fills the message; `value[option]` is the node's own, per live option, or NULL: nothing.
void bd_step_run(bd_step *step, const double *value);

// The node's best class for one assignment of its neighbours' classes, and its value.
int bd_step_best_class(const bd_step *step, const int *assigned, double *out_least);

// Adds to total[option], per live option of the node, the factors under an assignment.
void bd_step_add(const bd_step *step, const int *assigned, double *total);
#endif
