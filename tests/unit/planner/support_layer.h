// Layer problems of real functions, on small meshes.
#ifndef TESTS_UNIT_PLANNER_SUPPORT_LAYER_H
#define TESTS_UNIT_PLANNER_SUPPORT_LAYER_H
#include "planner/layer/layer.h"

// The train module of a model, small where it is of text.
bd_module *layer_train(bd_ctx *ctx, const char *model);

typedef void (*layer_visit)(bd_ctx *ctx, const bd_layer_request *request);

// Bytes per second of links with which nothing takes time to start, so that products in parts and
// sums of gradients behind backward pay where they are small; 0: the preset as it is.
enum { AS_IT_IS = 0, IN_PARTS = 50000000 }; // in thousands

// The problems of every run of a model's layers, with every tied form, on every mesh.
void layer_visit_model(const char *model, const char *preset, int recompute, int link_rate,
                       layer_visit visit);
// The same in parts and in fp8, on devices where 8 bits pay for some of the products.
void layer_visit_fp8(const char *model, const char *preset, int recompute, layer_visit visit);
#endif
