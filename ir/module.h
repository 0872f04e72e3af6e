// Modules, functions, ops and values. One set of structs carries every stage from graph to exec;
// what a stage adds (shardings, splits, offsets) are fields that earlier stages leave unset.
#ifndef BD_IR_MODULE_H
#define BD_IR_MODULE_H
#include "ir/op.h"

#define BD_MAX_OPERANDS 8 // of a logical op; calls hold any number
#define BD_MAX_RESULTS 4

typedef enum bd_stage {
  BD_STAGE_GRAPH,
  BD_STAGE_TRAIN,
  BD_STAGE_SHARDED,
  BD_STAGE_SPMD,
  BD_STAGE_EXEC,
  BD_STAGE_COUNT
} bd_stage;
const char *bd_stage_name(bd_stage stage);

// Segments of a rank's arena.
typedef enum bd_segment {
  BD_SEGMENT_NONE,
  BD_SEGMENT_WEIGHTS,   // parameters
  BD_SEGMENT_GRADIENTS, // one accumulator per use of a weight
  BD_SEGMENT_OPTIMIZER,
  BD_SEGMENT_TAPE,      // saved residuals, a slot per micro-batch in flight
  BD_SEGMENT_BOUNDARY,  // values of main: between calls, sent and received
  BD_SEGMENT_WORKSPACE, // inside one call, the maximum over calls
  BD_SEGMENT_LIBRARY,   // CUDA: the libraries' workspace
  BD_SEGMENT_SENDS,     // CUDA: messages on their way to other stages
  BD_SEGMENT_COUNT
} bd_segment;
const char *bd_segment_name(bd_segment segment);

typedef int bd_id; // of a value, within its function
#define BD_NO_ID (-1)

typedef struct bd_value {
  const char *name; // interned, unique in the function, printable as %name: [A-Za-z0-9_.]+
  bd_type type;     // logical
  bd_sharding sharding;
  bool has_sharding; // sharded stage on
  bd_segment segment;
  int64_t offset_bytes; // exec: within the segment, of the call's or slot's base
  int producer;         // index of the op, or -1 for a parameter
  int result;           // which of its results
} bd_value;

typedef struct bd_op {
  bd_op_kind kind;
  int in_count, out_count;
  bd_id *in, *out;
  int attr_count;
  bd_attr *attrs;
  const char *callee; // calls: function name
  // The op of the forward function whose loop nest this op belongs to: itself for a forward op, and
  // for backward ops the forward op they derive. Loops of one group share letters, so one choice of
  // split per group shards forward and backward. -1: a backward op that sums or copies gradients
  // and goes by the shardings of its operands.
  int group;
  int8_t split[BD_MAX_AXES]; // loop per mesh axis; sharded stage on (has_split)
  bool has_split;
  bool recomputed; // a clone of a forward op in a backward function
  int stage;       // calls: pipeline stage, -1 before the plan is applied
  bd_loc loc;
} bd_op;

typedef enum bd_role {
  BD_ROLE_FORWARD,
  BD_ROLE_BACKWARD, // peer: its forward function
} bd_role;

// A straight-line function in SSA form. A forward function of the train stage on also lists
// `saves`: the values its backward function may read. The backward function's first `restore_count`
// parameters are those values in the same order; then come the gradients of the forward results;
// its results are the gradients of the forward parameters that have one (`gradient_of`).
typedef struct bd_function {
  const char *name;
  bd_role role;
  const char *peer; // the other of a forward/backward pair, or NULL
  int value_count, value_capacity;
  bd_value *values;
  int number_end; // values' names that are numbers are below it
  int op_count, op_capacity;
  bd_op *ops;
  int param_count, result_count, save_count, restore_count;
  int param_capacity, result_capacity, save_capacity; // of lists grown by bd_function_add_*
  bd_id *params, *results, *saves;
  int *gradient_of; // backward: for result i, the index of the forward parameter
  bool *is_weight;  // per parameter: main passes a weight here in every call
  bd_loc loc;
} bd_function;

typedef enum bd_init_kind {
  BD_INIT_ZEROS,
  BD_INIT_ONES,
  BD_INIT_NORMAL,
  BD_INIT_UNIFORM
} bd_init_kind;

#define BD_MAX_STACK 4096

