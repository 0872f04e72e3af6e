// Prices of a byte, in seconds of a micro-batch, at which stages come to the cap.
//
// Layers that hold no more than the room take, at any price that is not negative, at least the
// least of their seconds and priced bytes together less the priced room (Lagrange). So every price
// gives a bound, whichever stage it was found for; it is the best one where what layers choose at
// it has just about room. Far from there, as where they choose what is leanest whatever it takes,
// it is no more than what they take with all the room they want.
#ifndef BD_PLANNER_BOUND_CUT_PRICES_H
#define BD_PLANNER_BOUND_CUT_PRICES_H
#include "planner/bound/bound.h"

enum {
  BD_CUT_SIZES = 3,  // of stages that prices are looked for
  BD_CUT_ROUNDS = 4, // for each of them
  BD_CUT_PRICES = BD_CUT_SIZES * BD_CUT_ROUNDS,
};

// A stage in an even cut of the chain.
typedef struct bd_cut_stage {
  const int *run_of; // per layer of the model
  int first, layers, in_flight;
  double room; // for what its layers hold, bytes
} bd_cut_stage;

// Prices between those that are too low for the layers to fit and those that are high enough, one
// after another nearer to both (Lagrange); none where all layers fit at their fastest, or never, or
// where one cannot be priced. Writes BD_CUT_ROUNDS at most, the last found last, and returns how
// many.
int bd_cut_prices_of(bd_ctx *ctx, const bd_setting_layers *layers, const bd_cut_stage *stage,
                     double *out_prices);
#endif
