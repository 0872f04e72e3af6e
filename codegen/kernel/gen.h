// Private to codegen/kernel: the generator's state and its vocabulary over LLVM's C interface.
//
// Everything is emitted once for two machines. On the host the lanes of a loop are an LLVM vector
// of `width` elements, the last group masked; on a GPU they are the 32 threads of a warp, each
// running scalar code, or, where memory allows it, on a vector of `pack` elements in a row. Sums
// along a row keep 32 partial sums that are added in a fixed tree; a lane's are those of its
// elements, so that both machines and any number of threads give the same bits where a GPU's thread
// takes one element at a time. A GPU takes long rows by whole blocks, and sums of columns by 32 to
// 256 partial sums over the rows of a chunk: there, as in packed rows, the order of additions
// depends on the shape alone, but it is another than the host's.
#ifndef BD_CODEGEN_KERNEL_GEN_H
#define BD_CODEGEN_KERNEL_GEN_H
#include "codegen/kernel/kernel.h"
#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

#define BD_GEN_LANES 32       // of a row, and of a warp
#define BD_GEN_POINT_LANES 16 // of elementwise kernels on the host
#define BD_GEN_WALK_LANES 8   // of those whose points walk along a dimension
#define BD_GEN_CHUNK 16384    // elements in a host chunk, about
#define BD_GEN_THREADS 256    // of a GPU block
#define BD_GEN_ROOMY_BLOCKS 2 // on a multiprocessor, where ptxas would spill to have more
#define BD_GEN_MOST_AHEAD 4   // packs that a GPU's thread asks for before it uses the first
#define BD_GEN_AHEAD_BLOCKS 4 // of kernels that read ahead along lanes
#define BD_GEN_LONG_ROW 2048  // elements from which a GPU takes a row by a whole block
#define BD_GEN_ALIGNED 16     // bytes that a GPU moves at once; every buffer begins at a multiple

struct bd_kernel_set {
  bool cuda;
  const char *arch;
  LLVMContextRef llvm;
  LLVMModuleRef module;
  LLVMBuilderRef builder;
  LLVMTargetMachineRef machine;
  int launch_capacity;
  bd_kernel_launch *launches; // by kernel number
};

// A loop of the kernel: local indices run from 0 to `count`, logical ones from `start`.
typedef struct bd_gen_loop {
  int slot;                  // in `range`
  int64_t scale;             // inner elements of loops that were merged into this one
  int64_t extent;            // padded local
  bool split;                // start and count come from `range`
  LLVMValueRef start, count; // i64
} bd_gen_loop;

// How an operand or result is addressed by the loops.
typedef struct bd_access {
  bd_dtype dtype;
  LLVMValueRef base;
  LLVMValueRef valid;           // an address that can always be read
  int64_t stride[BD_MAX_LOOPS]; // elements
  int aligned;                  // bytes that the base is a multiple of, as far as is known
  bool accumulate;              // stores add
} bd_access;

typedef struct bd_gen {
  bd_ctx *ctx;
  bd_kernel_set *set;
  const bd_kernel *kernel;
  int number;       // of this part of the kernel
  int part;         // of the step, when it takes several kernels
  int threads;      // GPU: of a block
  const bd_op *op;  // the first
  bd_index_map map; // of it
  bool cuda;
  LLVMContextRef llvm;
  LLVMBuilderRef b;
  LLVMValueRef function, buffers, range, random;
  LLVMValueRef chunk;                 // host: the argument; GPU: the warp's number in the grid
  LLVMValueRef warps;                 // GPU: in the grid
  LLVMValueRef lane;                  // GPU: of this thread, among `lane_count` that share an item
  int lane_count;                     // GPU: a warp's threads, or all of the block's
  LLVMValueRef repeats;               // GPU: this thread does an item that is another's; NULL: none
  LLVMValueRef thread, block, blocks; // GPU: this thread in its block, its block, the grid's blocks
  int loops;
  bd_gen_loop loop[BD_MAX_LOOPS];
  // Inside a body:
  LLVMValueRef index[BD_MAX_LOOPS]; // local, i64; of the lane loop: of lane 0 (host)
  int lane_loop;                    // -1 outside lanes
  int lanes;                        // elements in a vector: 1 outside lanes and on GPUs
  int width;                        // lanes of a vector inside lanes
  int pack;                         // GPU: elements that a thread takes at once along lanes
  const bd_access *uneven;          // tells where packs begin in a row; NULL: they fill it
  LLVMValueRef mask;                // of the lanes in range, NULL: all
  LLVMValueRef lane_from, lane_to;  // this item's part of the lane loop
  bool rolled;                      // loops that end now are not to be unrolled
  bool apart; // rounds of the loop that ends next share no registers: what is alike is made anew
  int room;   // GPU: blocks that a multiprocessor is to have registers for; 0: as ptxas likes
  int copies; // of the body of the loop that ends next; 0: as LLVM likes
} bd_gen;