// Where a logical weight is stored: the stored tensor is sliced along `slice_dim` (-1: whole), of
// every `slice_every` indices alike where that is above 0, transposed where it is asked for, and
// reshaped in row-major order to the logical shape.
typedef struct bd_storage {
  const char *name; // as in the model's files; any bytes
  // Above 0: as many tensors, one for each index of the weight's first dimension, in order. Their
  // names are `name`, a number in decimal, and `stack_rest`; what follows here is said of each. The
  // numbers start at `stack_first` and leave `stack_gap` out from one to the next.
  int64_t stack, stack_first, stack_gap;
  const char *stack_rest;
  int rank;
  int64_t dims[BD_MAX_RANK];
  int slice_dim;
  int64_t slice_start, slice_size, slice_every;
  bool transpose; // a stored matrix [out, in] (or [in, out]) read as its transpose before reshaping
} bd_storage;

// Where the optimizer keeps weights that functions read as halves.
typedef enum bd_masters {
  BD_MASTERS_F32,  // in a copy in f32, which is in its state
  BD_MASTERS_NONE, // nowhere else: it rounds what it computes in f32 stochastically
  BD_MASTERS_COUNT
} bd_masters;
const char *bd_masters_name(bd_masters masters);
// By kind; ends with NULL.
const char *const *bd_masters_names(void);

// In what gradients of a weight are added up over micro-batches, uses and ranks.
typedef enum bd_gradients {
  BD_GRADIENTS_F32,  // its `wide` type
  BD_GRADIENTS_BF16, // of a half without a master
  BD_GRADIENTS_COUNT
} bd_gradients;
const char *bd_gradients_name(bd_gradients gradients);
// By kind; ends with NULL.
const char *const *bd_gradients_names(void);
// Of a weight of type `weight`.
bd_dtype bd_gradient_dtype(bd_gradients gradients, bd_dtype weight);

typedef struct bd_weight {
  const char *name; // unique; printable as @name
  bd_type type;     // that the functions compute with
  // Element type in which the optimizer computes: f32 for halves, else the weight's own.
  bd_dtype wide;
  bd_masters masters; // of a half
  bd_gradients gradients;
  bd_storage storage;
  bd_init_kind init;
  double init_scale; // standard deviation, or half-width
  bool decay;        // weight decay applies
  // Of a running average, which no optimizer changes: how much of it a step replaces by what the op
  // `track` has seen, a mean over the step's micro-batches. 0: the weight is trained.
  double average;
} bd_weight;

typedef enum bd_input_kind {
  BD_INPUT_TOKENS,  // a window of a stream of tokens; the targets are those that follow
  BD_INPUT_TARGETS, // below zero: none
  BD_INPUT_REALS,
  BD_INPUT_IDS, // integers of a sample, in the data under the input's name
  BD_INPUT_KIND_COUNT
} bd_input_kind;
const char *bd_input_kind_name(bd_input_kind kind);

typedef struct bd_module {
  bd_stage stage;
  const char *name; // any bytes
  int weight_count, weight_capacity;
  bd_weight *weights;
  int function_count, function_capacity;
  bd_function **functions;
  // Parameters: inputs first (`input_count`), then one per weight in order. Ops: calls, and `add`
  // of gradients. graph: its one result is the loss sum. train on: one more parameter, `dloss`
  // (f32[], the gradient of the loss sum: 1 / the step's target count); forward calls in order,
  // then backward calls in reverse order, each with the attribute `of` = index in main of its
  // forward call. A backward call's operands are only the gradients of the forward results (its
  // restored values come from the tape of `of`). Gradients of an activation used by several calls
  // are summed by `add` ops in main. Results: the loss sum, then one gradient per use of a weight
  // (`gradient_weight`).
  bd_function *main;
  int input_count;
  bd_input_kind *inputs;
  int *gradient_weight; // train on: main's result i+1 is a gradient of this weight
  bd_mesh mesh;         // sharded on; the same for every stage
  int stages;           // sharded on
  int64_t micro_batch;  // sharded on: the extent of B; 0 before
  bool cuda;            // sharded on: the program is for GPUs
  bool one_head;        // then: the library segment has room for one key-value head alone
} bd_module;

static inline bool bd_weight_has_master(const bd_weight *weight) {
  return weight->wide != weight->type.dtype && weight->masters == BD_MASTERS_F32;
}

static inline bd_dtype bd_weight_gradient_dtype(const bd_weight *weight) {
  return weight->gradients == BD_GRADIENTS_BF16 ? weight->type.dtype : weight->wide;
}

