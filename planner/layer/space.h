// The search space of one layer: clusters of ops that share a decision, and what is known of its
// values; options.h fills in the options.
#ifndef BD_PLANNER_LAYER_SPACE_H
#define BD_PLANNER_LAYER_SPACE_H
#include "planner/layer/layer.h"

// What lies in parts on the ranks of axes over which ops want the cluster's weights whole.
typedef enum bd_spread {
  BD_SPREAD_STATES,    // at most the optimizer's states (ZeRO-1)
  BD_SPREAD_GRADIENTS, // the gradients' accumulators as well (ZeRO-2)
  BD_SPREAD_WEIGHTS,   // the weights as well (ZeRO-3)
} bd_spread;

typedef struct bd_layer_option {
  int8_t split[BD_MAX_AXES];   // loops of the anchor
  int8_t scatter[BD_MAX_AXES]; // where the split leaves partial sums: the dimension they are
                               // scattered to, or -1 when they are summed everywhere
  bd_spread spread;
  uint8_t spread_axes; // mask; 0 for BD_SPREAD_STATES
  // How many of the cluster's ops that backward reads a result of, in order, have them on the tape;
  // what the others make is computed again.
  int8_t kept;
  bd_kept how; // of all that is kept
} bd_layer_option;

// An op that makes its own decision, and the pointwise ops after it that follow its form: those
// with one operand that is not a weight.
typedef struct bd_cluster_ops {
  int op_count;
  int *ops; // the anchor first, ascending
  int option_count;
  bd_layer_option *options; // by splits and scatters, then spreads, then what they keep
  int8_t needed_count;      // ops that backward reads a result of
  bool impossible;          // constraints leave it no option; one stands for that
} bd_cluster_ops;

// Seconds of one op under one split.
typedef struct bd_op_work {
  bool known, clone_known;
  double forward, backward; // backward: of its group
  double clone;             // running it again there
} bd_op_work;

// Of one forward value: how many gradients may reach it, and the backward ops that add them up.
typedef struct bd_layer_sums {
  int summands, count;
  int *ops;
} bd_layer_sums;

// Of one forward value that is a weight.
typedef struct bd_layer_weight {
  int calls;    // in the model that read it
  double share; // of what is done once a step for all of them
  bool shared;  // by several ops or calls
  bool whole;   // ... then never stored in parts
  bool learns;  // backward makes a gradient of it
  bd_id like;   // the first weight that costs the same wherever it lies
} bd_layer_weight;

// The ops of other clusters that read a value, an op for every operand (layer/share.h).
typedef struct bd_layer_readers {
  int all, largest; // those of the largest results of all that hand a gradient back
  int64_t most;     // elements of these
  bool alike;       // all have the same share
} bd_layer_readers;

typedef struct bd_layer_space {
  bd_ctx *ctx;
  const bd_layer_request *request;
  const bd_function *forward, *backward;
  bd_index_map *map;          // per forward op
  bd_index_map *backward_map; // per backward op
  int cluster_count;
  bd_cluster_ops *clusters;
  int *cluster_of_op;
  // Per forward op: it is kept when more than so many of its cluster's are, and run again when no
  // more than so many are; -1: never.
  int8_t *kept_above, *again_to;
  bool *needed;              // per forward value: read by backward
  bool *is_result;           // per forward value
  bool *is_weight;           // per forward value
  bool *of_weights;          // per forward value: is one, or made of weights and constants alone
  const bool *pooled;        // per forward value: counts over the samples of a rank (ir/pool.h)
  int *consumers;            // per forward value: reads from outside its own cluster
  bd_layer_readers *readers; // per forward value
  int *weight_uses;          // per forward value: ops that read it, for weights
  bd_layer_weight *weight;   // per forward value
  int *backward_reads;       // per forward value: reads by backward ops
  bd_id *restores;           // per backward value: the forward value that it is, or BD_NO_ID
  int *type_of;              // per forward value: the first value of the same type
  bool *has_backward;        // per forward op: backward has ops of its group, maybe but itself
  bool *flows;               // per forward value: a gradient reaches it
  bd_id *passes_to;          // per forward value: see bd_layer_find_passes (layer/gradient.h)
  bool *is_passed;           // ... and whether it is the one for a value that others read
  bd_layer_sums *sums;       // per forward value
  bool *is_sum;              // per backward op: it is among them
  bd_op_work **work;         // per forward op, per split
  // While the layer's problem is made: what is known so far of ways between forms, per forward op
  // of its weights (layer/weight.c), and of weights; `tables` is where these live.
  bd_arena *tables;
  struct bd_reshards *reshards;
  struct bd_known_weight **weights;
  struct bd_stored_table **stored; // per forward value (layer/stored.c)
  // Per forward value, and per its gradient: the products that leave it partial (layer/hidden.c).
  struct bd_longest_table *longest;
} bd_layer_space;

// What the functions tell: all but the options.
BD_NODISCARD bd_status bd_layer_space_read(bd_ctx *ctx, const bd_layer_request *request,
                                           bd_layer_space *out_space);

// What neighbours agree on, for a value of this type.
bd_sharding bd_layer_boundary(const bd_layer_space *space, int form, bd_id value);

// Whether the tape keeps what backward reads of the results of an op of the cluster.
bool bd_layer_keeps(const bd_layer_space *space, const bd_layer_option *option, int op);
// Whether backward surely runs it again: to have a result that is not kept, or to run another op of
// the cluster that it runs again.
bool bd_layer_runs_again(const bd_layer_space *space, const bd_layer_option *option, int op);
#endif
