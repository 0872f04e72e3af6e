// Layer strategies: for one function on one mesh, the Pareto front between time and bytes.
#ifndef BD_PLANNER_LAYER_LAYER_H
#define BD_PLANNER_LAYER_LAYER_H
#include "ir/partition.h"
#include "planner/constraints/constraints.h"
#include "planner/cost/cost.h"
#include "planner/solver.h"

// How calls use a weight.
typedef struct bd_weight_use {
  int calls;  // that use it; more than one: it is tied. 0: no weight
  bool whole; // too small for ranks to store parts of it where it is tied
  // Of a tied weight: what part of that which a stage does once a step for all its calls that use
  // the weight falls to one of them, so that those of all calls are no more than what is done; on
  // one stage, and where there are several.
  double share[2];
} bd_weight_use;

typedef struct bd_layer_request {
  bd_solver_kind solver;
  const bd_module *train;
  bd_cost_model cost;
  const bd_function *function;      // forward
  const bd_weight_use *weight_uses; // per parameter: of the weight that it stands for
  // Activations enter and leave a layer in one of these forms (dimensions a value lacks are
  // dropped); weights that several calls share are stored in `tied_form`, or whole.
  int form_count;
  const bd_sharding *forms;
  bd_sharding tied_form;
  int stages;
  // Of a step: its micro-batches, and those that fill and drain the pipeline. 0: what a step does
  // once counts nothing; such a layer is only priced.
  int passes;
  const char *optimizer;
  bd_masters masters;
  bd_gradients gradients;
  int zero;      // as bd_plan_request; when it is open, states may be split over all ranks
  int recompute; // as bd_plan_request
  bool aside;    // kept values may lie in the host's memory, which no program does
  // What a person asks of the layer; NULL: nothing.
  const bd_constraints *constraints;
  const bd_strategy_pin *pin;
  int64_t sequence; // tokens of a sample
  // Queries of attention and positions are split where constraints or the pin say so, and else not
  // (bd_space_cuts_queries).
  bool whole_queries;
} bd_layer_request;

typedef struct bd_layer_candidate {
  bool in_order; // ranks keep parts of queries as they are, though to swap halves may be faster
  // The same in order, where that needs less workspace; NULL: it does not, or there is no other.
  const struct bd_layer_candidate *leaner;
  int form;          // in which activations enter and leave
  const int *option; // per node of the layer's choice problem; NULL: not known
  bd_strategy strategy;
  // Read off the spmd functions of the strategy.
  double forward_seconds, backward_seconds;
  double sync_seconds[2];             // gradients and update, once a step, as optimizer_bytes
  double apply_seconds[2];            // of these, the update, which all stages begin together
  int64_t tape_bytes, boundary_bytes; // per micro-batch in flight
  int64_t weight_bytes, gradient_bytes;
  int64_t passing_bytes;      // gradients of activations that backward hands back, once
  int64_t optimizer_bytes[2]; // without and with ZeRO-1 over the axes that replicate each weight
  int64_t workspace_bytes;
  double proven_seconds; // a lower bound on forward + backward + sync/passes of any strategy
} bd_layer_candidate;

// A layer as a problem that can be priced again and again.
typedef struct bd_layer bd_layer;

// A choice for every op of a layer.
typedef struct bd_layer_point {
  int *option;
  double seconds; // never more than what the lowered functions take: forward + backward +
                  // synchronization/passes
  double bytes;   // never more than what the arena holds: weights, gradients, optimizer, one tape,
                  // results
  double least; // no choice has a smaller weighted sum; that of this one, but for layers too large
                // to be solved exactly. There, `seconds` or `bytes`, where they alone have a
                // weight, are the least as well
  const double *of_form; // the same with each form in which activations enter and leave
} bd_layer_point;

// `request` outlives the layer, which lives in ctx->arena. `like` NULL, or a layer of a request
// that differs in its tied form alone and lives as long: what is known of its ops is taken from
// there.
BD_NODISCARD bd_status bd_layer_open(bd_ctx *ctx, const bd_layer_request *request,
                                     const bd_layer *like, bd_layer **out_layer);

