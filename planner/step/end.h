// Seconds of what runtime/update.c does once a step, read off the program.
#ifndef BD_PLANNER_STEP_END_H
#define BD_PLANNER_STEP_END_H
#include "ir/layout.h"
#include "planner/cost/cost.h"

// What GPUs sum and gather as one group of collectives: BD_RT_BUCKET_BYTES of
// runtime/braid_rt_abi.h, which a test compares.
#define BD_STEP_BUCKET_BYTES (32 << 20)

typedef struct bd_step_end {
  double reduce; // gradients become whole sums, but for what is hidden (planner/step/behind.h), and
                 // their norm is taken
  double update; // weights change, and whole copies of those updated in parts are made, but for
                 // what is hidden; accumulators are cleared
  double collective[BD_MAX_AXES]; // of both, by mesh axis
} bd_step_end;

// Of one rank of the layout's stage; ties between stages are apart.
BD_NODISCARD bd_status bd_step_end_of_stage(bd_ctx *ctx, const bd_cost_model *model,
                                            const bd_module *spmd, const bd_layout *layout,
                                            const char *optimizer, unsigned zero_axes,
                                            bd_step_end *out_seconds);

// What one use of a weight has of bd_step_end_of_stage, in seconds. Of several uses on a stage each
// has an accumulator of its own; the rest is done once for all of them.
typedef struct bd_weight_end {
  double each;  // the accumulator is cleared and summed over ranks
  double once;  // the norm, the update, and what makes whole copies of what was updated in parts
  double join;  // of each further use on the stage: its sum is added to that of the first
  double apply; // of `each` and `once`: what bd_step_end counts as the update
} bd_weight_end;

// `gradient` is what backward adds to the accumulator; of it and of `weight` only the types and
// shardings count. `product` as of bd_step_behind. `read_once`: one forward call alone takes the
// weight, and no collective in it does: what is gathered of its flat parts is hidden as
// bd_step_behind_forward says.
bd_weight_end bd_step_end_of_weight(const bd_cost_model *model, const char *optimizer,
                                    bd_masters masters, const bd_value *weight,
                                    const bd_value *gradient, unsigned zero_axes, double product,
                                    bool read_once);

// A weight that several stages hold, whether its gradients are made on all of them or not: their
// sums go from each of the stages to the next one, and back.
typedef struct bd_tie {
  int weight, from, to; // stages; from < to
  double bytes;         // of a rank's gradient
} bd_tie;
// In the order of the weights, then of the stages. Lives in ctx->arena.
void bd_step_end_ties(bd_ctx *ctx, const bd_cost_model *model, const bd_module *spmd,
                      const bd_tie **out_ties, int *out_count);

// Seconds in which a stage is busy with the weights that it shares with others, or waits for them:
// there and back, and at each end what is loaded, added and stored.
double bd_step_end_tie_seconds(const bd_cost_model *model, int stage, int tie_count,
                               const bd_tie *ties);
#endif