typedef void (*bd_gen_body)(bd_gen *g, void *user);

// Types and constants. `lanes` of g: scalars or vectors.
LLVMTypeRef bd_gen_type(bd_gen *g, LLVMTypeRef scalar); // scalar, or a vector of g->lanes
LLVMTypeRef bd_gen_scalar_of(LLVMValueRef value);
LLVMTypeRef bd_gen_f32(bd_gen *g);
LLVMTypeRef bd_gen_f64(bd_gen *g);
LLVMTypeRef bd_gen_i32(bd_gen *g);
LLVMTypeRef bd_gen_i64(bd_gen *g);
LLVMTypeRef bd_gen_dtype(bd_gen *g, bd_dtype dtype);                    // in memory; i16 for bf16
LLVMValueRef bd_gen_long(bd_gen *g, int64_t value);                     // scalar i64
LLVMValueRef bd_gen_smaller(bd_gen *g, LLVMValueRef a, LLVMValueRef b); // of two i64
LLVMValueRef bd_gen_splat(bd_gen *g, LLVMValueRef scalar);              // to g->lanes
LLVMValueRef bd_gen_splat_like(bd_gen *g, LLVMValueRef like, LLVMValueRef scalar);
LLVMValueRef bd_gen_real_like(LLVMValueRef like, double value); // constant of the same type
LLVMValueRef bd_gen_int_like(LLVMValueRef like, int64_t value);
LLVMValueRef bd_gen_real(bd_gen *g, double value);                   // f32 of g->lanes
LLVMTypeRef bd_gen_type_like(LLVMValueRef like, LLVMTypeRef scalar); // as many lanes as `like`
// A call of an overloaded intrinsic; `types` are its overloads.
LLVMValueRef bd_gen_intrinsic(bd_gen *g, const char *name, int type_count, LLVMTypeRef *types,
                              int count, LLVMValueRef *arguments);
// Of one that is overloaded by the type of its only argument.
LLVMValueRef bd_gen_unary(bd_gen *g, const char *name, LLVMValueRef x);
LLVMValueRef bd_gen_copysign(bd_gen *g, LLVMValueRef magnitude, LLVMValueRef sign);
LLVMValueRef bd_gen_fma(bd_gen *g, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);
// Horner's rule with fused multiply-adds; highest coefficient first.
LLVMValueRef bd_gen_poly(bd_gen *g, LLVMValueRef x, int count, const double *coefficients);
// A variable that lives in registers after optimization.
LLVMValueRef bd_gen_variable(bd_gen *g, LLVMTypeRef type);

// Loops of i64 with a positive step.
typedef struct bd_gen_for {
  LLVMBasicBlockRef head, exit;
  LLVMValueRef index, step;
} bd_gen_for;
bd_gen_for bd_gen_for_begin(bd_gen *g, LLVMValueRef from, LLVMValueRef to, LLVMValueRef step);
void bd_gen_for_end(bd_gen *g, bd_gen_for *loop);
typedef struct bd_gen_if {
  LLVMBasicBlockRef exit;
} bd_gen_if;
bd_gen_if bd_gen_if_begin(bd_gen *g, LLVMValueRef condition);
void bd_gen_if_end(bd_gen *g, bd_gen_if *branch);

