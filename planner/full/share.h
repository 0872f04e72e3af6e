// What a stage's share of the layers takes at least within its cap, by prices of a byte. Numbers
// alone.
#ifndef BD_PLANNER_FULL_SHARE_H
#define BD_PLANNER_FULL_SHARE_H
#include "ir/base/context.h"
#include "ir/schedule.h"

// Layers of which each kind is alike. A share has some of every kind; shares are numbered, the
// empty one 0, so that the number of a sum is the sum of the numbers.
typedef struct bd_kinds {
  int count;
  const int *calls; // per kind: its layers
} bd_kinds;

// INT64_MAX: too many to tell.
int64_t bd_share_count(const bd_kinds *kinds);

// The layers of the next share, from those of the one before it; at first 0 of every kind.
void bd_share_next(const bd_kinds *kinds, int *share);

// Per share: whether the last stages of a pipeline may have it. With one chunk they have the last
// layers; with several at least the last one, and but for all of them not the first. `kind_of`: of
// each layer. Lives in ctx->arena.
bool *bd_share_ends(bd_ctx *ctx, const bd_kinds *kinds, int layers, const int *kind_of, int chunks);

// Per share: whether it has the first or the last layer of those kinds for sure. Lives in
// ctx->arena.
bool *bd_share_tied(bd_ctx *ctx, const bd_kinds *kinds, int first_kind, int last_kind);

// Whole micro-batches whose tapes a stage holds at its fullest, at least, what delayed weight
// passes wait for included, with `behind` stages behind it or more, up to `most_behind`. A chunk's
// tape is that part of a whole one; as all are as large as the largest, they are at least as large
// as the mean.
double bd_share_tapes(bd_schedule schedule, int behind, int most_behind, int least_stages,
                      int chunks, int micro_batches);

// Layers on one mesh, at prices of a byte for levels of tapes: 1, 2, 4 and so on.
typedef struct bd_share_prices {
  int kinds, levels, count; // prices at each level, of which the first is 0
  bool tight;               // some stage of interest is short of room
  double *price;            // [level][price]: seconds of a micro-batch
  // [level][price][kind]: the least of seconds and priced bytes of a layer; the same for prices
  // that are equal.
  double *least;
  double *bytes;     // [level][kind]: no choice holds less
  double *workspace; // [kind]: a stage with such a layer has so many bytes once
  // Weights that layers share: a stage holds `once` where some layer of it uses the weight, and
  // `each` for every use.
  int weights;
  double *once, *each; // [weight]
  int *uses;           // [weight][kind]: of a layer, at least
} bd_share_prices;

// Lowers `seconds`, per share, to what a stage with so many tapes takes at least of a micro-batch
// on this mesh; it does not change where the share has no room, or the `least` that is known of it
// is `limit` or more. Between two levels, prices of both mix: the least under mixed weights of
// seconds, states and tapes is no less than the mix of the least under each (it is concave in the
// weights).
void bd_share_floor(bd_ctx *ctx, const bd_kinds *kinds, const bd_share_prices *prices, double tapes,
                    double cap_bytes, const double *least, double limit, double *seconds);
#endif
