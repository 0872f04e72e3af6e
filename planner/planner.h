// The planner: a train module and a cluster become a plan with its proven gap.
#ifndef BD_PLANNER_PLANNER_H
#define BD_PLANNER_PLANNER_H
#include "ir/partition.h"
#include "planner/constraints/constraints.h"
#include "planner/solver.h"
#include <signal.h>

// Where a search stands.
typedef struct bd_plan_progress {
  int settings, bounded, solved;
  double step_seconds; // of the plan in hand; INFINITY: there is none
  double bound_seconds;
} bd_plan_progress;

typedef struct bd_plan_request {
  const char *model, *target, *optimizer;
  bd_dtype precision;
  bd_masters masters;
  bd_gradients gradients;
  int64_t global_batch, sequence;
  int64_t cap_bytes;     // arena bytes a rank may use; 0: the cluster's
  double limit_seconds;  // of search
  bd_solver_kind solver; // of its integer programs
  int threads;           // that search; the plan does not depend on it
  // Set by a signal handler, it ends the search with the plan in hand; NULL: nobody does.
  const volatile sig_atomic_t *stop;
  // Called now and then, on the calling thread; NULL: not.
  void (*progress)(void *user, const bd_plan_progress *progress);
  void *progress_user;
  bool full; // also look beyond what codegen emits (planner/full/full.h)
  // Pins; 0 or NULL leave the choice open.
  int stages;
  int64_t micro_batch;
  bd_mesh mesh; // axes 0: open
  int schedule; // -1: open
  // -1: open; 0: nothing is split over replicas; 1: the optimizer's states; 2: gradients as well;
  // 3: weights as well, wherever that is possible
  int zero;
  int recompute;                     // -1: open; 0: save all; 1: recompute all that can be
  const bd_constraints *constraints; // more of them; NULL: none
  bool one_head; // libraries on GPUs have room for the gradients of one key-value head alone; else
                 // for more, and where nothing fits so or plans are much slower, for one
  bool any;      // the first plan that fits will do; how lean plans get is not wanted
  bool rough; // to compare with: pipelines are constructed where they can be, and where none fits,
              // the leanest that the search comes by will do
  bool exact; // of a rough search: pipelines are solved as in any other
  double slow_seconds; // of a rough search: of plans that take this long any will do; 0: of none
} bd_plan_request;

// What a search came to.
typedef struct bd_search_outcome {
  bool found;            // `plan` fits, with bound and alternatives
  bool cut;              // the time limit or an interrupt stopped the search
  bool interrupted;      // it was the latter
  int64_t lacking_bytes; // when none fits: by what `plan`, the leanest, exceeds the cap; 0: there
                         // is no plan that the request allows, whatever the cap
  int64_t cap_bytes;     // of a rank
  double deadline;       // of the clock (ir/base/clock.h): when the time limit is up
  bd_plan plan;
} bd_search_outcome;

// The search itself; that nothing fits is no error.
BD_NODISCARD bd_status bd_plan_look(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                                    const bd_plan_request *request, bd_search_outcome *out_outcome);

// Errors: BD_INFEASIBLE with the nearest plan and the bytes it lacks; BD_EXTERNAL when it was
// stopped before it had a plan.
BD_NODISCARD bd_status bd_plan_search(bd_ctx *ctx, const bd_module *train,
                                      const bd_cluster *cluster, const bd_plan_request *request,
                                      bd_plan *out_plan);

// Recomputes a plan's predictions (times, memory per stage) from the program it describes. Groups
// of a mixed cluster that a program has no devices of do not slow it down.
BD_NODISCARD bd_status bd_plan_predict(bd_ctx *ctx, const bd_module *train,
                                       const bd_cluster *cluster, bd_plan *plan);
#endif
