// A rank's arena, byte for byte. Planner and codegen both read it from here, so a prediction and an
// allocation cannot differ.
#ifndef BD_IR_MEMORY_H
#define BD_IR_MEMORY_H
#include "ir/module.h"
#include "ir/schedule.h"

#define BD_ALIGNMENT 256 // of every placement, bytes

static inline int64_t bd_align(int64_t bytes) {
  return (bytes + BD_ALIGNMENT - 1) / BD_ALIGNMENT * BD_ALIGNMENT;
}

typedef struct bd_memory {
  int64_t bytes[BD_SEGMENT_COUNT]; // tape: all slots
  // Of `bytes`, what each of `slots` micro-batches in flight has of its own.
  int slots;
  int64_t slot_bytes[BD_SEGMENT_COUNT];
  int64_t total_bytes;
} bd_memory;

// Attention's tiles, whatever its shape: bd_rt_attention_workspace_bytes of runtime/braid_rt_abi.h,
// which ir may not include; a test holds the two together.
#define BD_ATTENTION_SCRATCH_BYTES ((int64_t)32 * 64 * (2 * 128 + 4) * 4)

// Tiles of queries that GPUs keep the sums of gradients of biases apart by.
enum { BD_MEMORY_QUERY_TILE = 64 };
static inline int64_t bd_memory_query_tiles(int64_t queries) {
  return (queries + BD_MEMORY_QUERY_TILE - 1) / BD_MEMORY_QUERY_TILE;
}

// The segment that cuBLASLt and cuDNN work in: algorithms that want more are not used.
#define BD_LIBRARY_LEAST_BYTES ((int64_t)32 << 20)
// With eight query heads on a key-value head 8192 tokens want a little more than half of it.
#define BD_LIBRARY_MOST_BYTES ((int64_t)2 << 30)
// Of it, what the runtime keeps to itself: BD_RT_KEPT_BYTES of runtime/braid_rt_abi.h, which a test
// holds equal.
#define BD_LIBRARY_KEPT_BYTES ((int64_t)1 << 16)

// Whether an op is attention or its gradient, in halves of one type throughout, without dropout and
// biases: what cuDNN takes.
bool bd_attention_suits_library(const bd_function *function, const bd_op *op);

// Of heads in halves, the widest that generated attention takes to tensor cores.
enum { BD_ATTENTION_TENSOR_WIDTH = 128 };

// Whether cuDNN does such an op of a program for GPUs: it is of widths that cuDNN takes, and the
// workspace of a gradient, whole or in tiles, is within a library segment. Else generated kernels
// do it.
bool bd_attention_in_library(const bd_function *function, const bd_op *op);

// Workspace of cuDNN's deterministic backward attention, in one run for `heads` key-value heads of
// any samples: `group` query heads to each, `tq` queries, `tk` keys, heads `d` wide and values
// `d_v`, all positive. It keeps the gradients of the scores, in halves and in tiles of 64 x 128,
// and where query heads share the key-value head the two gradients of each. As cuDNN 9.19 says for
// sm_90; sm_80 and sm_100 want no more. 0: more than a library segment has.
int64_t bd_memory_attention_bytes(int64_t heads, int64_t group, int64_t tq, int64_t tk, int64_t d,
                                  int64_t d_v);

// The same for one key-value head in tiles of queries by keys, where the gradients of all its
// scores are too many: those of a tile's scores, which have 512 MiB, and sums in f32 of what tiles
// make, of dk and dv for all keys, of dq for a tile's queries. A tile has as many rows, at least
// BD_MEMORY_LEAST_TILE, as divide queries and keys. 0: none has, or it is more than a segment.
enum { BD_MEMORY_LEAST_TILE = 512 };
// Of queries that see the last `window` keys (0: all), a tile has all keys that its rows see, and
// is at most a key shorter than the window.
int64_t bd_memory_attention_tiles_bytes(int64_t group, int64_t tq, int64_t tk, int64_t d,
                                        int64_t d_v, int64_t window);

// How many key-value heads the library segment is to have room for at once. A run has a block for
// each query head and 128 of its keys; a run of few blocks leaves multiprocessors idle. So these
// are as many heads as make three blocks for each of 132 multiprocessors, within 256 MiB, and at
// least one.
int64_t bd_memory_attention_heads(int64_t group, int64_t tq, int64_t tk, int64_t d, int64_t d_v);

// Bytes of the library segment of a program for GPUs, of its train module or a later one: as many
// as backward attention by cuDNN wants for that many heads of all their tokens, or for
// tiles of one, of the most demanding op that is within BD_LIBRARY_MOST_BYTES, and at least
// BD_LIBRARY_LEAST_BYTES; with `one_head` for one. The model and this alone decide, so all stages
// have the same. 0 unless the module's `cuda` is set.
int64_t bd_memory_library_bytes(const bd_module *module);

