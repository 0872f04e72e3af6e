// Seconds of ops, collectives and functions on a mesh of a cluster. docs/costs.md has the formulas
// and where their constants come from.
#ifndef BD_PLANNER_COST_COST_H
#define BD_PLANNER_COST_COST_H
#include "ir/cluster.h"
#include "ir/fuse.h"
#include "ir/index.h"
#include "ir/parts.h"
#include "ir/reshard.h"

typedef struct bd_cost_model {
  const bd_cluster *cluster;
  bd_mesh mesh; // of a stage; stages are laid out one after another over the cluster's devices
  int64_t micro_batch;
} bd_cost_model;

// A device that works as fast as so many of the cluster's together: what no split beats.
bd_cluster bd_cost_unite(const bd_cluster *cluster, int devices);

// Bytes per second of what a step ends with: norms, the update, clearing gradients.
double bd_cost_update_rate(const bd_cluster *cluster);
// Seconds of one kernel of those, which moves so many bytes.
double bd_cost_update_pass(const bd_cluster *cluster, double bytes);

// One message of `bytes` over a link: the faster of the way of short and of long messages.
double bd_cost_message(const bd_link *link, double bytes);

// A ring along `axis` as one link, for showing: the rate of large messages, and the mean latency of
// its steps. A ring over nodes with several ranks in each enters and leaves a node through the
// links of all of them.
bd_link bd_cost_link(const bd_cost_model *model, int axis);
// The slowest link between the ranks of two stages and their counterparts; that between nodes for
// stages beyond the cluster's devices.
bd_link bd_cost_stage_link(const bd_cost_model *model, int from, int to);

// A message of `bytes` per rank between two stages. The sender copies it and goes on
// (bd_cost_copy); its bytes move while the receiver waits for them (runtime/cpu/pipe.c,
// runtime/cuda/pipe.c).
double bd_cost_receive(const bd_cost_model *model, int from, int to, double bytes);

// The parts of bd_cost_receive.
typedef struct bd_transfer {
  double latency_seconds, move_seconds; // before the bytes move, and while they do
  bool between_nodes;                   // for some rank
} bd_transfer;
bd_transfer bd_cost_transfer(const bd_cost_model *model, int from, int to, double bytes);

// What a rank holds of a value.
double bd_cost_local_elements(const bd_cost_model *model, const bd_type *type,
                              const bd_sharding *sharding);
double bd_cost_local_bytes(const bd_cost_model *model, const bd_type *type,
                           const bd_sharding *sharding);
double bd_cost_value_bytes(const bd_cost_model *model, const bd_value *value);

// Reading `bytes` of memory and writing them elsewhere, and its launch.
double bd_cost_copy(const bd_cost_model *model, double bytes);

// Collectives along a mesh axis; `bytes` are those of the whole value: what each rank has before
// an all-reduce or a reduce-scatter, after an all-gather, and before as after an all-to-all. The
// least over the algorithms: ring over all ranks; rings within a node and then between nodes; for
// all-reduce also a tree between nodes and the sum inside the switch. Rings: Thakur, Rabenseifner
// and Gropp 2005, sections 4.1 to 4.5; trees: Sanders, Speck and Traff 2009.
double bd_cost_all_reduce(const bd_cost_model *model, int axis, double bytes);
double bd_cost_exchange(const bd_cost_model *model, int axis, double bytes); // gather or scatter
// The same between all ranks along a set of axes, as one collective.
double bd_cost_all_reduce_over(const bd_cost_model *model, unsigned axes, double bytes);
double bd_cost_exchange_over(const bd_cost_model *model, unsigned axes, double bytes);
double bd_cost_all_to_all(const bd_cost_model *model, int axis, double bytes);
// What each rank swaps with the one at the mirrored place along the axis, `bytes` each way: a
// message over the slowest of its links.
double bd_cost_mirror(const bd_cost_model *model, int axis, double bytes);

// One logical op under a split: the slower of arithmetic and memory traffic, and its launch. A
// part of an op never takes less than its share of the whole. Of a function under its strategy: a
// product is in 8 bits where it is marked for them.
double bd_cost_op(const bd_cost_model *model, const bd_function *function, const bd_op *op,
                  const bd_index_map *map, const int8_t split[BD_MAX_AXES]);
// The same before there is a strategy: what is marked stays so, or is in bf16 where
// bd_cost_prefers_bf16; attention takes no more than bd_cost_balanced_at_least.
double bd_cost_choose_op(const bd_cost_model *model, const bd_function *function, const bd_op *op,
                         const bd_index_map *map, const int8_t split[BD_MAX_AXES]);

