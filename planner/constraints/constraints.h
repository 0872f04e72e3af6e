// What a person asks of a plan: pinned and forbidden degrees, and what a partial plan says of
// layers, ops and values. The search solves the rest.
#ifndef BD_PLANNER_CONSTRAINTS_CONSTRAINTS_H
#define BD_PLANNER_CONSTRAINTS_CONSTRAINTS_H
#include "ir/plan_notes.h"

// The highest ZeRO stage that may be pinned or forbidden.
#define BD_MAX_ZERO 3

// What may be forbidden: a degree (its bd_cut), or one of these.
enum { BD_FORBID_STAGES = BD_CUT_COUNT, BD_FORBID_MICRO_BATCH, BD_FORBID_ZERO, BD_FORBID_NOTHING };

typedef struct bd_forbid {
  const char *words; // as the person wrote it: "tp=8"
  int what;          // a bd_cut or one of the above
  char relation;     // '=', '<' or '>'
  int64_t value;
} bd_forbid;

// What is fixed of the ways to run one function.
typedef struct bd_strategy_pin {
  const char *name, *function;
  bd_loc loc;
  char (*split)[BD_MAX_AXES]; // per op and mesh axis: a letter, '-' or '?' for open
  signed char *balanced;      // per op, whether ranks swap halves of its queries: 0, 1, -1 for open
  signed char *saved;         // per value: 0, 1, or -1 for open
} bd_strategy_pin;

// What is fixed of a range of forward calls of main.
typedef struct bd_layer_pin {
  int first, count;
  int stage, strategy; // -1: open
  bd_loc loc;
} bd_layer_pin;

typedef struct bd_constraints {
  // Degrees of a stage's mesh by what is cut; 0: open. When one is given, the mesh has an axis for
  // each: data (samples, in every op that has them), sequence (tokens, the same), tensor (features,
  // in every matrix product, convolution and attention that has them; tokens in other ops where
  // that pays).
  int degree[BD_CUT_COUNT];
  int forbid_count, forbid_capacity;
  bd_forbid *forbids;
  int strategy_count;
  bd_strategy_pin *strategies;
  int layer_count;
  bd_layer_pin *layers;
} bd_constraints;

// Whether a value is among those that are forbidden.
static inline bool bd_forbid_hits(const bd_forbid *f, int64_t value) {
  if (f->relation == '=') return value == f->value;
  return f->relation == '<' ? value < f->value : value > f->value;
}

static inline bool bd_constraints_have_degrees(const bd_constraints *c) {
  return c && (c->degree[BD_CUT_SAMPLES] || c->degree[BD_CUT_TOKENS] || c->degree[BD_CUT_FEATURES]);
}

// Axes that pinned degrees make a mesh have, at least.
static inline int bd_constraints_degree_axes(const bd_constraints *c) {
  if (!c) return 0;
  return (c->degree[BD_CUT_SAMPLES] > 1) + (c->degree[BD_CUT_TOKENS] > 1) +
         (c->degree[BD_CUT_FEATURES] > 1);
}

// The mesh of a stage of `devices` devices under pinned degrees. Of tensor and data the one that is
// not pinned takes what is left; sequence is 1 unless it is pinned. False when they do not make up
// the devices.
bool bd_constraints_mesh(const bd_constraints *constraints, int devices, bd_mesh *out_mesh);
// Whether that mesh, under pinned degrees, has an axis of features: the last. It may be divided
// into several axes, each of which is one of features then.
bool bd_constraints_has_feature_axis(const bd_constraints *constraints, const bd_mesh *mesh);

// The kinds of cut, a bit per bd_cut, that an axis for one of samples, tokens or features may make.
unsigned bd_constraints_kind_cuts(bd_cut kind);
// The kinds of cut that an axis of the mesh may make, a bit per bd_cut; all where degrees are open.
unsigned bd_constraints_axis_cuts(const bd_constraints *constraints, const bd_mesh *mesh, int axis);

// Whether there may be so many stages. `constraints` may be NULL, here and below.
bool bd_constraints_allow_stages(const bd_constraints *constraints, int stages);
// Whether mesh and micro-batch may go together.
bool bd_constraints_allow_micro_batch(const bd_constraints *constraints, const bd_mesh *mesh,
                                      int64_t micro_batch);

// Whether a weight may be spread over replicas as ZeRO stage `stage` says, 0 to 3, when `pinned` is
// asked for (-1: none is).
bool bd_constraints_allow_zero(const bd_constraints *constraints, int pinned, int stage);
// Whether optimizer states of weights that are not spread further lie in parts where they can.
bool bd_constraints_split_states(const bd_constraints *constraints, int pinned);

// Whether an activation of samples and tokens may have this form.
bool bd_constraints_allow_form(const bd_constraints *constraints, const bd_mesh *mesh,
                               const bd_sharding *form);
// The same of a weight that several calls share, split along its first dimension. Over an axis of
// which degrees want no features it lies in parts on replicas (ZeRO 3), which `pinned`, as in
// bd_constraints_allow_zero, has to allow.
bool bd_constraints_allow_tied(const bd_constraints *constraints, int pinned, const bd_mesh *mesh,
                               const bd_sharding *form);

// Bounds on how many layers run on stages 0 to s, per stage; NULL when no layer's stage is pinned.
void bd_constraints_cuts(bd_ctx *ctx, const bd_constraints *constraints, int stages, int layers,
                         int **out_least, int **out_most);

// Whether a range of layers names the strategy.
bool bd_constraints_name(const bd_constraints *constraints, int strategy);

// The strategy that layer `layer` of function `function` must follow, or NULL: that of the range
// that holds it, else the first of the function that no range names.
const bd_strategy_pin *bd_constraints_pin_of(const bd_constraints *constraints,
                                             const char *function, int layer);
#endif
