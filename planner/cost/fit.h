// Rates of a cluster from measured seconds of instructions: the formulas of docs/costs.md, read the
// other way.
#ifndef BD_PLANNER_COST_FIT_H
#define BD_PLANNER_COST_FIT_H
#include "planner/cost/cost.h"

// One instruction that was timed: ops [first, first + count) of a function of an spmd module.
typedef struct bd_fit_row {
  const bd_module *module;
  const bd_function *function;
  int first, count;
  bd_cost_model model; // on a cluster of as many devices; its rates are not used
  double seconds;      // of a call that neither waited for ranks nor for other programs
  double weight;       // seconds of all calls
} bd_fit_row;

// The end of a program's step: what it takes is update_bytes at the rate of the update, and its
// collectives, `latencies` and `link_bytes` of a link.
typedef struct bd_fit_end {
  double update_bytes, latencies, link_bytes, seconds;
} bd_fit_end;

enum { BD_FIT_MAX_ENDS = 64 };
typedef struct bd_fit_rows {
  int row_count, row_capacity, end_count;
  bd_fit_row *rows;
  bd_fit_end ends[BD_FIT_MAX_ENDS];
  double least_seconds; // of any instruction
} bd_fit_rows;

// `nominal` with the rates that explain the rows best, in relative terms, each row weighing as long
// as it took: of products, attention, every other op that stands alone somewhere or among ops that
// are known, memory, the update, and links. What no row tells of keeps its nominal rate. Errors:
// BD_INVALID when the rates are none that a cluster may have.
BD_NODISCARD bd_status bd_fit_rates(bd_ctx *ctx, const bd_fit_rows *measured,
                                    const bd_cluster *nominal, bd_cluster *out_cluster);

// `nominal` with rates scaled, each by one factor for the kind of work that goes by it, so that all
// rows of a kind take together what they took: products, attention forward and backward, all else
// by the memory's rate, collectives inside nodes and between them, the update. For GPUs and for
// several nodes, whose formulas have more terms than one program tells of. No rate changes by more
// than a factor of BD_FIT_MOST_SCALE. Errors as above.
#define BD_FIT_MOST_SCALE 8.0
BD_NODISCARD bd_status bd_fit_scales(bd_ctx *ctx, const bd_fit_rows *measured,
                                     const bd_cluster *nominal, bd_cluster *out_cluster);

// Whether the seconds of an op of this kind tell of links: those of messages between stages do not,
// which wait for these.
bool bd_fit_is_collective(bd_op_kind kind);

// Bytes per second of the step ends that have no collectives; 0: they tell of none.
double bd_fit_update_rate(const bd_fit_rows *measured);
#endif
