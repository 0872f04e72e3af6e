// Private to `braid compile`: what its request says, and the plan that it leads to.
#ifndef BD_CLI_COMPILE_H
#define BD_CLI_COMPILE_H
#include "cli/command.h"
#include "frontend/frontend.h"
#include "planner/planner.h"

typedef enum bd_emit_kind {
  BD_EMIT_GRAPH,
  BD_EMIT_TRAIN,
  BD_EMIT_PLAN,
  BD_EMIT_SHARDED,
  BD_EMIT_SPMD,
  BD_EMIT_EXEC,
  BD_EMIT_C,
  BD_EMIT_EXE
} bd_emit_kind;

typedef struct bd_compilation {
  const bd_arguments *arguments;
  bd_emit_kind emit;
  const char *out, *print_after;
  const char *target; // as given, or NULL
  bd_model_options model;
  bd_cluster cluster;
  bd_plan_request request;
  bd_constraints constraints; // of the request
  char *plan_data;            // of --plan
  size_t plan_bytes;
} bd_compilation;

// Whether this is a step that needs a plan, whose module --print-after shows as well; NULL is none.
bool bd_compile_is_step(const char *name);

// Everything that the arguments say but --plan and constraints; `arguments` is set. Warns where the
// program is for other devices than the cluster's.
BD_NODISCARD bd_status bd_compile_read_request(bd_ctx *ctx, bd_compilation *out_job);
// Programs do not run every schedule; refuses one that is only planned.
BD_NODISCARD bd_status bd_compile_check_schedule(bd_ctx *ctx, const bd_compilation *job);

// Reads --plan, if it is given. The plan names its precision and its target, which the training
// module must be for before the plan can be read in full.
BD_NODISCARD bd_status bd_compile_read_plan(bd_ctx *ctx, bd_compilation *job);
// The plan that is given, or the best one.
BD_NODISCARD bd_status bd_compile_make_plan(bd_ctx *ctx, bd_compilation *job,
                                            const bd_module *train, bd_plan *out_plan);
// What the plan file tells its readers beside the plan.
BD_NODISCARD bd_status bd_compile_describe_plan(bd_ctx *ctx, const bd_compilation *job,
                                                const bd_module *train, bd_plan *plan);
#endif
