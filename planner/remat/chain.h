// Optimal recomputation of chains: which values to keep in memory while a chain of layers runs
// forward and backward, when a value may be computed more than twice.
//
// Source: Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova, "Optimal checkpointing for
// heterogeneous chains: how to train deep neural networks with limited memory", Inria RR-9302
// (2019), section 4: the dynamic program over (first layer, last layer, memory) for persistent
// schedules.
#ifndef BD_PLANNER_REMAT_CHAIN_H
#define BD_PLANNER_REMAT_CHAIN_H
#include "planner/remat/answer.h"

enum { BD_CHAIN_MAX_LAYERS = 1024 };
#define BD_CHAIN_MAX_SLOTS INT64_C(1000000000000)

// Sizes are in slots. Value i is the input of layer i, value 0 lies outside the budget. Gradients
// are as large as their values. The last layer is the loss: it takes no time, keeps no tape, and
// has an output of no size.
typedef struct bd_chain {
  int layers;                 // the loss included
  double *forward, *backward; // time per layer
  int64_t *value;             // layers + 1
  int64_t *tape;              // per layer: what a forward that saves all keeps, its output included
} bd_chain;

typedef enum bd_chain_step {
  BD_CHAIN_FORWARD,  // computes the layer's output and keeps nothing else
  BD_CHAIN_SAVE,     // computes the layer's output and its tape
  BD_CHAIN_BACKWARD, // takes tape, input and the output's gradient to the input's; frees the tape
  BD_CHAIN_DROP,     // frees the layer's input
  BD_CHAIN_LOSS,     // takes the input of the loss to its gradient
} bd_chain_step;
extern const char *const bd_chain_words[];

// Errors: BD_INVALID with place.
BD_NODISCARD bd_status bd_chain_read(bd_ctx *ctx, const char *file, const char *data, size_t bytes,
                                     bd_chain *out_chain);

// The time of all layers when nothing is computed twice.
double bd_chain_base(const bd_chain *chain);
// The fewest slots with which the dynamic program has a schedule.
int64_t bd_chain_smallest_budget(bd_ctx *ctx, const bd_chain *chain);

// The cheapest sequence within `budget` slots; steps, cost and bound of `*out` are set. The dynamic
// program takes about layers^3 * slots / 6 operations; where that is more than `limit_seconds`, of
// wall time, or the memory for its table allow, slots are counted in larger units, halved as long
// as time is left: sizes rounded up give the sequence, sizes rounded down the bound. `cut` and
// `grain` tell. Ended by `stop` (NULL: nobody does), it gives what it has. Errors: BD_INFEASIBLE
// without a diagnostic.
BD_NODISCARD bd_status bd_chain_solve(bd_ctx *ctx, const bd_chain *chain, int64_t budget,
                                      double limit_seconds, const volatile sig_atomic_t *stop,
                                      bd_remat_answer *out);

// Executes the steps, knowing nothing of how they were found: that every step has what it needs,
// that nothing is left over, what it costs and how many slots are taken at most. A gradient takes
// the place of its value in the tape that holds it. Errors: BD_INTERNAL on a wrong sequence.
BD_NODISCARD bd_status bd_chain_replay(bd_ctx *ctx, const bd_chain *chain,
                                       const bd_remat_steps *steps, double *out_cost,
                                       int64_t *out_peak);
#endif