// The choice that minimizes seconds_weight * seconds + bytes_weight * bytes over all forms. False
// when no form can be met. Tapes weigh as if `in_flight` micro-batches were held, what is handed on
// as if one was.
bool bd_layer_price(bd_ctx *ctx, bd_layer *layer, double seconds_weight, double bytes_weight,
                    int in_flight, bd_layer_point *out_point);

// No choice takes less in backward.
double bd_layer_backward_seconds(const bd_layer *layer);

// No choice holds fewer bytes.
double bd_layer_least_bytes(const bd_layer *layer);

// The least that the workspace holds under a choice, and at which moment
// (planner/layer/workspace.h); what it holds under every choice.
double bd_layer_workspace_of(const bd_layer *layer, const int *option, int *out_moment);
double bd_layer_fixed_workspace(const bd_layer *layer);

// From now on, prices charge this share of the workspace at a moment as bytes; 0: none of it.
void bd_layer_hold_workspace(bd_ctx *ctx, bd_layer *layer, int moment, double share);

// Candidates of every form: the corners of the trade between seconds and bytes; what another of its
// form dominates is dropped. They live in `ctx->session`; `in_flight` as above. `price`:
// seconds of a micro-batch that a byte is thought to be worth; what is best around it is among
// them.
BD_NODISCARD bd_status bd_layer_candidates(bd_ctx *ctx, bd_layer *layer, int in_flight,
                                           double price, bd_layer_candidate **out_candidates,
                                           int *out_count);

// Adds to the candidates of bd_layer_candidates what is best at `price` in each of their forms,
// with and without a share of the workspace, which so many `layers` have in common. `*out_new`:
// some of it was not looked at before.
BD_NODISCARD bd_status bd_layer_reprice(bd_ctx *ctx, bd_layer *layer, int in_flight, double price,
                                        int layers, bd_layer_candidate **candidates, int *count,
                                        bool *out_new);

// Adds what integer programs find between the fastest and the leanest candidate of the form of
// `used`, once, on small layers (bd_choice_is_small). Several layers can mix the corners, so that
// these pay where a model has few. `*out_new`: as above.
BD_NODISCARD bd_status bd_layer_fill_between(bd_ctx *ctx, bd_layer *layer,
                                             const bd_layer_candidate *used,
                                             bd_layer_candidate **candidates, int *count,
                                             bool *out_new);

// The stage that a layer is for.
typedef struct bd_layer_stage {
  int in_flight; // micro-batches
  int layers;    // that share its workspace
  int zero;      // 1: optimizer states lie in parts
  double price;  // of a byte, in seconds of a micro-batch
} bd_layer_stage;

// Goes from a candidate to ones that are better for the stage when they are measured, which costs
// of options only bound, and adds those it comes by. At a time, a cluster keeps more or fewer
// values for backward, or with `others`, becomes what looks best of all else. `*out_new`: as above.
BD_NODISCARD bd_status bd_layer_polish(bd_ctx *ctx, bd_layer *layer, const bd_layer_stage *stage,
                                       bool others, const bd_layer_candidate *from,
                                       bd_layer_candidate **candidates, int *count, bool *out_new);

// Lowers the candidate's strategy and fills in what its functions take and hold; the numbers of
// `candidate` are 0.
BD_NODISCARD bd_status bd_layer_measure(bd_ctx *ctx, const bd_layer_request *request,
                                        bd_layer_candidate *candidate);

// The backward function of a forward one; empty where the loss depends on nothing that it computes
// from (it holds no weights and reads inputs alone). Lives as long as the module, or always.
const bd_function *bd_layer_backward(const bd_module *train, const bd_function *forward);

// Whether a backward function makes a gradient of the forward one's parameter.
bool bd_layer_learns(const bd_function *backward, int param);
#endif
