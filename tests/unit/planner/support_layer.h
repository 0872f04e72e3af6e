// Layer problems of real functions, on small meshes.
#ifndef TESTS_UNIT_PLANNER_SUPPORT_LAYER_H
#define TESTS_UNIT_PLANNER_SUPPORT_LAYER_H
#include "planner/layer/layer.h"

// The train module of a model, small where it is of text.
bd_module *layer_train(bd_ctx *ctx, const char *model);

typedef void (*layer_visit)(bd_ctx *ctx, const bd_layer_request *request);

// The problems of every run of a model's layers, with every tied form, on every mesh. `in_parts`:
// products are done in parts, and small ones pay, as nothing takes time to start.
void layer_visit_model(const char *model, const char *preset, int recompute, bool in_parts,
                       layer_visit visit);
// The same in parts and in fp8, on devices where 8 bits pay for some of the products.
void layer_visit_fp8(const char *model, const char *preset, int recompute, layer_visit visit);
#endif
