// Index rules made concrete: the loops of one op and how its operands and results touch them.
// Shapes, flops, sharding choices and the collectives they need all follow from this.
#ifndef BD_IR_INDEX_H
#define BD_IR_INDEX_H
#include "ir/module.h"

#define BD_MAX_LOOPS 12
#define BD_MAX_NAMED_ROWS 64 // that `route` sums for a place

typedef enum bd_loop_kind {
  BD_LOOP_PARALLEL, // splitting it splits every result that carries it
  BD_LOOP_SUM,      // splitting it leaves partial sums
  BD_LOOP_MAX,
  BD_LOOP_LSE,
  BD_LOOP_WHOLE, // cannot be split
} bd_loop_kind;

typedef struct bd_loop {
  char letter;
  bd_loop_kind kind;
  bool gather; // indexed by data: kernels compare the index with the rows a part holds
  bool exact;  // parts must be equal: a dimension holds a multiple of the extent (grouped heads),
               // or the op knows no padding (convolution, pooling, queries of attention)
  int unit;    // and multiples of this; 0: of 1
  // The loop within every index of which this one runs, as query heads do within a key-value head;
  // -1: none. Operands and results in `inner_in`, `inner_out` (bits number them) hold both in the
  // dimension of that loop, whose number stands in the map. Others lack this one.
  int8_t within;
  unsigned inner_in, inner_out;
  int64_t extent; // BD_DIM_BATCH for the symbolic batch
} bd_loop;

// For operand or result i and its dimension d: the loop that indexes it, or -1 (broadcast, window).
typedef struct bd_index_map {
  int loops;
  bd_loop loop[BD_MAX_LOOPS];
  int8_t in[BD_MAX_OPERANDS][BD_MAX_RANK];
  int8_t out[BD_MAX_RESULTS][BD_MAX_RANK];
} bd_index_map;

// Which element types the operands and results of an op have. Bits number operands or results.
// Statistics are held in at least f32, indices in i32 or i64; all other operands share a type,
// which the results get.
typedef struct bd_dtype_rule {
  unsigned elements; // the classes that this type may be of; 0: floats only
  bool no_f64;       // floats of at most 32 bits
  bool widens;       // the result may be f32 where the operands are halves: the attribute `dtype`
  bool narrows;      // statistics in the results may be of the operands' type: the same attribute
  bool names;        // the attribute `dtype` is the result's type
  unsigned index_in, bool_in, statistic_in;
  unsigned index_out, bool_out, statistic_out; // indices in results are i64
} bd_dtype_rule;
const bd_dtype_rule *bd_op_dtypes(bd_op_kind kind);
// Whether the op sums in f32 what it makes of halves and can round the sum to such a half itself,
// where its kernel adds to what is there as well.
bool bd_op_rounds_sums(bd_op_kind kind);

// The map of a logical op whose operand types are known; checks ranks and extents against the rule.
// Fills the result types (into `out_types`, BD_MAX_RESULTS of them) as well: this is shape
// inference. Errors: BD_INVALID at the op's place.
BD_NODISCARD bd_status bd_op_infer(bd_ctx *ctx, const bd_function *function, const bd_op *op,
                                   bd_index_map *out_map, bd_type *out_types);

int bd_index_find(const bd_index_map *map, char letter); // loop number or -1

// Splitting: loop per mesh axis (-1: the axis' ranks all do the same). What the op then needs of
// operand i and makes of result i. A result's loop that is absent from it and split gives the
// combiner's partial. Results of one op may be partial and sharded at once on different axes.
// One axis alone: not a whole loop, no rank without elements, equal parts of the batch.
bool bd_split_allowed(const bd_index_map *map, const bd_mesh *mesh, int64_t batch, int axis,
                      int loop);
// All axes together: each allowed, each nested, and a loop that several axes split divides exactly.
bool bd_split_valid(const bd_index_map *map, const bd_mesh *mesh, int64_t batch,
                    const int8_t split[BD_MAX_AXES]);
// Whether what `axis` splits are blocks of the dimensions that a loop shares with the one it runs
// within: the axes before it leave each rank one index of that one. True for other loops.
bool bd_split_nested(const bd_index_map *map, const bd_mesh *mesh, int64_t batch,
                     const int8_t split[BD_MAX_AXES], int axis);
bd_sharding bd_split_operand(const bd_index_map *map, const bd_mesh *mesh,
                             const int8_t split[BD_MAX_AXES], int operand);
bd_sharding bd_split_result(const bd_index_map *map, const bd_mesh *mesh,
                            const int8_t split[BD_MAX_AXES], int result);
// The mesh axes of several ranks that split a loop (bits), as the operands and results of an op of
// an spmd module lie.
unsigned bd_loop_axes(const bd_index_map *map, const bd_module *module, const bd_function *function,
                      const bd_op *op, int loop);

// Work of one execution on one rank under a split (padding included): floating-point operations
// (a multiply-add is two) and bytes read and written.
double bd_op_flops(const bd_function *function, const bd_op *op, const bd_index_map *map,
                   const bd_mesh *mesh, const int8_t split[BD_MAX_AXES], int64_t batch);
double bd_op_bytes(const bd_function *function, const bd_op *op, const bd_index_map *map,
                   const bd_mesh *mesh, const int8_t split[BD_MAX_AXES], int64_t batch);
#endif