// Bytes of memory that op `op` of an spmd function needs while it runs, beside its operands and
// results; 0 for most. They lie in the workspace at the offset in the op's attribute `scratch`.
int64_t bd_memory_scratch_bytes(const bd_module *module, const bd_function *function,
                                const bd_op *op);

// Bytes of one rank's buffer for a value of an spmd function (aligned).
int64_t bd_memory_value_bytes(const bd_module *module, const bd_value *value);
// The same of one on the tape or in the workspace, whose rows may lie apart (ir/pitch.h).
int64_t bd_memory_inner_bytes(const bd_module *module, const bd_function *function, bd_id value);

// Places a function's inner values in the workspace: values that are neither parameters, results,
// nor saved; first fit by decreasing size over live ranges in op order; in-place ops share when the
// operand dies there, but for what the kernels of products on GPUs need apart. In a backward
// function that may be a restored value, whose bytes of the tape (see bd_memory_place_tape, which
// comes first) nothing reads afterwards. Sets segment and offset_bytes of each (BD_SEGMENT_NONE for
// what fusion keeps in registers), and `scratch` of ops that need some; returns the height.
BD_NODISCARD bd_status bd_memory_place_workspace(bd_ctx *ctx, const bd_module *module,
                                                 bd_function *function, int64_t *out_bytes);

// Whether an op of an spmd function for GPUs is a collective between several ranks that may run
// beside other steps of the function, because it needs no memory but its operand's and its
// result's: a sum or a maximum, or a gather or scatter of parts of equal size, one after another.
// Not gathers of weights, for which bd_memory_gathers_weight is asked, nor what adds to an
// accumulator.
bool bd_memory_runs_beside(const bd_module *module, const bd_function *function, const bd_op *op);

// Whether such a gather of an spmd function for GPUs makes a weight that lies in parts whole (ZeRO
// 3).
bool bd_memory_gathers_weight(const bd_module *module, const bd_function *function,
                              const bd_op *op);

// Places the inner values of a function again, in `room_bytes`, at least the height that
// bd_memory_place_workspace gives, so that such gathers may begin long before they are read: in op
// order, as far as there is room, each has bytes that nothing else in the function uses (a call
// before it may fill them as well), or that nothing uses before the gather is read. Then so that
// collectives may run beside products: their results have bytes of their own from where their
// operands are there, and what products for gradients of weights read stays until then.
void bd_memory_place_early(bd_ctx *ctx, const bd_module *module, bd_function *function,
                           int64_t room_bytes);

// Lays out the tape slot of one call of a forward function: saved values one after another.
// Parameters of the function that are main values (weights, inputs, boundary values) take no room
// unless saved as boundary: they, and saved results, are read from main. Sets offsets here and on
// the restored parameters of the backward function in `module`; returns bytes per micro-batch.
BD_NODISCARD bd_status bd_memory_place_tape(bd_ctx *ctx, const bd_module *module,
                                            bd_function *forward, int64_t *out_bytes);

// Bytes of the optimizer's state per element of a weight: its moments; 4 more for the master of a
// half that has one.
int64_t bd_optimizer_state_bytes(const char *optimizer, bd_masters masters, bd_dtype weight);
// Bytes that the update of one element reads and writes: weight, gradient and state, each twice,
// and what an optimizer reads again.
int64_t bd_memory_update_bytes(const char *optimizer, bd_masters masters, bd_dtype weight,
                               bd_dtype gradient);

// How the states of a weight lie on its ranks: in the form of its accumulators, split flat over
// `parts` ranks: the axes of `zero_axes` that hold replicas of it. Where accumulators are cut
// further than the weight, there is one part. `gradient`: of one of its uses, or NULL when it has
// none.
typedef struct bd_state_form {
  bd_sharding form;
  int parts;
} bd_state_form;
bd_state_form bd_memory_state_form(const bd_mesh *mesh, const bd_sharding *weight,
                                   const bd_sharding *gradient, unsigned zero_axes);
// Elements of one weight whose states a rank has, the last part's padding included; and their bytes
// with what the optimizer keeps of rows and columns.
int64_t bd_memory_state_elements(const bd_mesh *mesh, const bd_type *weight,
                                 const bd_state_form *states);
int64_t bd_memory_optimizer_bytes(const char *optimizer, bd_masters masters, const bd_mesh *mesh,
                                  const bd_type *weight, const bd_state_form *states);

// The whole arena of `stage`.
BD_NODISCARD bd_status bd_memory_of_stage(bd_ctx *ctx, const bd_module *spmd, int stage,
                                          bd_schedule schedule, int micro_batches,
                                          const char *optimizer, unsigned zero_axes,
                                          bd_memory *out_memory);
#endif
