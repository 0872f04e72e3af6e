// The plan: what the planner decides and codegen obeys. One versioned JSON file (docs/plan.md) that
// a person can read, edit and feed back.
#ifndef BD_IR_PLAN_H
#define BD_IR_PLAN_H
#include "ir/base/json.h"
#include "ir/cluster.h"
#include "ir/memory.h"
#include "ir/module.h"
#include "ir/schedule.h"

#define BD_PLAN_VERSION 1
#define BD_MAX_STAGES 256

// How the tape keeps a value: on the device, there with one byte per element, or in the host's
// memory.
typedef enum bd_kept {
  BD_KEPT_WHOLE,
  BD_KEPT_COMPRESSED,
  BD_KEPT_OFFLOADED,
  BD_KEPT_COUNT
} bd_kept;
const char *bd_kept_name(bd_kept kept); // NULL for BD_KEPT_WHOLE

// Passes of an op that are done in parts each in their own way.
enum { BD_PARTS_FORWARD, BD_PARTS_BACKWARD, BD_PARTS_PASSES };
const char *bd_parts_key(int pass); // in the file

// The products of an op: its own, forward and again; those of the gradients of its inputs, and of
// its weights.
typedef enum bd_product_of {
  BD_PRODUCT_FORWARD,
  BD_PRODUCT_INPUT,
  BD_PRODUCT_WEIGHT,
  BD_PRODUCT_COUNT
} bd_product_of;
const char *bd_product_name(bd_product_of product); // in the file
// The set of 1 << a bd_product_of that `bf16` of an op of a plan file lists; 0 without the key.
// Errors: BD_INVALID with place.
BD_NODISCARD bd_status bd_products_parse(bd_ctx *ctx, const bd_json *op, unsigned char *out_set);

// One way to run one function, forward and backward, on the mesh.
typedef struct bd_strategy {
  const char *name;     // unique in the plan: the variant's function name, "block.0"
  const char *function; // the forward function
  // Per op of the forward function, per mesh axis: the letter of the loop that the axis splits, '-'
  // for none. Backward ops follow the forward op of their group.
  int op_count;
  char (*split)[BD_MAX_AXES];
  // Per value of the forward function: the sharding it settles in, never partial. An op's result is
  // brought to this form once, and consumers read it from there; its gradient settles in the same
  // form. For weights this is how they are stored.
  int value_count;
  bd_sharding *form;
  // Per value; it says something for weights: how the accumulators of their gradients lie. As the
  // weight, or cut along one more axis, over which the weight is whole (ZeRO-2); then the
  // optimizer's states lie as they do. NULL: as `form`.
  bd_sharding *gradient;
  bool
      *saved; // per value: kept on the tape (weights and integer inputs need no tape and are false)
  unsigned char *kept; // per value that is saved: a bd_kept; NULL: all BD_KEPT_WHOLE
  // Per op: in how many parts its product is done, forward and again, and those of its gradient, so
  // that sums over ranks begin with the first of them (ir/parts.h). NULL: all whole, 1.
  unsigned char (*parts)[BD_PARTS_PASSES];
  // Per op: which of its products that are marked for 8 bits stay in bf16, a set of 1 << a
  // bd_product_of. NULL: none.
  unsigned char *bf16;
  // Per op: whether ranks that have parts of its queries swap halves of them, so that each has as
  // much to do (ir/balance.h); forward and backward. NULL: none does.
  bool *balanced;
  // Notes for the reader of the file (ir/plan_notes.h); NULL until they are made.
  unsigned char (*cut)[BD_MAX_AXES]; // per op and mesh axis: what the split cuts, a bd_cut
  const bool *recomputed;            // per op: runs again in backward
  bd_loc loc;                        // in its file, if it was read
  const bd_loc *op_loc, *value_loc;  // the same per op and value; NULL: it was not
} bd_strategy;

typedef struct bd_layer_range {
  int first, count; // forward calls of main
  int strategy, stage;
  int chunk;  // of the stage: 0 unless the schedule is interleaved
  bd_loc loc; // in its file, if it was read
} bd_layer_range;

// What a stage hands on to another once per micro-batch. Seconds are of one rank: of the sender,
// which copies the message and goes on; then of the receiver, before the bytes move and while they
// do.
typedef struct bd_message_prediction {
  int to; // stage
  bool backward, between_nodes;
  double bytes; // of one rank
  double copy_seconds, latency_seconds, move_seconds;
  // Where in the passes of both it goes: the receiver takes it after so many other messages, sent
  // or received, and so many seconds of its own work; the sender has so many and as much left.
  int received_turn, sent_turn;
  double received_after_seconds, sent_before_seconds;
} bd_message_prediction;

typedef struct bd_stage_prediction {
  double forward_seconds, backward_seconds; // of one micro-batch, communication inside included
  double weight_seconds; // of backward_seconds: what only weights' gradients wait for, where the
                         // schedule runs it as a pass of its own
  double send_seconds;   // of both: handing values on to other stages and taking them
  double sync_seconds;   // gradients and update, once a step
  double apply_seconds;  // of sync_seconds: what waits for all stages' gradients to be summed
  bd_memory memory;
  int message_count; // sent by the stage; 0 may also say that nobody told
  const bd_message_prediction *messages;
} bd_stage_prediction;

typedef struct bd_alternative { // considered and not chosen
  const char *what;             // "stages=2 mesh=2x1"
  double step_seconds;          // of the best plan looked at; infinity when there is none
  int64_t lacking_bytes;        // > 0 when the best plan looked at does not fit
  double bound_seconds;         // no plan of it takes less
} bd_alternative;

