// What no plan of a setting beats within its memory.
#ifndef BD_PLANNER_BOUND_ROOM_H
#define BD_PLANNER_BOUND_ROOM_H
#include "planner/bound/bound.h"

// Sums over layers at one price of a byte, and what they chose, each for itself.
typedef struct bd_priced {
  double seconds, bytes;
  double value;           // no forms of all layers, with what changes between them, have less
  bd_layer_point *points; // per run: of one layer
  const double **of_form; // per run: of these
} bd_priced;

// False when a layer is not possible.
bool bd_price_layers(bd_ctx *ctx, const bd_scene *scene, const bd_setting_layers *layers,
                     double seconds_weight, double bytes_weight, bd_priced *out_priced);

// What the layers of all stages may hold, beside shared weights and the least of workspaces; the
// layers are open or sketched.
double bd_room_for_layers(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                          const bd_setting_layers *layers);

typedef struct bd_room {
  double seconds; // the layers of a micro-batch take no less together; INFINITY: they do not fit
  double step_seconds; // a step takes no less; 0: no more is known than `seconds` tells
  double bytes;        // the fullest stage holds no less
  bd_byte_price price;
  bool tight; // nothing more can be found
} bd_room;

// From sums of bytes over all stages. `fastest`: at no price. With `enough` 0 nothing is priced;
// bounds of `enough` seconds or more are not improved. `price`: a first guess of it, or 0.
bd_room bd_room_of_sums(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                        const bd_setting_layers *layers, const bd_priced *fastest, double enough,
                        bd_byte_price price);

// A moment of the layers of a run and of those like them.
typedef struct bd_room_moment {
  int run, at;
  double bytes;
} bd_room_moment;

// What was found for layers that are nearly the same, to begin with; 0: nothing.
typedef struct bd_room_hint {
  bd_byte_price price;
  double cut_price; // that prices of stages are multiples of
  bool charged;     // a moment
  bd_room_moment moment;
} bd_room_hint;

// With workspaces, and stage by stage. The workspace of a stage is as large as at the fullest
// moment of any of its layers: some moments are charged, which those are is found from what layers
// choose. With `enough` 0 bytes alone are looked for, and whether all fits. `hint` becomes what was
// found.
bd_room bd_room_of_stages(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                          const bd_setting_layers *layers, const bd_priced *fastest, double enough,
                          bd_room_hint *hint);
#endif
