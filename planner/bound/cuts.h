// What no plan of several stages beats within the memory of every one of them.
#ifndef BD_PLANNER_BOUND_CUTS_H
#define BD_PLANNER_BOUND_CUTS_H
#include "planner/bound/bound.h"

// The layers of a micro-batch take no less together, and so many bytes are on the fullest stage at
// least, however the chain of layers is cut into the setting's stages. INFINITY seconds: no cut
// fits. Each stage has tapes for its micro-batches in flight, the fixed part of the largest
// workspace, and shared weights once; the layers that may be on it are priced at what
// planner/bound/cut_prices.h finds for stages of an even cut, and where that is little at multiples
// of `price`, seconds a byte, as well; the best price bounds them. Workspaces that choices add are
// looked at where that does not come to `enough` seconds; with `enough` 0 always, and seconds that
// are not infinite are 0: bytes alone are looked for.
typedef struct bd_cuts_bound {
  double seconds, bytes;
  double step_seconds; // a step takes no less, messages and all; 0: that is not known
} bd_cuts_bound;

bd_cuts_bound bd_bound_cuts(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                            const bd_setting_layers *layers, double price, double enough);
#endif
