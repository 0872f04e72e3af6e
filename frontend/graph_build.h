// What the model builders share: ops with readable names, and layers whose weights have a pattern.
// A builder remembers its first failure; later calls do nothing, and `finish` reports it.
#ifndef BD_FRONTEND_GRAPH_BUILD_H
#define BD_FRONTEND_GRAPH_BUILD_H
#include "ir/module.h"

typedef struct bd_graph_build {
  bd_ctx *ctx;
  bd_module *module;
  bd_function *function; // the one that ops are appended to
  bd_loc loc;            // of the model, for ops and diagnostics
  bd_status status;
} bd_graph_build;

// One weight of a layer. The weight's name is the layer's prefix and `name`; the stored name is the
// layer's stored prefix and `storage.name`.
typedef struct bd_weight_pattern {
  const char *name;
  bd_type type;
  bd_storage storage;
  bd_init_kind init;
  double init_scale;
} bd_weight_pattern;

// A vector, stored as it is used.
bd_weight_pattern bd_graph_vector(const char *name, const char *stored, bd_init_kind init,
                                  int64_t extent);

#define BD_MAX_LAYER_WEIGHTS 24

typedef struct bd_layer {
  bd_function *function; // parameters: activations, then the weights in the order of `weights`
  int weight_count;
  bd_weight_pattern weights[BD_MAX_LAYER_WEIGHTS];
} bd_layer;

bd_graph_build bd_graph_begin(bd_ctx *ctx, const char *name, bd_loc loc);

// An input of main. Inputs come before weights. The id is main's.
bd_id bd_graph_input(bd_graph_build *build, const char *name, bd_input_kind kind, bd_type type);

// A weight and main's parameter for it. Weight decay applies to stored matrices.
bd_id bd_graph_weight(bd_graph_build *build, bd_weight weight);

// Makes `name` the function that ops are appended to.
bd_function *bd_graph_function(bd_graph_build *build, const char *name);
bd_id bd_graph_param(bd_graph_build *build, const char *name, bd_type type, bool is_weight);
void bd_graph_result(bd_graph_build *build, bd_id value);

// Adds a weight to the layer's pattern and the parameter for it to the current function.
bd_id bd_graph_layer_weight(bd_graph_build *build, bd_layer *layer, bd_weight_pattern pattern);

// The first result, called `name`; further results are called `name.1`, `name.2`.
bd_id bd_graph_op(bd_graph_build *build, const char *name, bd_op_kind kind, int in_count,
                  const bd_id *in, int attr_count, const bd_attr *attrs);
bd_id bd_graph_unary(bd_graph_build *build, const char *name, bd_op_kind kind, bd_id x);
bd_id bd_graph_binary(bd_graph_build *build, const char *name, bd_op_kind kind, bd_id x, bd_id y);
bd_id bd_graph_contract(bd_graph_build *build, const char *name, const char *rule, bd_id x,
                        bd_id y);
// x repeated to `type`, whose new dimensions are the letters that `rule`, "AB->ABC", adds.
bd_id bd_graph_repeat(bd_graph_build *build, const char *name, bd_id x, const char *rule,
                      const bd_type *type);
// The sum over the letters that are missing on the right of `rule`.
bd_id bd_graph_sum(bd_graph_build *build, const char *name, bd_id x, const char *rule);
bd_id bd_graph_permute(bd_graph_build *build, const char *name, bd_id x, const char *rule);
// A tensor of `type`, one value everywhere.
bd_id bd_graph_fill(bd_graph_build *build, const char *name, const bd_type *type, double value);
bd_id bd_graph_cast(bd_graph_build *build, const char *name, bd_id x, bd_dtype dtype);
bd_id bd_graph_select(bd_graph_build *build, const char *name, bd_id condition, bd_id x, bd_id y);
// `x` itself when p is 0.
bd_id bd_graph_dropout(bd_graph_build *build, const char *name, bd_id x, double p, int site);

// The layer's weights for one call: main's parameters, into `out` (weight_count of them).
void bd_graph_instantiate(bd_graph_build *build, const bd_layer *layer, const char *prefix,
                          const char *stored_prefix, bd_id *out);

// A call in main; `out_name` names its first result, which is returned; further results, whose ids
// follow, are called `out_name`.1, `out_name`.2.
bd_id bd_graph_call(bd_graph_build *build, const bd_function *callee, int in_count, const bd_id *in,
                    const char *out_name);

// The module; its loss is main's value `loss`.
BD_NODISCARD bd_status bd_graph_finish(bd_graph_build *build, bd_id loss, bd_module **out_module);
#endif
