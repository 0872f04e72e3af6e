// Options for the stages of a plan that keep to the caps: the fastest under a price of a byte, the
// least that does (Lagrange; Everett, Operations Research 11, 1963).
#ifndef BD_PLANNER_GRAPH_FIT_H
#define BD_PLANNER_GRAPH_FIT_H
#include "planner/graph/plan.h"

// About how often fitting a stage looks at each of its layers.
enum { BD_LAYERS_FIT_ROUNDS = 24 };

typedef struct bd_layers_fit {
  const bd_layers_setting *setting;
  // Per stage: what a second of each criterion and of sync counts where options are compared.
  const bd_layers_criteria *weight;
  const double *sync_weight;
  bd_layers_plan plan; // the caller's to change
  int *first;          // per part, and one more: its first layer; see bd_layers_fit_parts
} bd_layers_fit;

// Weights under which an option counts what it adds to a step if its stage is the slowest. The
// setting is set; they live in ctx->arena.
void bd_layers_fit_weigh(bd_ctx *ctx, bd_layers_fit *fit);

// `out_fit` has its first three members set. Lives in ctx->arena.
void bd_layers_fit_open(bd_ctx *ctx, bd_layers_fit *out_fit);
// Reads `first` off the plan.
void bd_layers_fit_parts(bd_layers_fit *fit);

// Seconds of an option of the layer, weighed as on its stage.
double bd_layers_fit_seconds(const bd_layers_fit *fit, int layer, int option);
// Gives the layer the best option of a form on its stage, under a price of a byte in seconds;
// false: it has none.
bool bd_layers_fit_choose(bd_layers_fit *fit, int layer, int form, double price);
// Whether the stage keeps to its cap.
bool bd_layers_fit_holds(const bd_layers_fit *fit, int stage);
// Gives every layer of the stage its fastest option of the form that it has, or where these exceed
// the cap, those under the least price that keeps to it, and faster ones where room is left. False:
// none was found; the options are then any.
bool bd_layers_fit_stage(bd_layers_fit *fit, int stage);
#endif
