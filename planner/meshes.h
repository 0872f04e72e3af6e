// The meshes that a search tries for a stage.
#ifndef BD_PLANNER_MESHES_H
#define BD_PLANNER_MESHES_H
#include "planner/bound/bound.h"

// Meshes of a stage's `devices` devices that the request allows; they live in ctx->arena. Returns
// how many there are.
int bd_meshes_of_stage(bd_ctx *ctx, const bd_scene *scene, int devices, bd_mesh **out_meshes);
#endif
