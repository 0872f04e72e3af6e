// Measuring this machine: programs are trained for a few steps with --profile, and the rates of a
// cluster are fitted to what their instructions took.
#ifndef BD_CLI_PROBE_H
#define BD_CLI_PROBE_H
#include "planner/cost.h"
#include "planner/planner.h"

// One instruction of a profiled program: ops [first, first + count) of a function of an spmd
// module.
typedef struct bd_probe_row {
  const bd_function *function;
  int first, count;
  bd_cost_model model; // whose cluster is the nominal one
  double seconds;      // of the shortest call: others also waited for ranks and other programs
  double weight;       // seconds of all calls
} bd_probe_row;

typedef struct bd_probe {
  int row_count, row_capacity;
  bd_probe_row *rows;
  double least_seconds;                // of any instruction
  double update_bytes, update_seconds; // of the ends of steps without collectives
} bd_probe;

// Plans `model`, with samples of `sequence` tokens, on `cluster` with `stages` stages on a mesh of
// the rest, builds the program in `folder`, trains it, and adds its rows. All lives in
// ctx->session.
BD_NODISCARD bd_status bd_probe_program(bd_ctx *ctx, const bd_cluster *cluster, const char *model,
                                        int64_t sequence, int stages, const char *folder,
                                        bd_probe *probe);

// The cluster with the rates that explain the rows best.
BD_NODISCARD bd_status bd_probe_fit(bd_ctx *ctx, const bd_probe *probe, const bd_cluster *nominal,
                                    bd_cluster *out_cluster);
#endif