// GPU: the block's threads wait for each other; memory that they share.
void bd_gen_barrier(bd_gen *g);
LLVMValueRef bd_gen_shared(bd_gen *g, const char *what, LLVMTypeRef type, int count);

// Work. A nest lays items out over chunks (host), or warps or blocks (GPU).
typedef struct bd_gen_nest {
  int outer_count;
  int outer[BD_MAX_LOOPS]; // slowest first
  int lane_loop;           // loop that items run along in lanes, or -1
  int64_t block;           // of the lane loop's indices per item; 0: all
  int64_t work;            // elements per item, for the size of chunks
  bool whole_block;        // GPU: an item is a block's, not a warp's
  int threads;             // GPU: of an item, 1, 2, 4 ..: a warp takes items side by side; 0: all
  bool meets;              // and its threads exchange what they have, and store numbers of it alone
  bool apart;              // GPU: what items compute alike takes more registers than it is worth
} bd_gen_nest;
void bd_gen_items(bd_gen *g, const bd_gen_nest *nest, bd_gen_body body, void *user);
// How many items there are, i64; and from an item's number to the local indices of its loops.
LLVMValueRef bd_gen_item_count(bd_gen *g, LLVMValueRef range, const bd_gen_nest *nest);
void bd_gen_take_item(bd_gen *g, const bd_gen_nest *nest, LLVMValueRef item);
// Runs body over [g->lane_from, g->lane_to) of `loop` in groups of lanes.
void bd_gen_lanes(bd_gen *g, int loop, int width, bd_gen_body body, void *user);
// The same with what is read apart from what is done with it: where lanes are packed, a GPU's
// thread runs `fetch` for `ahead` groups (at most BD_GEN_MOST_AHEAD) and then `finish` for each, so
// that as much is on its way. Nothing that one group reads is what an earlier one writes.
typedef void (*bd_gen_group)(bd_gen *g, void *user, int group);
typedef struct bd_gen_ahead {
  int ahead;
  bd_gen_group fetch, finish;
  void *user;
} bd_gen_ahead;
void bd_gen_lanes_ahead(bd_gen *g, int loop, int width, const bd_gen_ahead *groups);
// Threads of a warp that have packs of a row along a loop: a power of two.
int bd_gen_row_threads(const bd_gen *g, int loop);
// GPU: parts a warp into groups of so many threads side by side, whose lanes are their numbers in
// them from here on; returns which group is this thread's.
LLVMValueRef bd_gen_part_warp(bd_gen *g, int threads);
// Decides for a loop that lanes are to run along, and all that bodies load and store along it: a
// thread takes as many elements as make `bytes` of the narrowest access, or half of that and so
// on, down to 1, where they do not lie in a row or where addresses are not multiples of that alike.
// Long rows may begin and end with some that are taken one by one. The accesses outlive the lanes.
void bd_gen_pack(bd_gen *g, int loop, int bytes, int count, const bd_access *const *accesses);
// Whether packs may also lie along an access, where they lie along `like`.
bool bd_gen_packs(const bd_gen *g, int loop, const bd_access *access, const bd_access *like);
// Serial loops over `loops` (slowest first) around body.
void bd_gen_serial(bd_gen *g, int count, const int *loops, bd_gen_body body, void *user);
// Logical index of a loop in the lanes, i64.
LLVMValueRef bd_gen_logical(bd_gen *g, int loop);
// Elements that the loops span on this rank.
int64_t bd_gen_work(const bd_gen *g, int count, const int *loops);

// Sums along lanes in double. Created outside lanes, added inside, read outside.
LLVMValueRef bd_gen_sum_begin(bd_gen *g);
void bd_gen_sum_add(bd_gen *g, LLVMValueRef sum, LLVMValueRef value);
LLVMValueRef bd_gen_sum_end(bd_gen *g, LLVMValueRef sum); // scalar double
LLVMValueRef bd_gen_max_begin(bd_gen *g);
void bd_gen_max_add(bd_gen *g, LLVMValueRef max, LLVMValueRef value);
LLVMValueRef bd_gen_max_end(bd_gen *g, LLVMValueRef max); // scalar float