// Building. Everything lives in ctx->arena.
bd_module *bd_module_create(bd_ctx *ctx, bd_stage stage, const char *name);
bd_function *bd_function_create(bd_ctx *ctx, const char *name);
void bd_module_add_function(bd_ctx *ctx, bd_module *module, bd_function *function);
int bd_module_add_weight(bd_ctx *ctx, bd_module *module, bd_weight weight);
// The stored tensors of a weight, at least one, and the name of each, which lives in ctx->arena.
int64_t bd_storage_count(const bd_storage *storage);
const char *bd_storage_name(bd_ctx *ctx, const bd_storage *storage, int64_t number);
bd_function *bd_module_find(const bd_module *module, const char *name);
// The number of a function of the module.
int bd_module_number(const bd_module *module, const bd_function *function);
// Main's parameter that is the gradient of the loss, behind inputs and weights; BD_NO_ID: it has
// none.
bd_id bd_module_loss_gradient(const bd_module *module);
// Whether a collective of the function takes a value.
bool bd_function_moves(const bd_function *function, bd_id value);
// Whether an op of main calls a forward function.
bool bd_module_calls_forward(const bd_module *module, const bd_op *op);
// A value's type on one rank: that of its part, padded, for the module's micro-batch.
bd_type bd_value_local_type(const bd_module *module, const bd_value *value);
// Tokens of a sample, as the first input says; 0 for models whose input is no sequence.
int64_t bd_module_sequence(const bd_module *module);
// `name` NULL: the next free number.
bd_id bd_function_add_value(bd_ctx *ctx, bd_function *function, const char *name, bd_type type);
// Named and typed as `like`, of any function of the session; its sharding too, if it has one.
bd_id bd_function_add_like(bd_ctx *ctx, bd_function *function, const bd_value *like);
// Whether a value is a parameter in which every call passes a weight.
bool bd_function_is_weight(const bd_function *function, bd_id value);
// Where `id` is among `count` ids; -1: nowhere.
int bd_ids_find(const bd_id *ids, int count, bd_id id);
// Another name, which no value of the function has.
void bd_function_rename(bd_ctx *ctx, bd_function *function, bd_id value, const char *name);
bd_id bd_function_add_param(bd_ctx *ctx, bd_function *function, const char *name, bd_type type);
bd_id bd_function_add_param_like(bd_ctx *ctx, bd_function *function, const bd_value *like);
void bd_function_add_result(bd_ctx *ctx, bd_function *function, bd_id value);
void bd_function_add_save(bd_ctx *ctx, bd_function *function, bd_id value);
// Appends an op with fresh operand and result lists (results are made by the caller). The pointer
// is good until the next append. group = its own index.
bd_op *bd_function_add_op(bd_ctx *ctx, bd_function *function, bd_op_kind kind, int in_count,
                          const bd_id *in, int out_count, const bd_id *out, bd_loc loc);
// The last op becomes number `to`. Groups and what else is numbered by ops stay as they are.
void bd_function_move_last_op(bd_function *function, int to);
// Appends a logical op and makes its results with inferred types. `attrs` are copied. For an op of
// one result `out` is one id. Errors: BD_INVALID from inference.
BD_NODISCARD bd_status bd_build(bd_ctx *ctx, bd_function *function, bd_op_kind kind, int in_count,
                                const bd_id *in, int attr_count, const bd_attr *attrs, bd_loc loc,
                                bd_id *out);
// A deep copy in ctx->arena.
bd_function *bd_function_clone(bd_ctx *ctx, const bd_function *function);
bd_module *bd_module_clone(bd_ctx *ctx, const bd_module *module);

// Attributes. Names are compared as text.
bd_attr bd_attr_int(bd_ctx *ctx, const char *name, int64_t value);
bd_attr bd_attr_real(bd_ctx *ctx, const char *name, double value);
bd_attr bd_attr_string(bd_ctx *ctx, const char *name, const char *value);
bd_attr bd_attr_ints(bd_ctx *ctx, const char *name, int count, const int64_t *values);
bd_attr bd_attr_reals(bd_ctx *ctx, const char *name, int count, const double *values);
const bd_attr *bd_op_find_attr(const bd_op *op, const char *name);
int64_t bd_op_int(const bd_op *op, const char *name, int64_t absent);
double bd_op_real(const bd_op *op, const char *name, double absent);
const char *bd_op_string(const bd_op *op, const char *name); // NULL when absent
void bd_op_set_attr(bd_ctx *ctx, bd_op *op, bd_attr attr);
// Other ops with the same list keep it.
void bd_op_drop_attr(bd_ctx *ctx, bd_op *op, const char *name);
#endif