// No attention of this split whose ranks swap halves of their queries (ir/balance.h) takes less:
// with what it makes of its results in any case, along the fastest axes of their sizes. INFINITY
// where they do not.
double bd_cost_balanced_at_least(const bd_cost_model *model, const bd_function *function,
                                 const bd_op *op, const bd_index_map *map,
                                 const int8_t split[BD_MAX_AXES]);

// Whether the rank's part of a product that is marked for 8 bits is to stay in bf16: on GPUs, where
// that takes less, or where its extents do not allow 8 bits.
bool bd_cost_prefers_bf16(const bd_cost_model *model, const bd_function *function, const bd_op *op,
                          const bd_index_map *map, const int8_t split[BD_MAX_AXES]);

// The arithmetic alone of bd_cost_op and of bd_cost_choose_op.
double bd_cost_arithmetic(const bd_cost_model *model, const bd_function *function, const bd_op *op,
                          const bd_index_map *map, const int8_t split[BD_MAX_AXES]);
double bd_cost_choose_arithmetic(const bd_cost_model *model, const bd_function *function,
                                 const bd_op *op, const bd_index_map *map,
                                 const int8_t split[BD_MAX_AXES]);

// One step of an spmd function under its fusion: a collective, or the slower of arithmetic and
// memory traffic.
BD_NODISCARD bd_status bd_cost_step(bd_ctx *ctx, const bd_cost_model *model,
                                    const bd_module *module, const bd_function *function,
                                    const bd_fusion *fusion, int step, double *out_seconds);

// One execution of an spmd function on one rank, step by step.
BD_NODISCARD bd_status bd_cost_function(bd_ctx *ctx, const bd_cost_model *model,
                                        const bd_module *module, const bd_function *function,
                                        double *out_seconds);

// The collectives that bring a value of this type from one sharding to another.
double bd_cost_reshard(const bd_cost_model *model, const bd_type *type, const bd_sharding *from,
                       const bd_sharding *to);
// One of them.
double bd_cost_reshard_step(const bd_cost_model *model, const bd_type *type,
                            const bd_reshard_step *step);

// One collective op of an spmd function.
double bd_cost_collective(const bd_cost_model *model, const bd_function *function, const bd_op *op);
// One of `parts` equal ones that it is done in.
double bd_cost_collective_part(const bd_cost_model *model, const bd_function *function,
                               const bd_op *op, int parts);

// Such a collective, or of one that sums a product in parts what is not hidden behind it: the
// seconds of both together less those of the whole product by itself.
BD_NODISCARD bd_status bd_cost_exposed(bd_ctx *ctx, const bd_cost_model *model,
                                       const bd_module *module, const bd_function *function,
                                       int collective, double *out_seconds);

// Whether programs of the module do products in parts on the cluster, where that pays.
bool bd_cost_has_parts(const bd_cost_model *model, const bd_module *module);

// Of product `product` of an spmd function and the collective that sums it, in parts: the first
// part, all others or the sums of those before them, whichever takes longer, and the last sum.
// While a collective is under way a product runs at the rate `product_beside` of the cluster.
double bd_cost_in_parts(const bd_cost_model *model, const bd_function *function, int product,
                        const bd_parts *parts);

// In how many parts it takes least; 1 unless that saves 2 % of what both take one after the other.
BD_NODISCARD bd_status bd_cost_choose_parts(bd_ctx *ctx, const bd_cost_model *model,
                                            const bd_module *module, const bd_function *function,
                                            int product, int *out_count);

// A product that may be done in parts: its seconds, and those that every part has of its own, its
// launch and the half of a wave of tiles that is left idle; INFINITY where it is never cut. A part
// takes no less than these and its share of the rest.
typedef struct bd_cut_product {
  double seconds, start_seconds;
} bd_cut_product;
bd_cut_product bd_cost_cut_product(const bd_cost_model *model, const bd_function *function,
                                   const bd_op *op, const bd_index_map *map,
                                   const int8_t split[BD_MAX_AXES]);

// No number of parts hides more, of such a product and a collective of so many seconds. Grows with
// the product, as its start falls, and with the collective, slower than that.
double bd_cost_hidden_at_most(const bd_cost_model *model, const bd_cut_product *product,
                              double collective);

// One op of an spmd module's main that is no call: a collective, a message, or a sum of gradients.
BD_NODISCARD bd_status bd_cost_main_op(bd_ctx *ctx, const bd_cost_model *model,
                                       const bd_function *main, const bd_op *op,
                                       double *out_seconds);
#endif
