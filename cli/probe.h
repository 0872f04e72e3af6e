// Measuring this machine: programs are trained for a few steps with --profile, and the rates of a
// cluster are fitted to what their instructions took.
#ifndef BD_CLI_PROBE_H
#define BD_CLI_PROBE_H
#include "planner/cost/fit.h"

// How the devices share a program: the parts of ops, the samples, or the layers.
typedef enum bd_probe_cut { BD_PROBE_PARTS, BD_PROBE_DATA, BD_PROBE_STAGES } bd_probe_cut;

typedef struct bd_probe_case {
  const char *model;
  int64_t sequence; // tokens of a sample
  bd_probe_cut cut;
} bd_probe_case;

// Plans the model on all of `cluster`, builds the program in `folder`, trains it, and adds its
// rows, which live in ctx->session. Errors: BD_EXTERNAL when building or training fails.
BD_NODISCARD bd_status bd_probe_program(bd_ctx *ctx, const bd_cluster *cluster,
                                        const bd_probe_case *what, const char *folder,
                                        bd_fit_rows *rows);
#endif
