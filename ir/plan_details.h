// What a plan's seconds and bytes are made of, and what was tried beside it: for readers of the
// plan file. Written by the planner, read by `braid explain`; nothing else goes by it.
#ifndef BD_IR_PLAN_DETAILS_H
#define BD_IR_PLAN_DETAILS_H
#include "ir/base/json.h"
#include "ir/base/text.h"
#include "ir/module.h"

typedef enum bd_traffic {
  BD_TRAFFIC_ALL_REDUCE,
  BD_TRAFFIC_ALL_GATHER,
  BD_TRAFFIC_REDUCE_SCATTER,
  BD_TRAFFIC_ALL_TO_ALL,
  BD_TRAFFIC_MIRROR,
  BD_TRAFFIC_SEND,
  BD_TRAFFIC_RECEIVE,
  BD_TRAFFIC_COUNT
} bd_traffic;
const char *bd_traffic_name(bd_traffic traffic); // "all-reduce"

// Bytes of a rank under one name: `count` tensors alike, on as many layers and micro-batches.
typedef struct bd_tenant {
  const char *name; // "h.0.mlp.c_fc.weight", "block.0: gelu"
  bd_segment segment;
  int64_t bytes; // of all of them
  int count;
} bd_tenant;

// One stage. Seconds and flops are those of one rank and one micro-batch, forward and backward,
// unless they are said to be of a step.
typedef struct bd_stage_details {
  double compute_seconds;   // kernels and library calls; with `traffic` and `aside`, both passes
  double recompute_seconds; // of them, running again what the tape does not keep
  double aside_seconds;     // values that are compressed or offloaded, and brought back
  double traffic_seconds[BD_TRAFFIC_COUNT][BD_MAX_AXES]; // sends and receives: axis 0
  double sync_seconds[BD_MAX_AXES]; // of a step: gradients summed along each axis of the mesh
  double update_seconds;            // of a step
  double flops, recompute_flops;    // executed; the latter are part of the former
  int64_t recompute_bytes;          // that the tapes in flight would hold more without recompute
  int64_t host_bytes; // that a rank keeps in its host's memory, of all tapes in flight
  int live_count;     // largest first: what its ranks hold at their peak
  bd_tenant *live;
} bd_stage_details;

// A choice that people know, evaluated beside the plan.
typedef struct bd_familiar {
  const char *name, *pins; // "pure data parallel", "dp=8,pp=1"
  double step_seconds;     // of its best plan looked at; infinity when none fits
  int64_t lacking_bytes;   // > 0 when it does not fit
  const char *reason;      // why there is none, where that is arithmetic; else NULL
} bd_familiar;

// The link of collectives along a mesh axis.
typedef struct bd_axis_link {
  double latency_seconds, bytes_per_second;
  bool inside_node;
} bd_axis_link;

typedef struct bd_plan_details {
  // Of a step, all ranks: matrix products, convolutions and attention of the model, forward and
  // backward; nothing that is run again.
  double model_flops;
  double flops_per_second; // of one device, large matrix products in the plan's precision
  // Weights of all layers; those whose gradients lie in more parts than they do (ZeRO 2), and those
  // that lie in parts and are gathered when they are used (ZeRO 3).
  int weights, gradient_parts, gathered;
  // Contractions of a micro-batch, all layers, forward and backward, nothing that is run again;
  // those of them that are marked for 8 bits, and those that are computed in them.
  int products, marked_products, float8_products;
  bd_axis_link link[BD_MAX_AXES], stage_link;
  bd_stage_details *stages; // as many as the plan has
  int fullest_stage;
  int familiar_count;
  bd_familiar *familiar;
} bd_plan_details;

// A JSON object; its lines begin with `indent`.
void bd_plan_details_print(const bd_plan_details *details, int stages, int axes, const char *indent,
                           bd_text *text);
// For a plan of as many stages and mesh axes. Errors: BD_INVALID with place.
BD_NODISCARD bd_status bd_plan_details_parse(bd_ctx *ctx, const bd_json *json, int stages, int axes,
                                             bd_plan_details **out_details);
#endif