// Joins, and the value (f32 or f64) of the lane at (own lane XOR distance) of a GPU's warp.
LLVMValueRef bd_gen_plus(bd_gen *g, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef bd_gen_larger(bd_gen *g, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef bd_gen_from_lane(bd_gen *g, LLVMValueRef value, int distance);
// The sums of what a block's warps hold in each of their lanes, in order of warps. `memory` names
// what is shared for it: without `written_again` the threads meet before they come here again.
void bd_gen_join_blocks(bd_gen *g, int count, LLVMValueRef *values, const char *memory,
                        bool written_again);
// The elements of a thread's pack joined to one, neighbours first.
LLVMValueRef bd_gen_join_pack(bd_gen *g, LLVMValueRef pack,
                              LLVMValueRef (*join)(bd_gen *, LLVMValueRef, LLVMValueRef));

// Memory.
LLVMValueRef bd_gen_buffer(bd_gen *g, int slot); // of the kernel's arguments
bd_access bd_gen_access(bd_gen *g, bd_id value, const int8_t *loop_of_dim);
bd_access bd_gen_in(bd_gen *g, int operand); // of g->op, by its index map
bd_access bd_gen_out(bd_gen *g, int result);
LLVMValueRef bd_gen_load(bd_gen *g, const bd_access *access);
// A load in two: what memory holds, and from that what bd_gen_load gives, at the same point or
// another.
LLVMValueRef bd_gen_fetch(bd_gen *g, const bd_access *access);
LLVMValueRef bd_gen_fetched(bd_gen *g, const bd_access *access, LLVMValueRef value);
// Lanes where `where` is false (or an address that is not valid) give zero. On GPUs `where` is one
// bit for all of a pack.
LLVMValueRef bd_gen_load_where(bd_gen *g, const bd_access *access, LLVMValueRef where);
LLVMValueRef
bd_gen_load_at(bd_gen *g, const bd_access *access, LLVMValueRef offset,
               LLVMValueRef where); // `offset` in elements, added to the indices'; where it is
                                    // one for all of a GPU's pack, so is `where`
void bd_gen_store(bd_gen *g, const bd_access *access, LLVMValueRef value);
// Inside lanes, where `where` is true; nothing is added to.
void bd_gen_store_at(bd_gen *g, const bd_access *access, LLVMValueRef offset, LLVMValueRef where,
                     LLVMValueRef value);
// Between what memory holds and what is computed with (half.c): floats narrower than f32 widen to
// it.
LLVMValueRef bd_gen_widen(bd_gen *g, bd_dtype dtype, LLVMValueRef value);
LLVMValueRef bd_gen_narrow(bd_gen *g, bd_dtype dtype, LLVMValueRef value);
bd_access bd_gen_shifted(bd_gen *g, const bd_access *access, int64_t elements);

// A scalar type that values of a dtype have in registers: f32 for halves, a bit for bools.
LLVMTypeRef bd_gen_register(bd_gen *g, bd_dtype dtype);
// Number i of an attribute, which is a number or a list of them: a scalar, rounded.
LLVMValueRef bd_gen_constant(bd_gen *g, const bd_attr *attr, int i, bd_dtype dtype);
// From one dtype to another as docs/ops.md says of `cast`; not rounded to halves.
LLVMValueRef bd_gen_cast(bd_gen *g, bd_dtype from, bd_dtype to, LLVMValueRef x);
// An index that an operand holds, i64.
LLVMValueRef bd_gen_index(bd_gen *g, LLVMValueRef x);

// What a stored value would be loaded as.
LLVMValueRef bd_gen_rounded(bd_gen *g, bd_dtype dtype, LLVMValueRef value);

// Mathematics (math.c, random.c), f32 in any number of lanes; where they are given f64, exp, log,
// sigmoid and sqrt are good to its last places, tanh and erf to 1e-7.
LLVMValueRef bd_gen_exp(bd_gen *g, LLVMValueRef x);
// The same bits in fewer instructions for f32 that is at most 88, but 0 below -87.
LLVMValueRef bd_gen_exp_weight(bd_gen *g, LLVMValueRef x);
LLVMValueRef bd_gen_log(bd_gen *g, LLVMValueRef x);
LLVMValueRef bd_gen_tanh(bd_gen *g, LLVMValueRef x);
LLVMValueRef bd_gen_erf(bd_gen *g, LLVMValueRef x);
LLVMValueRef bd_gen_sigmoid(bd_gen *g, LLVMValueRef x);
LLVMValueRef bd_gen_sqrt(bd_gen *g, LLVMValueRef x);            // f32 or f64
LLVMValueRef bd_gen_reciprocal_root(bd_gen *g, LLVMValueRef x); // GPU, scalar f32
void bd_gen_sincos(bd_gen *g, LLVMValueRef x /* or f64 */, LLVMValueRef *out_sin,
                   LLVMValueRef *out_cos);
void bd_gen_turn(bd_gen *g, LLVMValueRef angle /* f64 */, LLVMValueRef *out_sin /* f32 */,
                 LLVMValueRef *out_cos);
// The same of f64, and the power that f32 has as well (wide.c).
LLVMValueRef bd_gen_exp_wide(bd_gen *g, LLVMValueRef x);
LLVMValueRef bd_gen_log_wide(bd_gen *g, LLVMValueRef x);
LLVMValueRef bd_gen_pow(bd_gen *g, LLVMValueRef a, LLVMValueRef b);
// The remainder of a / b; `divisor`: of the sign of b, else of a.
LLVMValueRef bd_gen_remainder(bd_gen *g, LLVMValueRef a, LLVMValueRef b, bool divisor);
LLVMValueRef bd_gen_first_sample(bd_gen *g);
// What all draws at a random site share: words of the key and the counter, scalars.
typedef struct bd_gen_site {
  LLVMValueRef k0, k1, call, step;
} bd_gen_site;
bd_gen_site bd_gen_site_open(bd_gen *g, uint32_t site);
// The four random words of a block; sample and block are i64 in any number of lanes.
void bd_gen_draw(bd_gen *g, const bd_gen_site *site, LLVMValueRef sample, LLVMValueRef block,
                 LLVMValueRef out_words[4]);
// Word `number` % 4 of each lane's.
LLVMValueRef bd_gen_choose_word(bd_gen *g, LLVMValueRef words[4], LLVMValueRef number);
// Whether the uniform of ir/interpret.h that a word gives is less than p, i1; no word drops where
// the pass keeps all.
LLVMValueRef bd_gen_drops(bd_gen *g, LLVMValueRef word, double p);
// What is kept is multiplied by: `factor`, or 1 where the pass keeps all. f32, a scalar.
LLVMValueRef bd_gen_keep(bd_gen *g, double factor);

// A list of integers that does not decrease: `extent` elements, `apart` from one to the next, from
// `offset` on (i64 per lane; NULL: 0) of where the indices of `x` are.
typedef struct bd_gen_list {
  const bd_access *x;
  LLVMValueRef offset;
  int64_t apart, extent;
} bd_gen_list;
// How many of its elements are at most p, i64 per lane, by halving (search.c).
LLVMValueRef bd_gen_count_at_most(bd_gen *g, const bd_gen_list *list, LLVMValueRef p);
// The logical index of a loop counted on from sample to sample of this rank, `sample` being the
// loop over these, inside lanes of another.
LLVMValueRef bd_gen_pooled(bd_gen *g, int sample, int loop);

// Whether one of `count` ops of the kernel's function, from `first` on, is of a kind.
bool bd_gen_has_kind(const bd_gen *g, int first, int count, bd_op_kind kind);

// One emitter per family; each emits the body of g->function.
typedef bd_status (*bd_gen_emitter)(bd_gen *g);
bd_status bd_gen_pointwise(bd_gen *g);
bd_status bd_gen_reduce_sum(bd_gen *g);
bd_status bd_gen_move(bd_gen *g); // broadcast, permute
bd_status bd_gen_reshape(bd_gen *g);
bd_status bd_gen_slice(bd_gen *g);
bd_status bd_gen_pad(bd_gen *g);
bd_status bd_gen_concat(bd_gen *g);
bd_status bd_gen_reduce(bd_gen *g); // what bd_gen_reduce_sum does not
bd_status bd_gen_cumsum(bd_gen *g);
bd_status bd_gen_topk(bd_gen *g);
bd_status bd_gen_unfold(bd_gen *g);
bd_status bd_gen_fold(bd_gen *g);
bd_status bd_gen_gather(bd_gen *g);
bd_status bd_gen_gather_dx(bd_gen *g);
bd_status bd_gen_scatter(bd_gen *g);
bd_status bd_gen_route(bd_gen *g);
bd_status bd_gen_search(bd_gen *g);
bd_status bd_gen_row_items(bd_gen *g);
bd_status bd_gen_layernorm(bd_gen *g);
bd_status bd_gen_layernorm_dx(bd_gen *g);
bd_status bd_gen_layernorm_dw(bd_gen *g);
bd_status bd_gen_rmsnorm(bd_gen *g);
bd_status bd_gen_rmsnorm_dx(bd_gen *g);
bd_status bd_gen_rmsnorm_dw(bd_gen *g);
bd_status bd_gen_embed(bd_gen *g);
bd_status bd_gen_rope(bd_gen *g);
bd_status bd_gen_lse(bd_gen *g);
bd_status bd_gen_xent(bd_gen *g);
bd_status bd_gen_xent_grad(bd_gen *g);
bd_status bd_gen_attention(bd_gen *g);      // GPU
bd_status bd_gen_attention_grad(bd_gen *g); // GPU
bd_status bd_gen_row_products(bd_gen *g);
bd_status bd_gen_sinks_grad(bd_gen *g);

// Elementwise kernels over the loops `order` (slowest first): merges loops that lie contiguously in
// every access, then runs `body` in lanes along the last.
typedef struct bd_gen_points {
  int loops;
  int order[BD_MAX_LOOPS];
  int access_count;
  bd_access **accesses;
  int64_t work; // of the body, elements; 0: one
  bool packs;   // the body loads and stores what lies at its point, and nothing else
  bool random;  // it draws random numbers
  bd_gen_body body;
  int ahead;     // and the next two: instead of the body, if set, as bd_gen_lanes_ahead has them
  int64_t bytes; // that `fetch` reads of an element; fewer groups than `ahead` where they are many
  bd_gen_group fetch, finish;
  void *user;
} bd_gen_points;
void bd_gen_elementwise(bd_gen *g, bd_gen_points *points);
// A loop of the kernel's own, whole on every rank.
int bd_gen_own_loop(bd_gen *g, int64_t extent);
// Whether two loops lie contiguously in all accesses, so that one may run over both.
bool bd_gen_can_merge(const bd_gen *g, int outer, int inner, int count, bd_access *const *accesses);
// Lets `inner`, which is not split, run over both loops. Whoever has accesses along `outer` takes
// that stride from them; that of `inner` times its extent it must have been.
void bd_gen_merge_loops(bd_gen *g, int outer, int inner);

// The arithmetic of one pointwise op on elements of type `dtype` in lanes, of f32 and f64
// (reals.c) or integers (whole.c); NULL when `op` has none there.
LLVMValueRef bd_gen_arithmetic(bd_gen *g, const bd_op *op, bd_dtype dtype, const LLVMValueRef *in);
LLVMValueRef bd_gen_reals(bd_gen *g, const bd_op *op, const LLVMValueRef *in);
LLVMValueRef bd_gen_whole(bd_gen *g, const bd_op *op, bool is_unsigned, const LLVMValueRef *in);
// Leaves one of the functions whose bodies are the same, and of the others their names (share.c).
void bd_gen_share_bodies(bd_ctx *ctx, bd_kernel_set *set);
#endif
