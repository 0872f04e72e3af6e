// A layer as far as it takes to tell that its choices take too long: options whose splits alone
// take too long are never listed, and at one price of a byte, those that alone make every choice
// too dear are dropped before edges are priced.
#ifndef BD_PLANNER_LAYER_SKETCH_H
#define BD_PLANNER_LAYER_SKETCH_H
#include "planner/layer/holding.h"

typedef struct bd_layer_sketch bd_layer_sketch;

// Ops apart. `request` outlives the sketch, which lives in ctx->arena.
BD_NODISCARD bd_status bd_layer_sketch_open(bd_ctx *ctx, const bd_layer_request *request,
                                            bd_layer_sketch **out_sketch);
// The same of a request that differs from that of `like` in its tied form alone; `like` lives as
// long, and was opened by itself or as another one.
void bd_layer_sketch_open_as(bd_ctx *ctx, const bd_layer_request *request,
                             const bd_layer_sketch *like, bd_layer_sketch **out_sketch);
// Seconds that no choice beats, with every op split as suits it best, whatever lies between ops;
// first without, and once they are weighed, with what weights take (planner/layer/apart.h).
double bd_layer_sketch_apart(const bd_layer_sketch *sketch);
void bd_layer_sketch_weigh(bd_layer_sketch *sketch);
// Of these, of backward.
double bd_layer_sketch_backward(const bd_layer_sketch *sketch);
// Lives as long as the sketch.
const bd_layer_holding *bd_layer_sketch_holding(const bd_layer_sketch *sketch);

// Once, when ops are weighed and before what follows: lists options, but for those with which the
// layer takes `enough` seconds or more whatever the others are. From then on these stand for one
// choice that takes no more and holds no more than any of them.
void bd_layer_sketch_list(bd_ctx *ctx, bd_layer_sketch *sketch, double enough);

typedef struct bd_layer_sum {
  double seconds, bytes; // as of bd_layer_point
} bd_layer_sum;

// What every cluster of ops takes and holds as suits it best, whatever lies between clusters: no
// choice has less of seconds_weight * seconds + bytes_weight * bytes. INFINITY seconds: none is
// possible. Once the sketch is priced, for that price alone.
bd_layer_sum bd_layer_sketch_sum(const bd_layer_sketch *sketch, double seconds_weight,
                                 double bytes_weight);

// With what lies between clusters, at a price of a byte in seconds: the least seconds +
// price * bytes of a choice where that is below `enough`; else `enough`, or some other number that
// no choice is below. From then on it is what was found first, for any `enough` and the same price.
double bd_layer_sketch_price(bd_ctx *ctx, bd_layer_sketch *sketch, double price, double enough);

// Opens the layer of a sketch whose ops are weighed, which lives as long, but for options with
// which the layer takes `enough` seconds or more whatever the others are. These stand for one
// choice, as in a sketch: bounds of the layer hold for them, and no candidate has one.
bd_layer *bd_layer_open_below(bd_ctx *ctx, const bd_layer_sketch *sketch, double enough);
#endif
