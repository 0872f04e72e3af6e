#include "cli/planning.h"
#include "cli/machine.h"
#include "cli/stop.h"
#include "ir/base/clock.h"
#include "planner/full/full.h"
#include "planner/told/groups.h"
#include <math.h>
#include <unistd.h>

enum { MOST_THREADS = 256 };
#define SECONDS_BETWEEN_LINES 0.2

// What the user sees of the search.
typedef struct view {
  bool terminal; // lines are written over one another
  double next;   // when the next line is due
  bd_plan_progress last;
} view;

static void print_line(const view *v) {
  const bd_plan_progress *p = &v->last;
  fprintf(stderr, "%splanning: %d setting%s, %d bounded, %d solved; ",
          v->terminal ? "\r\033[K" : "", p->settings, bd_plural(p->settings, "s"), p->bounded,
          p->solved);
  if (isfinite(p->step_seconds))
    fprintf(stderr, "step %.4g s, bound %.4g s, gap %.2f %%", p->step_seconds, p->bound_seconds,
            100 * (p->step_seconds / p->bound_seconds - 1));
  else
    fprintf(stderr, "no plan yet");
  if (!v->terminal) fputc('\n', stderr);
  fflush(stderr);
}

static void on_progress(void *user, const bd_plan_progress *progress) {
  view *v = user;
  v->last = *progress;
  if (bd_clock_seconds() < v->next) return;
  print_line(v);
  v->next = bd_clock_seconds() + SECONDS_BETWEEN_LINES;
}

bd_status bd_planning_read(bd_ctx *ctx, const bd_arguments *arguments, bd_plan_request *request) {
  int64_t threads = bd_machine_cores();
  int solver = BD_SOLVER_GLPK;
  BD_TRY(bd_argument_int(ctx, arguments, "--threads", 1, MOST_THREADS, &threads));
  BD_TRY(bd_argument_choice(ctx, arguments, "--solver", bd_solver_names, &solver));
  request->threads = (int)threads;
  request->solver = (bd_solver_kind)solver;
  if (bd_solver_built_in(request->solver)) return BD_OK;
  return bd_usage_fail(ctx, arguments, "this braid was built without the solver '%s'",
                       bd_solver_names[solver]);
}

bd_status bd_planning_search(bd_ctx *ctx, const bd_arguments *arguments, const bd_module *train,
                             const bd_cluster *cluster, bd_plan_request *request,
                             bd_plan *out_plan) {
  view v = {.terminal = isatty(STDERR_FILENO)};
  BD_TRY(bd_planning_read(ctx, arguments, request));
  request->stop = bd_stop_wish();
  if (v.terminal || bd_argument_flag(arguments, "--verbose")) {
    request->progress = on_progress;
    request->progress_user = &v;
  }
  v.next = v.terminal ? bd_clock_seconds() + SECONDS_BETWEEN_LINES : 0;
  bd_stop_wish_begin();
  bd_status status = (request->full ? bd_plan_search_full : bd_plan_search)(ctx, train, cluster,
                                                                            request, out_plan);
  if (status == BD_EXTERNAL && *request->stop) *arguments->exit_code = BD_EXIT_STOPPED + SIGINT;
  if (v.terminal)
    fprintf(stderr, "\r\033[K");
  else if (request->progress)
    print_line(&v);
  return status;
}

bd_status bd_planning_compare(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                              const bd_plan_request *request, bd_plan *plan,
                              bd_familiar_list *out_list) {
  bd_status status = bd_plan_compare_familiar(ctx, train, cluster, request, plan, out_list);
  bd_stop_wish_end();
  if (status == BD_OK && *request->stop && !plan->interrupted)
    bd_warn(ctx, BD_NOWHERE,
            "the interrupt came after the search: its plan is kept, and not compared with all "
            "familiar choices");
  return status;
}

bd_status bd_planning_tell_groups(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                                  const bd_plan_request *request, double limit_seconds,
                                  bd_plan *plan) {
  return plan ? bd_plan_tell_groups(ctx, train, cluster, request, limit_seconds, plan)
              : bd_plan_tell_fitting_groups(ctx, train, cluster, request, limit_seconds);
}

bd_status bd_planning_look(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                           bd_plan_request *request, bd_search_outcome *out_outcome) {
  request->stop = bd_stop_wish();
  bd_stop_wish_begin();
  bd_status status =
      (request->full ? bd_plan_look_full : bd_plan_look)(ctx, train, cluster, request, out_outcome);
  bd_stop_wish_end();
  return status;
}
