// Independent tasks over threads. Every task has a context of its own, and what they report and
// make is taken in their order, so that nothing depends on the number of threads.
#ifndef BD_IR_BASE_WORKERS_H
#define BD_IR_BASE_WORKERS_H
#include "ir/base/context.h"

typedef struct bd_workers bd_workers;

// Tasks run on the calling thread and `threads` - 1 others; on fewer where the system refuses one.
// Each of the others calls `leave` (may be NULL) before it ends, for libraries that keep something
// per thread. Lives in ctx->arena; `slot` holds it until bd_workers_stop, which waits for the
// threads to end.
bd_workers *bd_workers_start(bd_ctx *ctx, bd_owned *slot, int threads, void (*leave)(void));
void bd_workers_stop(bd_ctx *ctx, bd_workers *workers, const bd_owned *slot);

typedef struct bd_work {
  int count; // of tasks
  // Runs task `index` on some thread; `ctx` is the task's own, and lives until `take` has returned.
  bd_status (*run)(bd_ctx *ctx, void *arg, int index);
  // Takes what task `index` made, on the calling thread, in order; NULL: there is nothing to take.
  void (*take)(bd_ctx *ctx, void *arg, int index);
  void *arg;
} bd_work;

// Runs all tasks. Returns the first failure in their order; from there on nothing is taken.
BD_NODISCARD bd_status bd_workers_run(bd_ctx *ctx, bd_workers *workers, const bd_work *work);
#endif