typedef struct bd_plan {
  const char *model;  // name for the reader
  const char *target; // "cpu" or "cuda"
  const char *optimizer;
  bd_dtype precision;
  bd_masters masters;
  bd_gradients gradients;
  int64_t global_batch, micro_batch, sequence; // samples; samples over all ranks of a stage; tokens
  bd_schedule schedule;
  bd_mesh mesh; // of every stage, or of the first where they differ
  int stages;
  int chunks; // of the model per stage: chunk c of stage s is part c * stages + s of the chain;
              // 0 counts as 1
  // NULL: every stage has `mesh`, and they follow one another over the devices. Meshes of one plan
  // have equally many axes, so that strategies have a letter for each.
  const bd_mesh *stage_mesh; // per stage
  const int *stage_device;   // per stage: its first device; its others follow
  int threads_per_rank;
  bool one_head;      // cuda: libraries have room for the gradients of one key-value head alone
  unsigned zero_axes; // mesh axes over which optimizer states are split flat (ZeRO-1)
  int strategy_count;
  bd_strategy *strategies;
  int range_count;
  bd_layer_range *ranges;
  // Predictions: rewritten whenever a plan is made or checked.
  double step_seconds, bound_seconds, gap; // gap = step/bound - 1 within the search space
  const char *search;                      // what space was searched, and whether it was exhausted
  bool cut, interrupted; // time or an interrupt ended that search; no part of the plan's file
  int64_t cap_bytes;
  bd_stage_prediction *predicted; // `stages` of them
  int alternative_count;
  bd_alternative *alternatives;
  bd_loc loc;                      // in its file, if it was read
  const char *cluster;             // as it was asked for, "h100:1x8"; NULL: not known
  struct bd_plan_details *details; // for readers (ir/plan_details.h); NULL: none
} bd_plan;

static inline int bd_plan_micro_batches(const bd_plan *plan) {
  return (int)(plan->global_batch / plan->micro_batch);
}
static inline int bd_plan_chunks(const bd_plan *plan) {
  return plan->chunks > 1 ? plan->chunks : 1;
}
static inline const bd_mesh *bd_plan_mesh(const bd_plan *plan, int stage) {
  return plan->stage_mesh ? &plan->stage_mesh[stage] : &plan->mesh;
}
int bd_plan_ranks(const bd_plan *plan);
// The first device of a stage in the cluster's order.
int bd_plan_first_device(const bd_plan *plan, int stage);
// Whether its schedule, chunks or stages are beyond what codegen emits.
bool bd_plan_is_full(const bd_plan *plan);
// Whether codegen would emit it if its first device were the first of the cluster.
bool bd_plan_is_one_program(const bd_plan *plan);
// What plans say and codegen does not emit is refused. Errors: BD_UNSUPPORTED, one diagnostic.
BD_NODISCARD bd_status bd_plan_emitted(bd_ctx *ctx, const bd_plan *plan);

// The JSON members of one stage, without braces; their second line begins with `indent`.
void bd_stage_prediction_print(const bd_stage_prediction *stage, const char *indent, bd_text *text);
void bd_plan_print(const bd_plan *plan, const bd_module *train, bd_text *text); // JSON
// Its members that a program is made of: all but predictions, without the closing brace.
void bd_plan_print_program(const bd_plan *plan, const bd_module *train, bd_text *text);
// Reads, checks as bd_plan_check_shape, and against the module (names, lengths). Strategies are
// given in the file by op and value names. `train` NULL: read for display, strategies keep only
// their names. Errors: BD_INVALID with place.
BD_NODISCARD bd_status bd_plan_parse(bd_ctx *ctx, const char *file, const char *data, size_t bytes,
                                     const bd_module *train, bd_plan *out_plan);
// What a plan must satisfy whatever its model: micro-batches, schedule, ranges of layers and their
// stages. Errors: BD_INVALID, with place where the plan was read.
BD_NODISCARD bd_status bd_plan_check_shape(bd_ctx *ctx, const bd_plan *plan);
// Whether the plan is for samples of as many tokens as the module's have; else BD_INVALID.
BD_NODISCARD bd_status bd_plan_check_sequence(bd_ctx *ctx, const bd_module *train,
                                              const bd_plan *plan);
// Everything that a plan must satisfy to be a program of the module, whoever wrote it: independent
// of the planner. Errors: BD_INVALID, with place where the plan was read.
BD_NODISCARD bd_status bd_plan_check(bd_ctx *ctx, const bd_module *train, const bd_plan *plan);
// What the ranks of a program may use; of any other plan, those of the stage that may use most.
// `cap_bytes` > 0 is a lower cap.
int64_t bd_plan_cap_bytes(const bd_cluster *cluster, int64_t cap_bytes, const bd_plan *plan);
// And of a cluster: its ranks are there, and, once it is predicted, what they hold fits;
// `cap_bytes` > 0 is a lower cap. Errors: BD_INVALID, BD_INFEASIBLE.
BD_NODISCARD bd_status bd_plan_check_ranks(bd_ctx *ctx, const bd_cluster *cluster,
                                           const bd_plan *plan);
BD_NODISCARD bd_status bd_plan_check_bytes(bd_ctx *ctx, const bd_cluster *cluster,
                                           int64_t cap_bytes, const bd_plan *plan);
#endif
